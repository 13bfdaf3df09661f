"""What is dropped from a policy's answer, and what is not."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, get_args

import pytest
from support.jobs import T0, snapshot, view

from gsched.engine.validate import Problem, validate
from gsched.model.decision import (
    Action,
    Admit,
    Decision,
    Grant,
    JsonValue,
    Place,
    Power,
    Rank,
    Reason,
    Refuse,
    Renew,
    Resize,
    Revoke,
    SetKnob,
    Share,
)
from gsched.model.job import Capability, Exclusion, JobKey, JobState

BARRED = (Exclusion(Capability.REORDER, "opted-out", "its user opted out"),)
WAITING, EXCLUDED, RUNNING = view(1), view(2, exclusions=BARRED), view(3, state=JobState.RUNNING)
STATE = replace(snapshot([WAITING, EXCLUDED, RUNNING]), seq=5)
GONE = JobKey("c", 99, epoch=T0)
EVERYTHING = frozenset(Capability)
WHY = Reason("x", {"num_gpus": 1})


def rank(key: float = 1.0, level: float = 0.0) -> Rank:
    return Rank("gpu", 1, 1, key, level)


def decision(**facts: Any) -> Decision:
    given: dict[str, Any] = {"order": {}, "actions": (), "reasons": {}, "memory": {}}
    return Decision(**(given | facts))


def problems_of(**facts: Any) -> tuple[Decision, tuple[Problem, ...]]:
    return validate(decision(**facts), STATE, EVERYTHING, T0)


# -- ranks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "good",
    [rank(), rank(level=1.0), rank(level=-1.0), rank(key=-3.5), rank(key=0.0)],
    ids=str,
)
def test_a_rank_within_bounds_stays(good: Rank) -> None:
    order = {WAITING.key: good}
    kept, problems = problems_of(order=order, reasons={WAITING.key: WHY})
    assert (kept.order, kept.reasons, problems) == (order, {WAITING.key: WHY}, ())


@pytest.mark.parametrize(
    ("key", "bad", "what"),
    [
        (GONE, rank(), "not in the snapshot"),
        (EXCLUDED.key, rank(), "not to be reordered"),
        (RUNNING.key, rank(), "not to be reordered"),
        (WAITING.key, rank(key=math.nan), "key is nan"),
        (WAITING.key, rank(key=math.inf), "key is inf"),
        (WAITING.key, rank(key=-math.inf), "key is -inf"),
        (WAITING.key, rank(level=math.nextafter(1.0, 2.0)), "outside -1..1"),
        (WAITING.key, rank(level=math.nextafter(-1.0, -2.0)), "outside -1..1"),
        (WAITING.key, rank(level=math.nan), "outside -1..1"),
        (WAITING.key, rank(level=math.inf), "outside -1..1"),
    ],
    ids=str,
)
def test_a_rank_that_does_not_fit_is_dropped_and_the_others_stay(
    key: JobKey, bad: Rank, what: str
) -> None:
    other = view(4)
    state = snapshot([WAITING, EXCLUDED, RUNNING, other])
    asked = decision(
        order={key: bad, other.key: rank()}, reasons={key: WHY, other.key: WHY}, next_wakeup=T0 + 9
    )
    kept, problems = validate(asked, state, EVERYTHING, T0)
    assert kept.order == {other.key: rank()}
    assert kept.next_wakeup == T0 + 9
    assert [(p.key, what in p.what) for p in problems] == [(key, True)]


def test_a_rank_without_a_reason_is_dropped() -> None:
    kept, problems = problems_of(order={WAITING.key: rank()}, reasons={EXCLUDED.key: WHY})
    assert kept.order == {}
    assert [(p.key, "without a reason" in p.what) for p in problems] == [(WAITING.key, True)]


NO_JSON = [math.nan, math.inf, -math.inf, object(), {1, 2}, [0, {"deep": math.nan}]]


@pytest.mark.parametrize("value", NO_JSON, ids=lambda v: str(v).partition(" at ")[0])
def test_a_rank_whose_reason_cannot_be_kept_is_dropped(value: JsonValue) -> None:
    order = {WAITING.key: rank()}
    kept, problems = problems_of(order=order, reasons={WAITING.key: Reason("x", {"p": value})})
    assert kept.order == {}
    assert WAITING.key not in kept.reasons
    assert [p.key for p in problems] == [WAITING.key]


@pytest.mark.parametrize("value", NO_JSON, ids=lambda v: str(v).partition(" at ")[0])
def test_memory_that_cannot_be_kept_is_reported_and_the_order_stays(value: JsonValue) -> None:
    order = {WAITING.key: rank()}
    kept, problems = problems_of(
        order=order, reasons={WAITING.key: WHY}, memory={"version": 1, "m": value}
    )
    assert kept.order == order
    json.dumps(dict(kept.memory), allow_nan=False)
    assert [(p.key, "memory" in p.what) for p in problems] == [(None, True)]


def test_memory_and_reasons_that_can_be_kept_are_kept() -> None:
    memory: dict[str, JsonValue] = {"a": [1, 2.5, None, {"é": True}]}
    reasons = {WAITING.key: Reason("x", {"s": "t", "n": None}), EXCLUDED.key: WHY}
    kept, problems = problems_of(memory=memory, reasons=reasons)
    assert (kept.memory, kept.reasons, problems) == (memory, reasons, ())


# -- actions --------------------------------------------------------------------------------


def actions(**facts: Any) -> list[tuple[Action, Capability]]:
    """One action of each kind, fit for STATE at T0, and what it needs."""
    given: dict[str, Any] = {
        "action_id": "a1",
        "key": WAITING.key,
        "attempt": WAITING.attempt,
        "after_seq": STATE.seq,
        "valid_until": T0,
        "undo": None,
    }
    base = given | facts
    return [
        (Grant(**base, length_s=3600), Capability.PREEMPT),
        (Renew(**base, length_s=3600), Capability.PREEMPT),
        (Revoke(**base, grace_s=30, beneficiary=None), Capability.PREEMPT),
        (Resize(**base, num_gpus=4), Capability.RESIZE),
        (Place(**base, nodes=("n1",), binding=False), Capability.PLACE),
        (Share(**base, mode="mps", group=()), Capability.SHARE),
        (Power(**base, nodes=("n1",), on=False), Capability.POWER),
        (Admit(**base, finish_time=T0 + 60, probability=0.9), Capability.ADMIT),
        (Refuse(**base, earliest=None), Capability.ADMIT),
        (SetKnob(**base, knob="span_octaves", value=4.0), Capability.TUNE),
    ]


def kind(value: object) -> str | None:
    return None if isinstance(value, Capability) else type(value).__name__


def test_the_table_below_has_every_kind_of_action() -> None:
    assert {type(a) for a, _ in actions()} == set(get_args(Action))


@pytest.mark.parametrize(("action", "needs"), actions(), ids=kind)
def test_an_action_needs_its_capability(action: Action, needs: Capability) -> None:
    asked = decision(actions=(action,))
    kept, problems = validate(asked, STATE, frozenset({needs}), T0)
    assert (kept.actions, problems) == ((action,), ())
    kept, problems = validate(asked, STATE, EVERYTHING - {needs}, T0)
    assert kept.actions == ()
    assert [p.key for p in problems] == [action.key]
    assert f"needs {needs.value}, which this backend cannot do" in problems[0].what


@pytest.mark.parametrize(("action", "needs"), actions(), ids=kind)
def test_a_backend_that_only_reorders_carries_out_no_action(
    action: Action, needs: Capability
) -> None:
    reorders = frozenset({Capability.REORDER})
    kept, problems = validate(decision(actions=(action,)), STATE, reorders, T0)
    assert kept.actions == ()
    assert [p.key for p in problems] == [action.key]


@pytest.mark.parametrize(
    ("facts", "what"),
    [
        ({"valid_until": T0}, None),
        ({"valid_until": T0 + 1}, None),
        ({"valid_until": T0 - 1}, "expired"),
        ({"after_seq": STATE.seq}, None),
        ({"after_seq": STATE.seq - 1}, None),
        ({"after_seq": STATE.seq + 1}, "later snapshot"),
        ({"attempt": WAITING.attempt + 1}, "another attempt"),
        ({"attempt": WAITING.attempt - 1}, "another attempt"),
        ({"key": RUNNING.key, "attempt": RUNNING.attempt}, None),
    ],
    ids=str,
)
@pytest.mark.parametrize("nth", range(len(actions())), ids=lambda n: kind(actions()[n][0]))
def test_what_makes_an_action_void(nth: int, facts: dict[str, Any], what: str | None) -> None:
    action, _ = actions(**facts)[nth]
    good, _ = actions(action_id="a2")[nth]
    kept, problems = problems_of(actions=(action, good))
    assert kept.actions == ((good,) if what else (action, good))
    assert [(p.key, str(what) in p.what) for p in problems] == (
        [(action.key, True)] if what else []
    )


BARRED_FROM_ALL = tuple(Exclusion(c, "opted-out", "its user opted out") for c in Capability)
LEFT_ALONE = view(4, exclusions=BARRED_FROM_ALL)


@pytest.mark.parametrize("nth", range(len(actions())), ids=lambda n: kind(actions()[n][0]))
def test_no_action_touches_a_job_that_is_left_alone(nth: int) -> None:
    state = replace(snapshot([WAITING, LEFT_ALONE]), seq=5)
    good, needs = actions()[nth]
    bad, _ = actions(key=LEFT_ALONE.key, attempt=LEFT_ALONE.attempt)[nth]
    kept, problems = validate(decision(actions=(bad, good)), state, EVERYTHING, T0)
    assert kept.actions == (good,)
    assert [(p.key, "left alone: opted-out" in p.what) for p in problems] == [(bad.key, True)]
    only = replace(LEFT_ALONE, exclusions=(Exclusion(needs, "cron", "a scrontab job"),))
    other = replace(
        LEFT_ALONE, exclusions=tuple(e for e in BARRED_FROM_ALL if e.capability is not needs)
    )
    for job, is_kept in ((only, False), (other, True)):
        state = replace(snapshot([job]), seq=5)
        kept, _ = validate(decision(actions=(bad,)), state, EVERYTHING, T0)
        assert bool(kept.actions) is is_kept


def test_nor_does_sharing_draw_it_in() -> None:
    state = replace(snapshot([WAITING, LEFT_ALONE]), seq=5)
    (share, _) = next(pair for pair in actions() if isinstance(pair[0], Share))
    for group in ((LEFT_ALONE.key,), (GONE,)):
        drawn = replace(share, group=(WAITING.key, *group))  # type: ignore[arg-type]
        kept, problems = validate(decision(actions=(drawn,)), state, EVERYTHING, T0)
        assert kept.actions == ()
        assert problems[0].key == WAITING.key
