"""Orders under way: what a look says of them, and nodes that they missed."""

from __future__ import annotations

import pytest
from support.queue import node

from gsched.daemon.ces_orders import (
    LEFT,
    LOST,
    MAX_TRIES,
    OF_HELPER,
    OrderBook,
    SaverTimes,
)
from gsched.daemon.ces_sight import NodeSight
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeOrder, NodeOrderEntry, NodeVerb
from gsched.policy.ces_choice import RESERVED
from gsched.policy.ces_state import NodePower

T = 50_000
TIMES = SaverTimes()
SLEEP, WAKE = NodeVerb.SLEEP, NodeVerb.WAKE
INTENT, SENT = ChangeState.INTENT, ChangeState.SENT
CONFIRMED, VOID, REJECTED = ChangeState.CONFIRMED, ChangeState.VOID, ChangeState.REJECTED


def entry(verb=SLEEP, state=SENT, at=T, number=1, detail="", code="why") -> NodeOrderEntry:
    order = NodeOrder(f"o{number}", "n1", "p", verb, Reason(code), at, at + 60)
    return NodeOrderEntry(order, state, None if state.is_open else at, detail)


def book(*entries: NodeOrderEntry) -> OrderBook:
    return OrderBook(TIMES, 86400, entries)


def sight(power: NodePower, is_down: bool = False, boot_time: int | None = 1) -> NodeSight:
    return NodeSight(
        "n1", "p", power, False, is_down, False, node("n1"), frozenset(), boot_time, None
    )


AWAKE, FALLING, ASLEEP, WAKING = (
    NodePower.AWAKE, NodePower.FALLING, NodePower.ASLEEP, NodePower.WAKING
)  # fmt: skip


@pytest.mark.parametrize("state", [INTENT, SENT])
@pytest.mark.parametrize(
    ("verb", "seen", "after_s", "ends"),
    [
        (SLEEP, sight(FALLING), 1, CONFIRMED),
        (SLEEP, sight(ASLEEP), 1, CONFIRMED),
        (SLEEP, sight(WAKING), 1, CONFIRMED),
        (SLEEP, sight(AWAKE, boot_time=T + 5), 10, CONFIRMED),
        (SLEEP, sight(AWAKE), 30, None),
        (SLEEP, sight(AWAKE), 31, VOID),
        (SLEEP, sight(AWAKE, boot_time=None), 31, VOID),
        (SLEEP, sight(AWAKE), -31, VOID),
        (SLEEP, sight(AWAKE, is_down=True), 1, VOID),
        (SLEEP, None, 1, VOID),
        (WAKE, sight(WAKING), 1, CONFIRMED),
        (WAKE, sight(AWAKE), 1, CONFIRMED),
        (WAKE, sight(AWAKE, is_down=True), 1, CONFIRMED),
        (WAKE, sight(ASLEEP), 30, None),
        (WAKE, sight(ASLEEP), 31, VOID),
        (WAKE, sight(FALLING), 31, VOID),
    ],
)
def test_what_a_look_says(state, verb, seen, after_s, ends):
    known = book()
    known.take(entry(verb, state))
    told = known.judge(T + after_s, {"n1": seen} if seen else {})
    assert [end for _, end, _ in told] == ([ends] if ends else [])


def test_pauses_double_up_to_a_bound_and_then_the_node_is_left():
    known = book()
    pauses = []
    at = T
    for number in range(MAX_TRIES):
        known.take(entry(WAKE, VOID, at, number, LOST))
        reason = known.keep("n1", WAKE, at)
        assert reason is not None
        assert reason.params["tries"] == number + 1
        until = reason.params["until"]
        assert known.keep("n1", WAKE, until) is None
        pauses.append(until - at)
        at = until
    assert pauses == [60, 120, 240, 480, 86400]
    again = book(*(entry(WAKE, VOID, T + n, n, LOST) for n in range(MAX_TRIES)))
    assert again.given_up(T + 4 + 86399) == {"n1": f"wake: {LOST}"}
    assert again.given_up(T + 4 + 86400) == {}
    assert known.keep("n1", SLEEP, T) is None
    assert known.keep("n2", WAKE, T) is None


def test_one_that_was_confirmed_forgives():
    known = book(entry(state=VOID, detail=LOST), entry(state=CONFIRMED, at=T + 99, number=2))
    assert known.keep("n1", SLEEP, T + 100) is None


@pytest.mark.parametrize(
    ("state", "detail"),
    [
        (VOID, "not sent: it was decided too long ago"),
        (VOID, "it was so before"),
        (REJECTED, f"{OF_HELPER}no helper runs"),
    ],
)
def test_what_never_reached_the_node_is_not_held_against_it(state, detail):
    assert book(entry(state=state, detail=detail)).keep("n1", SLEEP, T) is None


def test_a_refusal_is_held_against_the_node_also_by_the_next_process():
    assert book(entry(state=REJECTED, detail="Invalid node state")).keep("n1", SLEEP, T)


def test_a_clock_that_was_set_back_ends_a_pause():
    known = book(entry(state=VOID, detail=LOST))
    assert known.keep("n1", SLEEP, T - 61) is None
    assert known.keep("n1", SLEEP, T - 60) is not None


def test_a_lost_order_may_still_be_carried_out_for_a_while():
    assert book(entry()).under_way(T) == {"n1": SLEEP}
    lost = book(entry(state=VOID, detail=LOST))
    assert lost.under_way(T + 900) == {"n1": SLEEP}
    assert lost.under_way(T + 901) == {}
    assert book(entry(state=CONFIRMED)).under_way(T) == {}
    assert book(entry(state=REJECTED, detail="no")).under_way(T) == {}


def test_wake_ups_that_came_to_nothing_are_owed():
    known = book(
        entry(WAKE, number=1), entry(WAKE, number=2), entry(WAKE, number=3),
        entry(SLEEP, number=4), entry(WAKE, number=5, code=RESERVED),
    )  # fmt: skip
    told = [("o1", VOID, LOST), ("o2", CONFIRMED, ""), ("o4", VOID, LOST), ("o5", VOID, LOST)]
    assert known.unwoken(told) == {"p": 1}
    assert known.unwoken([("o3", REJECTED, "no"), ("unknown", VOID, "")]) == {"p": 1}


def test_an_intent_that_another_process_left_is_told_by_the_first_look():
    known = book(entry(WAKE, INTENT), entry(WAKE, SENT, number=2))
    assert known.judge(T + 1, {"n1": sight(ASLEEP)}) == [("o1", VOID, LEFT)]
    assert [end for _, end, _ in known.judge(T + 1, {"n1": sight(WAKING)})] == [CONFIRMED] * 2
    known.settle([("o1", VOID, LEFT)], T + 1)
    assert known.keep("n1", WAKE, T + 2) is None
    known.settle([("o2", REJECTED, "no")], T + 1)
    assert known.under_way(T + 2) == {"n1": WAKE}  # a helper that stood still may have it yet
