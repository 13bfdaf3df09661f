"""What becomes of a request, honestly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.jobs import T0, view

from gsched.daemon.request_answers import answer_document
from gsched.model.decision import Action, Admit, Decision, Refuse
from gsched.model.job import Capability, Exclusion, JobView, Wants
from gsched.model.user_request import UserRequest

BASE: dict[str, Any] = {
    "action_id": "a",
    "attempt": T0,
    "after_seq": 0,
    "valid_until": T0,
    "undo": None,
}


def job(wants: Wants) -> JobView:
    return replace(view(7), wants=wants)


def answer(
    asked_by: JobView, *actions: Action, acting: bool = True, problem: str = ""
) -> dict[str, Any]:
    request = UserRequest(asked_by.key, "ann", "gs1{x}", asked_by.wants, T0 + 5)
    decision = Decision({}, actions, {}, {})
    return dict(answer_document(asked_by, decision, "qssf", acting, request, problem))


def outcomes(found: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {o["want"]: (o["outcome"], o["reason"]) for o in found["outcomes"]}


def test_without_a_request_there_is_nothing_to_refuse() -> None:
    decision = Decision({}, (), {}, {})
    assert answer_document(view(7), decision, "qssf", True, None, "") == {"accepted": True}


def test_the_request_is_echoed() -> None:
    found = answer(job(Wants(phases=("eval",))))
    assert found["request"] == {
        "token": "gs1{x}",
        "first_seen": T0 + 5,
        "unknown": 0,
        "wants": {"phases": ["eval"]},
    }


def test_hints_that_nobody_uses_are_no_refusal() -> None:
    found = answer(job(Wants(phases=("eval",), shareable=True)))
    unused = ("unused", "policy qssf does not use it")
    assert outcomes(found) == {"phases": unused, "shareable": unused}
    assert found["accepted"] is True


def test_checkpoints_are_seen_to_by_the_job_itself() -> None:
    found = answer(job(Wants(checkpoint=True)), acting=False)
    assert outcomes(found) == {"checkpoint": ("accepted", "the job's own script sees to it")}
    assert found["request"]["wants"] == {"checkpoint": True}
    assert found["accepted"] is True


def test_an_opt_out_is_granted_without_anything_to_do() -> None:
    found = answer(job(Wants(opt_out=True)), acting=False)
    assert outcomes(found) == {"none": ("accepted", "gsched keeps away from this job")}
    assert found["accepted"] is True


@pytest.mark.parametrize(
    ("want", "wants"),
    [("deadline", Wants(deadline=T0)), ("soft_deadlines", Wants(soft_deadlines=((T0, 1.0),)))],
)
def test_a_deadline_that_nobody_plans_is_refused(want: str, wants: Wants) -> None:
    found = answer(job(wants))
    reason = "not planned: policy qssf keeps no deadlines"
    assert outcomes(found) == {want: ("refused", reason)}
    assert found["accepted"] is False


def test_a_policys_promise_and_its_no() -> None:
    asked = job(Wants(deadline=T0 + 100))
    other = Admit(**BASE, key=view(8).key, finish_time=T0 + 1, probability=0.5)
    admit = Admit(**BASE, key=asked.key, finish_time=T0 + 90, probability=0.93)
    assert answer(asked, other)["accepted"] is False
    found = answer(asked, other, admit)
    assert found["accepted"] is True
    assert found["outcomes"] == [
        {
            "want": "deadline",
            "outcome": "accepted",
            "reason": "planned by policy qssf",
            "finish_time": T0 + 90,
            "probability": 0.93,
        }
    ]
    for earliest in (T0 + 500, None):
        found = answer(asked, Refuse(**BASE, key=asked.key, earliest=earliest))
        assert found["accepted"] is False
        assert found["outcomes"][0].get("earliest") == earliest
        assert outcomes(found)["deadline"] == ("refused", "policy qssf cannot keep it")


def test_who_only_observes_promises_nothing() -> None:
    asked = job(Wants(deadline=T0 + 100))
    admit = Admit(**BASE, key=asked.key, finish_time=T0 + 90, probability=0.93)
    found = answer(asked, admit, acting=False)
    assert outcomes(found)["deadline"] == ("refused", "not planned: the daemon only observes")


def test_of_a_job_that_is_left_alone_nothing_is_promised() -> None:
    why = (Exclusion(Capability.ADMIT, "cron", "a scrontab job"),)
    found = answer(replace(job(Wants(deadline=T0)), exclusions=why))
    reason = "gsched leaves this job alone: a scrontab job"
    assert outcomes(found)["deadline"] == ("refused", reason)


def test_a_wrong_token_is_no_success() -> None:
    decision = Decision({}, (), {}, {})
    found = answer_document(view(7), decision, "qssf", True, None, "more than one token")
    assert found == {"accepted": False, "request_problem": "more than one token"}
    earlier = answer(job(Wants(opt_out=True)), problem="more than one token")
    assert earlier["accepted"] is False
    assert outcomes(earlier)["none"][0] == "accepted"


# -- deadlines without an answer -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"awaits_profile": True}, "its profile runs are not over yet"),
        ({"waiting_tasks": 3}, "each task of the array is answered once Slurm splits it off"),
        (
            {"eligible": None},
            "it is not eligible yet: held, before its begin time, or waiting for another job",
        ),
        ({}, "policy chronus has not planned it yet"),
    ],
)
def test_a_deadline_that_may_still_be_answered_is_open(facts: dict[str, Any], reason: str) -> None:
    soft = ((T0 + 900, 1.0),)
    asked_by = replace(job(Wants(deadline=T0 + 600, soft_deadlines=soft)), **facts)
    request = UserRequest(asked_by.key, "ann", "gs1{x}", asked_by.wants, T0 + 5)
    found = dict(
        answer_document(
            asked_by, Decision({}, (), {}, {}), "chronus", True, request, "", keeps_deadlines=True
        )
    )
    expected = ("open", reason)
    assert outcomes(found) == {"deadline": expected, "soft_deadlines": expected}
    assert found["accepted"] is True  # nothing is refused


def test_a_policy_s_answer_comes_before_all_reasons_to_wait() -> None:
    asked_by = replace(job(Wants(deadline=T0 + 600)), eligible=None)
    admitted = Admit(**BASE, key=asked_by.key, finish_time=T0 + 500, probability=0.9)
    request = UserRequest(asked_by.key, "ann", "gs1{x}", asked_by.wants, T0 + 5)
    decision = Decision({}, (admitted,), {}, {})
    found = dict(
        answer_document(asked_by, decision, "chronus", True, request, "", keeps_deadlines=True)
    )
    assert outcomes(found) == {"deadline": ("accepted", "planned by policy chronus")}
