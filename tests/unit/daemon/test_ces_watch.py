"""Counts that are worth keeping, and jobs whose nodes had to wake first."""

from __future__ import annotations

from dataclasses import replace

from support.queue import node, row

from gsched.daemon.ces_sight import NodeSight
from gsched.daemon.ces_watch import CountBook, DelayBook, counts_of
from gsched.model.job import JobState
from gsched.model.node_power import PoolCount, WakeDelay
from gsched.policy.ces_state import CesNode, NodeExclusion, NodePower

T = 100_000
AWAKE, WAKING = NodePower.AWAKE, NodePower.WAKING


def test_each_node_is_counted_once():
    nodes = [
        CesNode("a", "p", AWAKE),
        CesNode("b", "p", AWAKE, is_running=True),
        CesNode("c", "p", WAKING, is_running=True),
        CesNode("d", "p", NodePower.FALLING, is_running=True),
        CesNode("e", "p", WAKING),
        CesNode("f", "p", NodePower.FALLING),
        CesNode("g", "p", NodePower.ASLEEP),
        CesNode("h", "p", NodePower.ASLEEP, exclusion=NodeExclusion.OTHERS),
        CesNode("i", "q", AWAKE, is_running=True, exclusion=NodeExclusion.SITE),
    ]
    assert counts_of(T, nodes, {"p": 2}) == {
        "p": PoolCount("p", T, 3, 1, 1, 1, 1, 1, 2),
        "q": PoolCount("q", T, 0, 0, 0, 0, 0, 1, 0),
    }


def test_a_count_is_kept_when_it_differs_and_now_and_then():
    book = CountBook(300)
    count = PoolCount("p", T, 1, 1, 1, 1, 1, 1, 0)

    def fresh(at: int, **changes) -> int:
        return len(book.fresh({"p": replace(count, time=at, **changes)}))

    assert [fresh(T), fresh(T + 30), fresh(T + 299), fresh(T + 300)] == [1, 0, 0, 1]
    assert [fresh(T + 330, asleep=2), fresh(T + 360, asleep=2)] == [1, 0]
    assert fresh(T - 9000, asleep=2) == 1  # a clock that was set back


def sights(**powers: NodePower) -> dict[str, NodeSight]:
    return {
        name: NodeSight(
            name, "p", power, True, False, False, node(name), frozenset(), None, None
        )
        for name, power in powers.items()
    }  # fmt: skip


def running(start: int, text: str = "RUNNING", nodes: str = "n1,n2", **facts):
    return row(
        7, state=JobState.RUNNING, state_text=text, start_time=start, node_list=nodes,
        submit_time=T - 500, eligible_time=T - 500, **facts,
    )  # fmt: skip


def see(book: DelayBook, now: int, *rows, slept="", last=True, **powers: NodePower):
    look = now - 30 if last else None
    return book.see(now, look, rows, sights(**powers), frozenset(slept.split()), int)


def test_a_job_waits_for_its_nodes_and_begins():
    book = DelayBook([])
    see(book, T - 30)
    job = running(T - 5, "CONFIGURING")
    (began,) = see(book, T, job, slept="n1", n1=WAKING, n2=AWAKE)
    assert began == WakeDelay("7", T - 500, "p", 1, T - 5, None)
    assert see(book, T + 30, job, slept="n1", n1=WAKING, n2=AWAKE) == []
    job = running(T + 50)  # Slurm sets the start anew
    (ended,) = see(book, T + 60, job, slept="n1", n1=AWAKE, n2=AWAKE)
    assert ended == replace(began, started_at=T + 50)
    assert ended.delay_s == 55
    assert see(book, T + 90, job, n1=AWAKE, n2=AWAKE) == []


def test_a_job_that_waited_between_two_looks():
    book = DelayBook([])
    see(book, T - 30)
    (delay,) = see(book, T, running(T - 4), slept="n1 n2", n1=AWAKE, n2=AWAKE)
    assert (delay.nodes_waking, delay.allocated_at, delay.started_at) == (2, T - 30, T - 4)
    late = DelayBook([])
    see(late, T - 30)
    job = replace(running(T - 4), eligible_time=T - 20)
    (delay,) = see(late, T, job, slept="n1", n1=AWAKE, n2=AWAKE)
    assert delay.delay_s == 16


def test_a_job_on_nodes_that_were_awake_is_not_delayed():
    book = DelayBook([])
    see(book, T - 30)
    assert see(book, T, running(T - 4), n1=AWAKE, n2=AWAKE) == []
    assert see(book, T + 30, running(T - 4), slept="n1", n1=AWAKE, n2=AWAKE) == []


def test_jobs_that_ran_before_anybody_looked_are_not_delayed_but_those_that_wait_are():
    assert see(DelayBook([]), T, running(T - 400), slept="n1", n1=AWAKE, last=False) == []
    configures = running(T - 5, "CONFIGURING")
    assert len(see(DelayBook([]), T, configures, slept="n1", n1=WAKING, last=False)) == 1


def test_another_process_goes_on_with_those_under_way():
    book = DelayBook([WakeDelay("7", T - 500, "p", 1, T - 90, None)])
    (ended,) = see(book, T, running(T - 3), last=False, n1=AWAKE, n2=AWAKE)
    assert (ended.allocated_at, ended.started_at) == (T - 90, T - 3)


def test_a_job_that_is_gone_or_requeued_has_not_begun():
    book = DelayBook([WakeDelay("7", T - 500, "p", 1, T - 90, None)])
    assert see(book, T, n1=AWAKE) == []
    assert see(book, T + 30, running(T - 3), n1=AWAKE, n2=AWAKE) == []
    book = DelayBook([WakeDelay("7", T - 9999, "p", 1, T - 90, None)])
    assert see(book, T, running(T - 3), n1=AWAKE, n2=AWAKE) == []


def test_a_host_list_that_is_not_understood_delays_nobody():
    book = DelayBook([])
    see(book, T - 30)
    assert see(book, T, running(T - 4, nodes="n[1-"), slept="n1", n1=WAKING) == []
