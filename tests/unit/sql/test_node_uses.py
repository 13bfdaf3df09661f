"""Which nodes past attempts held: by name, within a time, whatever Slurm has told of their ends."""

from __future__ import annotations

import random

import pytest
from support.history import CLUSTER, attempt, batch, pending, running
from support.servers import each_engine

from gsched.model.job import UNLIMITED_S, JobState
from gsched.model.node_use import NodeUse


def uses(history, *records, since=0, until=10_000, cluster=CLUSTER):
    history.ingest(batch(*records), source_key=None)
    return history.node_uses(cluster, since, until)


@each_engine
def test_attempts_that_held_nodes_in_a_time_by_start(history):
    times = {
        1: (100, 1000),  # over before it began
        2: (100, 1001),
        3: (1500, 1600),
        4: (1999, 9000),
        5: (2000, 9000),  # not begun
        6: (50, 9000),
    }
    told = [
        attempt(n, 10, start_time=start, end_time=end, node_list=f"n{n}")
        for n, (start, end) in times.items()
    ]
    found = uses(history, *told, pending(7, 20), since=1000, until=2000)
    assert found == [NodeUse(*times[n], 1, (f"n{n}",)) for n in (6, 2, 3, 4)]
    assert history.node_uses("gamma", 0, 10_000) == []


@each_engine
def test_each_cluster_has_its_own(history):
    told = [
        attempt(1, 1000, node_list="n1"),
        attempt(1, 1000, node_list="n2", cluster="beta"),
        running(2, 1000, node_list="n1"),
        running(2, 1000, node_list="n2", cluster="beta", time_limit_s=UNLIMITED_S),
        running(2, 3000, node_list="n3", cluster="gamma"),
    ]
    found = uses(history, *told, cluster="beta")
    ends = [(use.end, use.nodes) for use in found]
    assert sorted(ends, key=str) == [(1110, ("n2",)), (None, ("n2",))]


@each_engine
def test_nodes_have_their_real_names(history):
    lists = {
        "gn[01-03,07],cn5": ("cn5", "gn01", "gn02", "gn03", "gn07"),
        "n1": ("n1",),
        "n1,n1": ("n1",),
        "no[host list": (),
        None: (),
    }
    told = [
        attempt(n, 10 + n, node_list=text, num_nodes=9) for n, text in enumerate(lists, start=1)
    ]
    assert [use.nodes for use in uses(history, *told)] == list(lists.values())
    assert {use.num_nodes for use in history.node_uses(CLUSTER, 0, 10_000)} == {9}


def test_a_number_of_nodes_that_nobody_told_is_that_of_their_names(history):
    unnamed = attempt(1, 10, num_nodes=None, node_list=None)
    named = attempt(2, 20, num_nodes=None, node_list="n[1-3]")
    numbered = attempt(3, 30, num_nodes=2, node_list=None)
    found = uses(history, unnamed, named, numbered)
    assert [(use.num_nodes, use.nodes) for use in found] == [(3, ("n1", "n2", "n3")), (2, ())]


def test_every_attempt_of_a_job_counts(history):
    told = [
        attempt(1, 1000, state=JobState.REQUEUED, node_list="n1"),  # 1010 to 1110
        attempt(1, 1112, restarts=1, node_list="n2"),  # 1122 to 1222
        attempt(2, 1000, state=JobState.REQUEUED, node_list="n3"),  # and waits since
        pending(2, 1112, restarts=1),
        attempt(3, 1000, state=JobState.REVOKED, node_list="n4"),  # ran on another cluster
        attempt(4, 1000, start_time=None, node_list=None, state=JobState.CANCELLED),
        attempt(5, 1000, start_time=1200, node_list="n5"),  # the clock went back
    ]
    found = uses(history, *told)
    assert [(use.start, use.end, use.nodes) for use in found] == [
        (1010, 1110, ("n1",)),
        (1010, 1110, ("n3",)),
        (1122, 1222, ("n2",)),
    ]
    assert [use.nodes for use in history.node_uses(CLUSTER, 1109, 1111)] == [("n1",), ("n3",)]
    assert [use.nodes for use in history.node_uses(CLUSTER, 1110, 9000)] == [("n2",)]


