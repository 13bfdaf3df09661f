"""A requeued job between two attempts, beside one whose user wants it to start later."""

from __future__ import annotations

import pytest
from support.queue import row

from gsched.explain.requeued import is_ending_to_start_again, requeue_delay
from gsched.model.job import JobState

WAIT_S = 121
DELAYED = {"reason": "BeginTime", "restarts": 2, "submit_time": 1000, "eligible_time": 1121}


def test_the_delay_and_its_end():
    delay = requeue_delay(row(7, **DELAYED), WAIT_S)
    assert delay is not None
    assert (delay.wait_s, delay.until) == (121, 1121)
    assert "2:01 from the end of its last attempt" in delay.words
    assert "2 restarts so far" in delay.words
    assert delay.end_words(1120).startswith("the end of that delay")
    assert delay.end_words(1121).startswith("that delay is over")


@pytest.mark.parametrize(
    "other",
    [
        {"restarts": 0},  # --begin
        {"reason": "Priority"},
        {"eligible_time": None},
        {"eligible_time": 1000},
        {"eligible_time": 1130},  # --begin, or scontrol update starttime, after the requeue
    ],
)
def test_what_is_none(other):
    assert requeue_delay(row(7, **{**DELAYED, **other}), WAIT_S) is None


@pytest.mark.parametrize(
    ("facts", "is_ending"),
    [
        ({"restarts": 1}, True),
        ({"restarts": 1, "end_time": 1501}, True),  # its limit, from now on
        ({"restarts": 1, "end_time": 1500}, False),  # it was requeued once, and ends for good now
        ({"restarts": 0}, False),
        ({"restarts": 1, "state": JobState.RUNNING}, False),
    ],
)
def test_a_job_that_ends_to_start_again(facts, is_ending):
    completing = {"state": JobState.COMPLETING, "start_time": 1400}
    assert is_ending_to_start_again(row(7, **{**completing, **facts}), 1500) is is_ending
