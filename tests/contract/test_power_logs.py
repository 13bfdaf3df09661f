"""One body for both records of sleeping nodes: what the daemon counts on, in memory and in SQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from support.memory_power_log import MemoryPowerLog
from support.servers import database_on

from gsched.engine.node_ports import PowerLog
from gsched.errors import GschedError
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import (
    NodeOrder,
    NodeOrderEntry,
    NodeVerb,
    PoolCount,
    PowerCause,
    PowerPhase,
    PowerSpan,
    WakeDelay,
)
from gsched_sql import History

INTENT, SENT, CONFIRMED = ChangeState.INTENT, ChangeState.SENT, ChangeState.CONFIRMED
VOID, REJECTED, OBSERVED = ChangeState.VOID, ChangeState.REJECTED, ChangeState.OBSERVED
REASON = Reason("ces.spare", {"idle": 5, "spare": 2, "forecast": 1.5, "node": "n1é"})
ORDER = NodeOrder("o1", "n1", "a100x8@gpu", NodeVerb.SLEEP, REASON, 5000, 5060)
SPAN = PowerSpan("n1", "a100x8@gpu", PowerPhase.ASLEEP, 5000, None, PowerCause.CES)
COUNT = PoolCount("a100x8@gpu", 5000, 1, 2, 3, 4, 5, 6, 7)
DELAY = WakeDelay("7_3", 4000, "a100x8@gpu", 2, 5000, None)


@pytest.fixture(params=["memory", "sqlite", "postgresql", "mariadb"])
def log(request: pytest.FixtureRequest) -> Iterator[PowerLog]:
    if request.param == "memory":
        yield MemoryPowerLog()
        return
    with database_on(request.param, request) as url, History.open(url) as history:
        fence = history.leadership("alpha").take("h1", "m1", 1, 60, 4000)
        yield history.power_log("alpha", fence)


def order(order_id: str, decided_at: int = 5000, **facts: Any) -> NodeOrder:
    return replace(ORDER, order_id=order_id, decided_at=decided_at, **facts)


def ids(entries: Any) -> list[str]:
    return [entry.order.order_id for entry in entries]


def test_memory_is_that_of_the_last_time(log: PowerLog) -> None:
    assert log.memory() == {}
    log.remember({"pools": {"a": [1, 2.5, None, True]}, "é": "x"})
    log.remember({"pools": {"b": [3]}})
    assert log.memory() == {"pools": {"b": [3]}}


def test_an_order_is_kept_as_it_was_given(log: PowerLog) -> None:
    wake = order("o2", verb=NodeVerb.WAKE, node="n2", pool="cpu64@batch,debug")
    log.record([ORDER, wake], INTENT)
    assert log.orders(5000, 5001) == [NodeOrderEntry(ORDER, INTENT), NodeOrderEntry(wake, INTENT)]
    assert log.unsettled() == log.orders(0, 9000)


def test_an_order_told_again_changes_nothing(log: PowerLog) -> None:
    log.record([ORDER], INTENT)
    log.settle([("o1", SENT, "")], 5001)
    log.record([replace(ORDER, node="n9"), order("o2")], INTENT)
    assert log.orders(0, 9000) == [
        NodeOrderEntry(ORDER, SENT, 5001),
        NodeOrderEntry(order("o2"), INTENT),
    ]
    log.record([], INTENT)
    log.settle([], 5002)


def test_an_order_begins_as_an_intent_or_is_observed(log: PowerLog) -> None:
    for state in set(ChangeState) - {INTENT, OBSERVED}:
        with pytest.raises(ValueError, match=f"not as {state.name}"):
            log.record([ORDER], state)
    assert log.orders(0, 9000) == []


def test_orders_go_from_their_intent_to_their_end(log: PowerLog) -> None:
    log.record([order("o1"), order("o2"), order("o3"), order("o4")], INTENT)
    log.record([order("o5")], OBSERVED)
    log.settle([("o1", SENT, ""), ("o2", SENT, ""), ("o3", REJECTED, "it is drained: é")], 5001)
    assert ids(log.unsettled()) == ["o1", "o2", "o4"]
    log.settle([("o1", CONFIRMED, "seen"), ("o2", VOID, "too late"), ("o4", VOID, "")], 5002)
    assert log.unsettled() == []
    found = {e.order.order_id: (e.state, e.settled_at, e.detail) for e in log.orders(0, 9000)}
    assert found == {
        "o1": (CONFIRMED, 5002, "seen"),
        "o2": (VOID, 5002, "too late"),
        "o3": (REJECTED, 5001, "it is drained: é"),
        "o4": (VOID, 5002, ""),
        "o5": (OBSERVED, None, ""),
    }


def test_two_steps_of_an_order_in_one_call(log: PowerLog) -> None:
    log.record([ORDER], INTENT)
    log.settle([("o1", SENT, ""), ("o1", CONFIRMED, "seen")], 5001)
    assert log.orders(0, 9000) == [NodeOrderEntry(ORDER, CONFIRMED, 5001, "seen")]
    log.settle([("o1", CONFIRMED, "seen")], 6000)  # nothing new
    assert log.orders(0, 9000) == [NodeOrderEntry(ORDER, CONFIRMED, 5001, "seen")]


@pytest.mark.parametrize("end", [CONFIRMED, REJECTED, VOID, OBSERVED])
def test_what_has_ended_stays_so_and_a_wrong_settling_changes_nothing(
    log: PowerLog, end: ChangeState
) -> None:
    log.record([order("o1")], OBSERVED if end is OBSERVED else INTENT)
    log.record([order("o2")], INTENT)
    if end is not OBSERVED:
        log.settle([("o1", end, "")], 5001)
    before = log.orders(0, 9000)
    for other in set(ChangeState) - {end}:
        with pytest.raises(GschedError, match=f"o1 is {end.value}, it cannot become {other.value}"):
            log.settle([("o2", SENT, ""), ("o1", other, "")], 5002)
    with pytest.raises(GschedError, match="no order o9"):
        log.settle([("o2", SENT, ""), ("o9", SENT, "")], 5002)
    assert log.orders(0, 9000) == before


def test_orders_of_a_time_come_by_age(log: PowerLog) -> None:
    log.record([order("late", 5200), order("early", 4900), order("first", 5000)], INTENT)
    log.record([order("second", 5000)], INTENT)
    assert ids(log.unsettled()) == ["early", "first", "second", "late"]
    assert ids(log.orders(5000, 5200)) == ["first", "second"]
    assert ids(log.orders(4900, 5001)) == ["early", "first", "second"]


def test_a_span_goes_on_and_ends(log: PowerLog) -> None:
    log.keep_spans([SPAN])
    assert log.open_spans() == [SPAN]
    ended = replace(SPAN, end=5600, cause=PowerCause.OTHERS, outcome="unknown", job="7_3")
    woken = replace(SPAN, phase=PowerPhase.WAKING, start=5600, cause=PowerCause.SLURM, job="8")
    log.keep_spans([ended, woken])
    log.keep_spans([woken])
    assert log.open_spans() == [woken]
    assert log.spans(0, 9000) == [ended, woken]
    log.keep_spans([])


def test_one_moment_may_begin_several_spans(log: PowerLog) -> None:
    falling = replace(SPAN, phase=PowerPhase.FALLING, end=5000)
    other = replace(SPAN, node="n0")
    for span in (SPAN, falling, other):
        log.keep_spans([span])
    assert log.spans(5000, 5001) == [other, SPAN, falling]  # by node, then the phase's name
    assert log.open_spans() == [other, SPAN]


def test_spans_of_a_time_are_those_that_it_meets(log: PowerLog) -> None:
    spans = [
        replace(SPAN, node=node, start=start, end=end)
        for node, start, end in (
            ("before", 100, 1000),
            ("into", 200, 1001),
            ("over", 300, 3000),
            ("open", 400, None),
            ("moment", 1000, 1000),
            ("within", 1200, 1300),
            ("out", 1999, 3000),
            ("after", 2000, 3000),
        )
    ]
    log.keep_spans(spans[::-1])
    found = [span.node for span in log.spans(1000, 2000)]
    assert found == ["into", "over", "open", "moment", "within", "out"]


def test_counts_of_a_time_and_the_one_before(log: PowerLog) -> None:
    times = {"a": (100, 200, 300, 400), "b": (150, 400), "c": (50, 90), "d": (500,)}
    counts = [replace(COUNT, pool=pool, time=at) for pool, some in times.items() for at in some]
    log.keep_counts(counts[::-1])
    assert [(c.pool, c.time) for c in log.counts(300, 400)] == [
        ("a", 200), ("a", 300), ("b", 150), ("c", 90),
    ]  # fmt: skip
    assert [(c.pool, c.time) for c in log.counts(0, 101)] == [("a", 100), ("c", 50), ("c", 90)]
    log.keep_counts([])


def test_a_count_told_again_takes_the_place_of_the_earlier_one(log: PowerLog) -> None:
    log.keep_counts([COUNT, replace(COUNT, pool="b")])
    log.keep_counts([replace(COUNT, running=9, wanted=0), replace(COUNT, time=5001)])
    assert log.counts(5000, 5002) == [
        replace(COUNT, running=9, wanted=0),
        replace(COUNT, time=5001),
        replace(COUNT, pool="b"),
    ]


def test_a_delay_ends_and_an_allocation_is_one(log: PowerLog) -> None:
    log.keep_delays([DELAY])
    ended = replace(DELAY, started_at=5290, nodes_waking=1)
    again = replace(DELAY, allocated_at=6000)
    log.keep_delays([ended, again, replace(DELAY, job="6")])
    assert log.delays(5000, 6001) == [replace(DELAY, job="6"), ended, again]
    assert log.delays(5001, 6000) == []
    assert log.delays(5000, 5001)[1].delay_s == 290
    log.keep_delays([])


def test_jobs_of_one_array_or_of_one_moment_are_several(log: PowerLog) -> None:
    for job in ("7", "7_3", "7_4", "8"):
        log.keep_delays([replace(DELAY, job=job)])
    assert [delay.job for delay in log.delays(0, 9000)] == ["7", "7_3", "7_4", "8"]


def test_the_last_of_two_tellings_in_one_call_counts(log: PowerLog) -> None:
    log.keep_spans([SPAN, replace(SPAN, end=5600)])
    log.keep_counts([COUNT, replace(COUNT, idle=9)])
    log.keep_delays([DELAY, replace(DELAY, started_at=5001)])
    log.record([ORDER, replace(ORDER, node="n9")], INTENT)
    assert [span.end for span in log.spans(0, 9000)] == [5600]
    assert [count.idle for count in log.counts(0, 9000)] == [9]
    assert [delay.started_at for delay in log.delays(0, 9000)] == [5001]
    assert [entry.order.node for entry in log.orders(0, 9000)] == ["n1"]  # the first
