"""The codes of policy chronus in words; none of them is forgotten."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gsched.policy
from gsched.explain.deadline_reasons import (
    REFUSED,
    deadline_reason,
    gpu_time_words,
    refusal_reason,
)
from gsched.explain.policy_reasons import policy_reason
from gsched.policy.chronus_admission import NO_ROOM, ROOM, TOO_LATE

NINE = 1_796_634_000  # 2026-12-07T09:00 UTC
WINDOW: dict[str, Any] = {
    "deadline_time": NINE,
    "needed_gpu_s": 64 * 3600.0,
    "free_gpu_s": 24 * 3600.0,
    "window_start_time": NINE - 86400,
    "remaining_s": 8 * 3600.0,
    "num_gpus": 8,
    "jobs": ["41", "42_3"],
    "earliest_time": NINE + 3600,
}


@pytest.fixture(autouse=True)
def utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize(
    ("code", "params", "words"),
    [
        (
            "no-room",
            WINDOW,
            "until 2026-12-07T09:00+00:00 24.0 GPU-h are free, and it needs 64.0 GPU-h (8 GPUs, "
            "8:00:00); most of the rest is promised to jobs 41, 42_3",
        ),
        (
            "no-room",  # enough in sum, but never wide enough for long enough
            WINDOW | {"free_gpu_s": 64 * 3600.0, "jobs": []},
            "until 2026-12-07T09:00+00:00 64.0 GPU-h are free, yet not 8 GPUs at a time for "
            "8:00:00",
        ),
        (
            "no-room",
            WINDOW | {"jobs": ["41"], "gave_up": True},
            "until 2026-12-07T09:00+00:00 24.0 GPU-h are free, and it needs 64.0 GPU-h (8 GPUs, "
            "8:00:00); most of the rest is promised to job 41; the search for a plan ended by its "
            "time",
        ),
        (
            "room",
            {"smaller_share": 0.6, "remaining_s": 86400, "num_gpus": 32},
            "32 GPUs for 1-00:00:00 could be kept, but are left for smaller jobs, which of late "
            "have asked for 60 % of the GPUs",
        ),
        (
            "no-room",  # a status file is what somebody has written
            {"jobs": "all", "free_gpu_s": True, "deadline_time": 1e300},
            "until ? ? GPU-h are free, and it needs ? GPU-h (? GPUs, ?)",
        ),
        (
            "too-late",
            {"remaining_s": 7200, "deadline_time": NINE},
            "it needs 2:00:00 from now on, even on an empty cluster",
        ),
        (
            "too-wide",
            {"num_gpus": 64, "pool_gpus": 1},
            "it asks for 64 GPUs, and 1 GPU of its partition can be promised",
        ),
        (
            "nodes-lost",
            {"num_gpus": 16, "usable_gpus": 8, "pool_gpus": 16},
            "it asks for 16 GPUs, and of the 16 GPUs of its partition that can be promised 8 GPUs "
            "can be used now, for nodes are drained or down: submit it again when they are back",
        ),
        (
            "rule",
            {"rule": "user", "limit": 0},
            "its user may ask for no deadlines here ([deadlines] users)",
        ),
        (
            "rule",
            {"rule": "max_per_user", "limit": 4},
            "its user has as many targets as one may have: 4 ([deadlines] max_per_user)",
        ),
        (
            "rule",
            {"rule": "max_gpu_hours_per_user", "limit": 100.0},
            "with it the targets of its user would hold over 100 GPU-h "
            "([deadlines] max_gpu_hours_per_user)",
        ),
        (
            "rule",
            {"rule": "max_horizon_s", "limit": 2_592_000},
            "its deadline is further away than 30-00:00:00 ([deadlines] max_horizon_s)",
        ),
        ("rule", {"rule": "news"}, "the site's rules forbid it ([deadlines] news)"),
    ],
)
def test_a_refusal_says_why(code: str, params: dict[str, Any], words: str) -> None:
    assert refusal_reason(f"{REFUSED}{code}", params) == words
    in_the_queue = policy_reason(f"{REFUSED}{code}", params)
    assert in_the_queue == f"deadline refused, best effort: {words}"


@pytest.mark.parametrize(
    ("code", "params", "words"),
    [
        (
            "target",
            {"deadline_time": NINE, "start_time": NINE - 7200, "remaining_s": 3600.0,
             "source": "history", "is_due": False},
            "target for 2026-12-07T09:00+00:00: its turn comes by 2026-12-07T07:00+00:00 at the "
            "latest (1:00:00 left, by past jobs like it)",
        ),
        (
            "target",
            {"deadline_time": NINE, "remaining_s": 60, "source": "limit", "is_due": True,
             "start_time": NINE - 60},
            "target for 2026-12-07T09:00+00:00: its GPUs are due now (1:00 left, by its time "
            "limit)",
        ),
        (
            "target",  # lost nodes have left no room for it
            {"deadline_time": NINE, "remaining_s": 60, "source": "limit", "start_time": 0},
            "target for 2026-12-07T09:00+00:00: no time could be held for it (1:00 left, by its "
            "time limit)",
        ),
        (
            "spot",
            {"remaining_s": 90, "source": "heartbeat", "num_gpus": 2},
            "2 GPUs, 1:30 left, by its own pace and the steps that are left: short and narrow "
            "jobs first, with what no target needs",
        ),
        (
            "spot",
            {},
            "? GPUs, how long it runs is not known: short and narrow jobs first, with what no "
            "target needs",
        ),
        (
            "no-estimate",
            {"num_gpus": 1},
            "1 GPU, how long it runs is not known: after those of which it is",
        ),
        (
            "after-targets",
            {"free_until_time": NINE},
            "cannot give way, and targets need its GPUs from 2026-12-07T09:00+00:00 on",
        ),
        (
            "risk-held",
            {},
            "it is held, or waits for its begin time or another job: no GPUs are kept for it "
            "meanwhile",
        ),
        (
            "profiling",
            {"profile_s": 300},
            "nothing is known of it: runs first, for 5:00, to be measured",
        ),
    ],
)  # fmt: skip
def test_a_place_in_the_order_says_why(code: str, params: dict[str, Any], words: str) -> None:
    assert policy_reason(f"chronus.{code}", params) == words


@pytest.mark.parametrize(
    ("gpu_s", "words"),
    [(0, "0 GPU-s"), (359, "359 GPU-s"), (360, "0.1 GPU-h"), (7.2e6, "2,000.0 GPU-h")],
)
def test_gpu_time_in_a_fitting_unit(gpu_s: float, words: str) -> None:
    assert gpu_time_words(gpu_s) == words


def test_few_jobs_are_named_and_their_names_are_short() -> None:
    told = refusal_reason(f"{REFUSED}no-room", WINDOW | {"jobs": ["9" * 99, 2, 3, 4, 5, 6]})
    assert told is not None
    assert told.endswith(f"most of the rest is promised to jobs {'9' * 40}, 2, 3, 4, 5")


def test_every_code_of_the_policy_has_words() -> None:
    folder = Path(gsched.policy.__file__).parent
    text = "".join(path.read_text() for path in folder.glob("chronus*.py"))
    codes = set(re.findall(r'"(chronus\.[a-z][a-z-]*[a-z])"', text))
    refusals = {*re.findall(r'_No\("([a-z-]+)"', text), TOO_LATE, ROOM, NO_ROOM}
    assert codes
    assert len(refusals) > 4
    codes |= {f"{REFUSED}{rest}" for rest in refusals}
    assert {code for code in codes if deadline_reason(code, {}) is None} == set()


def test_other_codes_are_none_of_chronus() -> None:
    assert deadline_reason("edf.deadline", {}) is None
    assert policy_reason("chronus.of-a-later-release", {"x": 1}) == (
        "chronus.of-a-later-release (x 1)"
    )