@each_engine
def test_what_runs_has_no_end(history):
    told = [
        running(1, 1000, node_list="n1", time_limit_s=UNLIMITED_S),
        running(2, 1100, node_list="n2", time_limit_s=None),
        running(3, 1200, node_list="n3", time_limit_s=8790),  # is over when the time is
        running(4, 1300, node_list="n4", time_limit_s=3600),
        running(5, 1400, node_list="n5", time_limit_s=3600, state=JobState.SUSPENDED),
        running(6, 1500, node_list="n6", time_limit_s=None, state=JobState.COMPLETING, end_time=9),
        running(7, 9990, node_list="n7"),  # begins at the end of the time
    ]
    found = {use.nodes[0]: use.end for use in uses(history, *told)}
    assert found == {"n1": None, "n2": None, "n3": None, "n4": 4910, "n5": None, "n6": None}
    later = {use.nodes[0] for use in history.node_uses(CLUSTER, 4910, 10_000)}
    assert later == found.keys() - {"n4"}


@pytest.mark.parametrize("restarts", [None, 1])
def test_an_end_that_nobody_told_is_before_the_next_attempt(history, restarts):
    """Whether or not the next one is of the same job: an id is of one at a time."""
    told = [
        running(1, 1000, node_list="n1", time_limit_s=UNLIMITED_S),
        running(1, 3000, node_list="n2", time_limit_s=UNLIMITED_S, restarts=restarts),
        attempt(2, 1000, array_task=4, end_time=None, state=JobState.RUNNING, node_list="n3",
                time_limit_s=UNLIMITED_S),
        attempt(2, 5000, array_task=4, node_list="n4", restarts=restarts),
        running(2, 4000, array_task=5, node_list="n5", time_limit_s=UNLIMITED_S),
    ]  # fmt: skip
    found = {use.nodes[0]: use.end for use in uses(history, *told)}
    assert found == {"n1": 3000, "n2": None, "n3": 5000, "n4": 5110, "n5": None}


def test_a_state_that_holds_no_nodes_without_an_end_is_left_out(history):
    told = [
        attempt(n, 1000, end_time=None, state=state, state_text=state.value, node_list="n1")
        for n, state in enumerate(JobState, start=1)
    ]
    found = uses(history, *told)
    assert sorted((use.end for use in found), key=str) == [4610, None]  # runs, is suspended


@each_engine
def test_the_same_as_one_by_one(history):
    """Random jobs, requeued ones among them, against a plain reading of each record."""
    rng = random.Random(7)
    records = []
    for job in range(1, 400):
        submit = rng.randrange(0, 50_000)
        for number in range(rng.choice([1, 1, 1, 3])):
            start = submit + rng.randrange(0, 2000)
            end = start + rng.randrange(1, 20_000)
            first = rng.randrange(1, 90)
            last = first + rng.randrange(0, 9)
            records.append(
                attempt(job, submit, start_time=start, end_time=end, restarts=number,
                        state=JobState.REQUEUED if number < 2 else JobState.COMPLETED,
                        node_list=f"n[{first}-{last}]", num_nodes=last - first + 1)
            )  # fmt: skip
            submit = end
    history.ingest(batch(*records), source_key=None)
    for since, until in ((0, 100_000), (20_000, 30_000), (60_000, 60_001)):
        expected = []
        for r in records:
            if r.start_time < until and r.end_time > since:
                first, last = map(int, r.node_list[2:-1].split("-"))
                names = sorted(f"n{number}" for number in range(first, last + 1))
                expected.append((r.start_time, r.end_time, r.num_nodes, tuple(names)))
        found = [(u.start, u.end, u.num_nodes, u.nodes)
                 for u in history.node_uses(CLUSTER, since, until)]  # fmt: skip
        assert sorted(found) == sorted(expected)
        assert [use[0] for use in found] == sorted(use[0] for use in found)
