"""A job's lease in words."""

from __future__ import annotations

from typing import Any

import pytest

from gsched.explain.lease_words import gave_way_words, lease_words, unsaved_words
from gsched.explain.policy_reasons import policy_reason


@pytest.mark.parametrize(
    ("lease", "words"),
    [
        ({"state": "granted"}, "nobody takes its GPUs before that"),
        ({"state": "signalled", "beneficiary": "12_3"}, "has been told to save, for job 12_3"),
        ({"state": "saved"}, "about to be requeued"),
        ({"state": "of-a-later-release"}, "it is of-a-later-release"),
    ],
)
def test_what_the_end_of_a_lease_means(lease: dict[str, Any], words: str) -> None:
    assert words in lease_words(lease)


def test_for_whom_a_job_gave_way() -> None:
    assert gave_way_words({"beneficiary": "7"}).startswith("to job 7: its lease was over")
    assert gave_way_words({}).startswith("to another job: ")


def test_why_a_job_has_kept_its_gpus() -> None:
    assert unsaved_words({"state": "granted"}) == ""
    told = {"unsaved": {"at": 5, "why": "has not saved within 60 s"}}
    assert unsaved_words(told) == "its GPUs beyond its lease: it has not saved within 60 s"


def test_age_that_was_paid_back_is_in_the_reason() -> None:
    params = {"duration_s": 60.0, "repaid_points": 120, "repaid_wait_s": 7200}
    assert policy_reason("sjf.duration", params) == (
        "runs for 1:00; moved up by 120 points for 2:00:00 of waiting before its requeue"
    )
    assert policy_reason("sjf.duration", params | {"repaid_points": "many"}) == "runs for 1:00"
    assert policy_reason("sjf.duration", params | {"repaid_wait_s": None}).endswith("for ? of "
        "waiting before its requeue")  # fmt: skip
