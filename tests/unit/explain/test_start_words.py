"""Expected starts in words: clock times near and far, what is at hand, and what is old."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from gsched.explain.start_words import (
    change_words,
    clock,
    end_words,
    limit_words,
    no_start_words,
    soon,
    span_words,
    start_words,
)


@pytest.fixture(autouse=True)
def berlin() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


def epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


AT = int(datetime(2026, 12, 2, 12, tzinfo=UTC).timestamp())
"""A Wednesday, 13:00 in Berlin."""


@pytest.mark.parametrize(
    ("moment", "shown"),
    [
        ("2026-12-02 14:05:59", "14:05"),
        ("2026-12-02 23:59:59", "23:59"),
        ("2026-12-03 00:00:00", "Thu 00:00"),
        ("2026-12-08 12:59:00", "Tue 12:59"),
        ("2026-12-09 00:00:00", "2026-12-09 00:00"),  # Wednesday again
        ("2026-12-01 23:59:00", "2026-12-01 23:59"),
        ("2027-12-02 13:00:00", "2027-12-02 13:00"),
    ],
)
def test_a_clock_time_is_unmistakable(moment: str, shown: str) -> None:
    assert clock(epoch(moment), AT) == shown


def test_a_day_is_a_day_of_the_calendar_also_when_clocks_change() -> None:
    evening = epoch("2026-10-24 23:30:00")  # the night that has 25 hours
    assert clock(evening + 3600, evening) == "Sun 00:30"
    assert clock(evening + 25 * 3600, evening) == "Sun 23:30"
    assert clock(evening + 26 * 3600, evening) == "Mon 00:30"


def test_what_is_at_hand_or_overdue_is_now() -> None:
    assert [soon(AT + s, AT) for s in (-86400, 0, 60, 61)] == ["now", "now", "now", "13:01"]


START = {"as_of": AT - 30, "median": AT + 3900, "low": AT + 3300, "high": AT + 6000,
         "coverage": 0.8, "calibrated_on": 0}  # fmt: skip


def test_a_start_has_its_interval_and_its_coverage() -> None:
    assert start_words(START, AT) == "14:05 (80 %: 13:55–14:40)"
    assert start_words(START | {"coverage": 0.5}, AT) == "14:05 (50 %: 13:55–14:40)"
    assert start_words(START | {"low": AT - 5}, AT) == "14:05 (80 %: now–14:40)"
    night = START | {"median": AT + 43200, "high": AT + 90000}
    assert start_words(night, AT) == "Thu 01:00 (80 %: 13:55–Thu 14:00)"
    without = {key: START[key] for key in ("median", "low", "high")}
    assert span_words(without, AT) == "14:05 (80 %: 13:55–14:40)"


def test_of_an_old_forecast_it_is_said_from_when_it_is() -> None:
    assert "as of" not in start_words(START | {"as_of": AT - 300}, AT)
    assert start_words(START | {"as_of": AT - 301}, AT).endswith("14:40), as of 12:54")


def test_what_should_have_started_is_overdue_and_not_now() -> None:
    late = START | {"as_of": AT - 240, "low": AT - 200, "median": AT - 150}
    assert start_words(late | {"high": AT - 60}, AT) == "now (80 %: now–now)"
    told = "overdue (80 %: before 12:58), as of 12:56"
    assert start_words(late | {"high": AT - 61}, AT) == told
    fewer = {"kind": "gpus", "option": "--gres=gpu:2", "value": "2",
             "start": late | {"high": AT - 61}}  # fmt: skip
    assert change_words(fewer, None, AT) == "--gres=gpu:2 → overdue"
    assert end_words(START, AT) == "should end 14:05 (80 %: 13:55–14:40)"
    assert end_words(fewer["start"], AT) == "should have ended before 12:58"


def test_what_a_forecast_does_not_consider_is_said() -> None:
    told = start_words(START | {"left_out": ["licences", "constraint", "news"]}, AT)
    assert told.endswith("14:40), without regard to licences and its --constraint and news")
    assert start_words(START | {"left_out": []}, AT).endswith("14:40)")


def test_why_there_is_no_start() -> None:
    assert no_start_words("never") == "it can never start as it asks"
    assert no_start_words("of-a-later-version") == "of-a-later-version"


SHORTER = {"kind": "time-limit", "option": "--time=3:00:00", "value": "10800",
           "start": {"median": AT + 1200, "low": AT, "high": AT + 2000}}  # fmt: skip
ADVICE = {"time_limit_s": 10800, "probability": 0.97, "asked_s": 172_800}


def test_a_change_and_when_it_would_let_the_job_start() -> None:
    fewer = {"kind": "gpus", "option": "--gres=gpu:2", "value": "2",
             "start": {"median": AT, "low": AT, "high": AT}}  # fmt: skip
    assert change_words(fewer, ADVICE, AT) == "--gres=gpu:2 → now"
    assert change_words(SHORTER, None, AT) == "--time=3:00:00 → 13:20"
    told = "--time=3:00:00 → 13:20 (long enough with probability 0.97)"
    assert change_words(SHORTER, ADVICE, AT) == told
    many = fewer | {"value": "10800"}  # GPUs, not seconds
    assert change_words(many, ADVICE, AT) == "--gres=gpu:2 → now"
    assert change_words(SHORTER, ADVICE | {"time_limit_s": 60}, AT) == "--time=3:00:00 → 13:20"


def test_the_advice_about_a_limit() -> None:
    helps = "--time=3:00:00 would help: expected start 13:20 (long enough with probability 0.97)"
    assert limit_words(SHORTER, ADVICE, AT) == f"your limit is 2-00:00:00; {helps}"
