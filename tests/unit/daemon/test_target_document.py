"""What is told of a deadline has a shape, and what is read has it or is no answer."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import Any

import pytest
from support.whole_history import target

from gsched.daemon.status_file import parse_status
from gsched.daemon.target_books import bounded, joined
from gsched.daemon.target_document import (
    MAX_ALTERNATIVES,
    MAX_RUNS,
    is_refusal,
    is_target,
    refusal_document,
    target_document,
)
from gsched.model.decision import Alternative, PlannedRun, Reason
from gsched.model.target_records import Risk, TargetState

WHY = Reason(
    "chronus.risk-overrun",
    {"remaining_mean_s": 10.0, "remaining_s": 20.0, "quantile": 0.95, "source": "heartbeat",
     "used_gpu_s": 5.5, "jobs": ["8"]},
)  # fmt: skip
AT_RISK = replace(target(), risk=Risk.AT_RISK, warned=Risk.AT_RISK, warned_time=1600)
DECLINED = replace(
    target(),
    state=TargetState.REFUSED,
    promise=None,
    earliest=20_000,
    why="chronus.refused-no-room",
    params={"jobs": ["8"]},
    alternatives=(Alternative("later", 20_000, 4, 0.95),),
)


def test_a_promise_at_risk_tells_all_that_is_known_of_it():
    told = target_document(AT_RISK, WHY)
    assert told == {
        "state": "at-risk",
        "deadlines": [[9999, 100.0], [12_000, 50.0]],
        "num_gpus": 4,
        "plan": [[1500, 1600, 4], [1700, 1810, 4]],
        "finish_time": 1810,
        "probability": 0.85,
        "promised": {"finish_time": 1800, "probability": 0.9, "time": 1500},
        "budget_gpu_s": 4000.0,
        "warned": {"level": "at-risk", "time": 1600},
        "remaining": {"mean_s": 10.0, "safe_s": 20.0, "quantile": 0.95, "source": "heartbeat"},
        "used_gpu_s": 5.5,
        "risk": {"code": "chronus.risk-overrun", "params": dict(WHY.params)},
    }
    assert is_target(told)
    assert is_target(target_document(target(), None))


def test_long_plans_are_cut_and_it_is_said():
    runs = tuple(PlannedRun(100 * n, 100 * n + 50, 1) for n in range(30))
    told = target_document(replace(target(), plan=runs), None)
    assert (len(told["plan"]), told["plan_cut"]) == (MAX_RUNS, 6)
    assert is_target(told)


def _without(*path: str) -> Any:
    def damage(told: dict[str, Any]) -> None:
        for name in path[:-1]:
            told = told[name]
        del told[path[-1]]

    return damage


def _with(*path: Any) -> Any:
    def damage(told: dict[str, Any]) -> None:
        for name in path[:-2]:
            told = told[name]
        told[path[-2]] = path[-1]

    return damage


DAMAGE = [
    _without("state"),
    _without("deadlines"),
    _without("plan"),
    _without("probability"),
    _with("state", "dreaming"),
    _with("state", ["late"]),
    _with("deadlines", []),
    _with("deadlines", [[1, 2, 3]]),
    _with("deadlines", [["1", 2]]),
    _with("deadlines", [[1, 1]] * 65),
    _with("finish_time", "soon"),
    _with("finish_time", -1),
    _with("probability", None),
    _with("plan", [[1, 2]]),
    _with("plan", {"0": [1, 2, 3]}),
    _with("plan", [[1, 2, 3]] * (MAX_RUNS + 1)),
    _with("plan_cut", "6"),
    _with("budget_gpu_s", "much"),
    _with("promised", "all"),
    _without("promised", "probability"),
    _with("promised", "time", None),
    _with("remaining", {}),
    _with("remaining", "safe_s", "long"),
    _with("risk", "code", 5),
    _with("risk", "params", []),
    _with("warned", "level", "x"),
    _with("warned", "time", "now"),
    _with("pool", 5),
]


@pytest.mark.parametrize("damage", DAMAGE, ids=range(len(DAMAGE)))
def test_what_has_not_the_shape_is_no_answer(damage):
    told = copy.deepcopy(target_document(AT_RISK, WHY))
    damage(told)
    assert not is_target(told)


@pytest.mark.parametrize("told", [None, 5, [], "late"])
def test_what_is_no_object_is_no_answer(told):
    assert not is_target(told)


def test_a_refusal_tells_why_and_what_could_be():
    told = refusal_document(DECLINED)
    assert told == {
        "earliest": 20_000,
        "why": {"code": "chronus.refused-no-room", "params": {"jobs": ["8"]}},
        "alternatives": [
            {"kind": "later", "finish_time": 20_000, "num_gpus": 4, "probability": 0.95}
        ],
    }
    assert is_refusal(told)
    assert is_refusal({})
    assert refusal_document(DECLINED, private=True)["why"]["params"] == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"why": "because"},
        {"why": {"code": 1, "params": {}}},
        {"why": {"code": "x"}},
        {"alternatives": {}},
        {"alternatives": [{"kind": "sooner", "finish_time": 1, "num_gpus": 1, "probability": 1}]},
        {"alternatives": [{"kind": "later", "finish_time": "x", "num_gpus": 1, "probability": 1}]},
        {"alternatives": [{"kind": "later", "num_gpus": 1, "probability": 1}]},
        {
            "alternatives": [{"kind": "later", "finish_time": 1, "num_gpus": 1, "probability": 1}]
            * (MAX_ALTERNATIVES + 1)
        },
    ],
)
def test_a_refusal_of_another_shape_is_none(wrong):
    assert not is_refusal(wrong)
    job = {"submit_time": 1, "outcomes": [{"want": "deadline", "outcome": "refused",
                                           "reason": "x", **wrong}]}  # fmt: skip
    document = {"version": 1, "as_of": 1, "interval_s": 1, "jobs": {"7": job}}
    found = parse_status(json.dumps(document))
    assert found is not None
    assert found["jobs"] == {}


def test_runs_that_follow_each_other_are_one():
    runs = (
        PlannedRun(300, 400, 4),
        PlannedRun(100, 200, 4),
        PlannedRun(200, 250, 4),
        PlannedRun(400, 500, 2),
        PlannedRun(600, 600, 2),
        PlannedRun(700, 800, 0),
    )
    assert joined(runs) == (
        PlannedRun(100, 250, 4),
        PlannedRun(300, 400, 4),
        PlannedRun(400, 500, 2),
    )
    assert joined((PlannedRun(100, 200, 4), PlannedRun(100, 300, 2))) == (PlannedRun(100, 200, 4),)


def test_params_are_few_and_short():
    params = {
        "text": "x" * 1000,
        "jobs": ["y" * 1000, {"a": 1}, *range(100)],
        "inner": {"a": 1},
        "n": 1.5,
    }
    found = bounded(params)
    assert found["text"] == "x" * 256
    assert found["jobs"][0] == "y" * 256
    assert len(found["jobs"]) <= 32
    assert "inner" not in found
    assert found["n"] == 1.5
    assert len(bounded({str(n): n for n in range(100)})) == 32
