"""Deadlines in words: promises, plans, estimates, refusals and what would be taken instead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from gsched.explain import target_words as words

AT = 1_796_634_000  # Monday, 2026-12-07T10:00 in Berlin
HOUR = 3600
TARGET: dict[str, Any] = {
    "state": "on-target",
    "deadlines": [[AT + 23 * HOUR, 100.0]],
    "finish_time": AT + 19 * HOUR + 1800,
    "probability": 0.934,
    "promised": {"finish_time": AT + 18 * HOUR, "probability": 0.95, "time": AT - 60},
    "budget_gpu_s": 16.0 * HOUR,
    "num_gpus": 4,
    "plan": [[AT + 16 * HOUR, AT + 18 * HOUR, 4], [AT + 18 * HOUR + 1800, AT + 20 * HOUR, 4]],
}


@pytest.fixture(autouse=True)
def berlin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("on-target", "on target with probability 0.93: should end by Tue 06:00"),
        ("at-risk", "at risk with probability 0.93: should end by Tue 06:00"),
        ("late", "late: its last deadline is over, should end by Tue 06:00"),
        ("of-a-later-release", "of-a-later-release with probability 0.93: should end by Tue 06:00"),
    ],
)
def test_how_a_promise_stands(state: str, text: str) -> None:
    assert words.target_words(TARGET | {"state": state}, AT) == text


def test_an_end_that_is_over_is_now_and_one_to_come_is_a_time() -> None:
    over = TARGET | {"plan": [[AT - 900, AT - 90, 4]]}
    assert words.target_words(over, AT).endswith("should end by now")
    at_hand = TARGET | {"plan": [[AT - 900, AT + 1, 4]]}
    assert words.target_words(at_hand, AT).endswith("should end by 10:00")
    assert words.plan_words(at_hand, AT) == "4 GPUs now–10:00"


@pytest.mark.parametrize(
    ("end", "state", "text"),
    [
        (AT, "COMPLETED", "met: it ended 1:00:00 before the deadline, 11:00"),
        (AT + HOUR + 60, "COMPLETED",
         "met: it ended 59:00 before a later one of its soft deadlines, 12:00"),
        (AT + 3 * HOUR, "COMPLETED", "missed by 1:00:00: it asked for an end by 12:00"),
        (AT + 3 * HOUR, "FAILED", "missed by 1:00:00: it asked for an end by 12:00"),
        (AT, "FAILED", "12:00 was not over yet: it is FAILED"),
    ],
)  # fmt: skip
def test_what_came_of_a_deadline(end: int, state: str, text: str) -> None:
    times = (AT + HOUR, AT + 2 * HOUR)
    assert words.end_of_target_words(times, end, state, AT + 4 * HOUR) == text


@pytest.mark.parametrize(
    ("told", "end"),
    [
        ({}, AT + 20 * HOUR),
        ({"plan_cut": 2}, AT + 19 * HOUR + 1800),  # its last part is not told
        ({"plan": []}, AT + 19 * HOUR + 1800),
        ({"plan": [], "finish_time": 2**33}, None),
    ],
)
def test_the_planned_end_is_that_of_the_plan_where_all_of_it_is_told(
    told: dict[str, Any], end: int | None
) -> None:
    assert words.planned_end(TARGET | told) == end


def test_that_nothing_can_be_planned_is_said() -> None:
    lost: dict[str, Any] = {"state": "at-risk", "deadlines": [[AT, 100.0]], "plan": []}
    assert words.target_words(lost, AT) == "at risk: no end can be planned"
    late = "late: its last deadline is over, no end can be planned"
    assert words.target_words(lost | {"state": "late", "probability": 0.1}, AT) == late


@pytest.mark.parametrize(("chance", "text"), [(1.0, "0.99"), (0.0, "0.01"), (0.5, "0.50")])
def test_nothing_is_certain(chance: float, text: str) -> None:
    assert words.chance_words(chance) == text


def test_soft_deadlines_are_told_with_what_they_count() -> None:
    assert words.deadlines_words(TARGET, AT) == "Tue 09:00"
    soft = TARGET | {"deadlines": [[AT + HOUR, 100.0], [AT + 48 * HOUR, 33.333]]}
    assert words.deadlines_words(soft, AT) == "11:00 (100), Wed 10:00 (33.3)"


def test_a_plan_names_gpus_once_and_days_where_they_change() -> None:
    assert words.plan_words(TARGET, AT) == "4 GPUs Tue 02:00–04:00, then Tue 04:30–06:00"
    runs = TARGET | {"plan": [[AT - 600, AT + HOUR, 1], [AT + 13 * HOUR, AT + 15 * HOUR, 2]]}
    assert words.plan_words(runs, AT) == "1 GPU now–11:00, then 2 GPUs 23:00–Tue 01:00"
    assert words.plan_words(TARGET | {"plan": []}, AT) == "no time is held for it"


def test_a_long_plan_is_cut_and_says_so() -> None:
    parts = [[AT + n * HOUR, AT + n * HOUR + 1800, 4] for n in range(1, 7)]
    told = words.plan_words(TARGET | {"plan": parts, "plan_cut": 3}, AT)
    assert told.endswith("then 14:00–14:30, and 5 later parts")
    assert words.plan_words(TARGET | {"plan": parts[:5]}, AT).endswith("and 1 later part")


def test_what_was_promised_and_how_much_of_it_is_used() -> None:
    promised = "an end by Tue 04:00 with probability 0.95, within 16.0 GPU-h"
    assert words.promise_words(TARGET, AT) == promised
    used = words.promise_words(TARGET | {"used_gpu_s": 240.0}, AT)
    assert used == f"{promised} (240 GPU-s of them are used)"
    assert words.promise_words({"state": "on-target"}, AT) == ""


def test_how_long_it_should_still_run_and_how_that_is_known() -> None:
    left = {"mean_s": 7200.0, "safe_s": 9000.0, "quantile": 0.95, "source": "heartbeat"}
    assert words.estimate_words({"remaining": left}) == (
        "2:00:00 left, 2:30:00 with 95 % certainty (by its own pace and the steps that are left)"
    )
    limit = {"mean_s": 7200.0, "safe_s": 7200.0, "source": "limit"}
    assert words.estimate_words({"remaining": limit}) == "2:00:00 left (by its time limit)"
    only_safe = {"safe_s": 7200.0, "quantile": "most", "source": 5}
    assert (
        words.estimate_words({"remaining": only_safe}) == "2:00:00 left with 90 % certainty (by ?)"
    )
    assert words.estimate_words(TARGET) == ""


RISKY = TARGET | {"state": "at-risk"}


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({}, "it may need longer than its plan has for it"),
        (
            {"plan": [], "risk": {"code": "chronus.risk-held", "params": {}}},
            "it is held, or waits for its begin time or another job: no GPUs are kept for it "
            "meanwhile",
        ),
        (
            {"plan": [], "finish_time": 2**33},
            "no GPUs can be held for it: nodes are lost, or others' promises need them",
        ),
        (
            {"plan": [[AT, AT + 24 * HOUR, 4]]},
            "its plan ends after its last deadline, Tue 09:00",
        ),
        ({"remaining": {"safe_s": 4 * HOUR}}, "it may need longer than its plan has for it"),
        (
            {"remaining": {"safe_s": 3 * HOUR}, "used_gpu_s": 5.0 * HOUR},
            "it may still need 12.0 GPU-h, more than is left of the 16.0 GPU-h that were promised: "
            "beyond that it gets what others leave",
        ),
    ],
)
def test_a_risk_is_told_as_far_as_it_can_be_seen(told: dict[str, Any], text: str) -> None:
    assert words.risk_words(RISKY | told, AT) == text
    assert words.risk_words(TARGET | told, AT) == ""


def test_several_risks_are_told_together() -> None:
    both = {"plan": [[AT, AT + 24 * HOUR, 4]], "remaining": {"safe_s": 5 * HOUR}}
    found = words.risk_words(TARGET | both | {"state": "late"}, AT)
    assert found.startswith("its plan ends after its last deadline, Tue 09:00; it may still need 2")


REFUSED = {
    "want": "deadline",
    "outcome": "refused",
    "reason": "policy chronus cannot keep it",
    "why": {"code": "chronus.refused-no-gpus", "params": {}},
}


def test_why_a_deadline_was_refused() -> None:
    assert words.refusal_words(REFUSED) == "it asks for no GPUs, and only GPUs are promised"
    plain = {"reason": "not planned: the daemon only observes"}
    assert words.refusal_words(plain) == plain["reason"]
    strange = REFUSED | {"why": {"code": "of-a-later-release", "params": {}}}
    assert words.refusal_words(strange) == "policy chronus cannot keep it"


def test_alternatives_can_be_asked_for_as_they_are_told() -> None:
    refused = {
        "alternatives": [
            {"kind": "later", "finish_time": AT + 1, "num_gpus": 8, "probability": 0.95},
            {"kind": "soft", "finish_time": AT + 60, "num_gpus": 8, "probability": 0.9},
            {"kind": "fewer-gpus", "finish_time": AT, "num_gpus": 4, "probability": 1.0},
            {"kind": "fewer-gpus", "finish_time": AT, "num_gpus": 1, "probability": 1.0},
        ]
    }
    later, soft, fewer, one = words.alternatives_words(refused, 8)
    assert later == "--gs-deadline 2026-12-07T10:01+01:00 (probability 0.95)"  # never sooner
    assert soft == "--gs-soft-deadline 2026-12-07T10:01+01:00=50 (probability 0.90)"
    why = {"code": "chronus.refused-no-room", "params": {"deadline_time": AT - 3600}}
    assert words.alternatives_words(refused | {"why": why})[1] == (
        "--gs-soft-deadline 2026-12-07T09:00+01:00=100 "
        "--gs-soft-deadline 2026-12-07T10:01+01:00=50 (probability 0.90)"
    )
    assert fewer == (
        "--gs-deadline 2026-12-07T10:00+01:00 with 4 instead of 8 GPUs, if each does as much as "
        "now (probability 0.99)"
    )
    assert " with 1 instead of 8 GPUs, " in one
    assert words.alternatives_words({}) == []
    assert " with 1 GPU, " in words.alternatives_words(refused)[3]
    told = words.alternatives_words(refused | {"earliest": AT + 1}, 8)
    assert told == [soft, fewer, one]  # the earliest end is told already


def test_what_became_of_the_deadline_among_outcomes() -> None:
    other = {"want": "phases", "outcome": "unused", "reason": "policy x does not use it"}
    none = {"want": "none", "outcome": "accepted", "reason": "?"}
    soft = REFUSED | {"want": "soft_deadlines"}
    assert words.deadline_outcome([other, none]) is None
    assert words.deadline_outcome([other, REFUSED]) is REFUSED
    assert words.deadline_outcome([other, soft]) is soft
