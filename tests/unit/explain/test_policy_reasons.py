"""Reasons of policies in words."""

from __future__ import annotations

from typing import Any

import pytest

from gsched.explain.policy_reasons import policy_reason


@pytest.mark.parametrize(
    ("code", "params", "words"),
    [
        (
            "starving",
            {"waiting_since": 1_750_000_000, "bound_s": 604_800},
            "waits for longer than starvation_bound_s (7-00:00:00): before all jobs that do not",
        ),
        (
            "starving",  # a status file is what somebody has written
            {"bound_s": "soon"},
            "waits for longer than starvation_bound_s (?): before all jobs that do not",
        ),
        (
            "starving",
            {"bound_s": 60, "out_of_reach": True},
            "waits for longer than starvation_bound_s (1:00): moved up as far as max_shift allows, "
            "yet other factors keep a job that has not before it",
        ),
        (
            "qssf.last-order-stands",
            {},
            "nothing can be predicted for now: the last order stands",
        ),
        (
            "scope.several-policies",
            {"policies": "qssf, fifo"},
            "in partitions of several policies (qssf, fifo): median place",
        ),
        ("qssf.no-prediction", {}, "no prediction: keeps the median place"),
        ("fifo.first-submit", {"first_submit": 17}, "fifo.first-submit (first_submit 17)"),
        ("fewest-gpus.size", {"num_gpus": 2}, "fewest-gpus.size (num_gpus 2)"),
        ("clear", {"because": "opted-out"}, "taken back: opted-out"),
    ],
)
def test_a_reason_in_words(code: str, params: dict[str, Any], words: str) -> None:
    assert policy_reason(code, params) == words
