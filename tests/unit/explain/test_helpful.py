"""Which changes help: noticeably sooner, the most helpful first, and possible."""

from __future__ import annotations

from typing import Any

from gsched.explain.helpful import helpful_changes, limit_change, tried_changes

AT = 100_000


def change(option: str, median: int, kind: str = "gpus", value: str = "1") -> dict[str, Any]:
    start = {"median": median, "low": median - 10, "high": median + 10}
    return {"kind": kind, "option": option, "value": value, "start": start}


def answer(*tried: dict[str, Any], median: int | None = AT + 10_000, **more: Any) -> dict[str, Any]:
    start = {} if median is None else {"start": {"median": median}}
    return {**start, "changes": {"as_of": AT, "tried": list(tried)}, **more}


def options(*tried: dict[str, Any], median: int | None = AT + 10_000) -> list[str]:
    return [str(c["option"]) for c in helpful_changes(answer(*tried, median=median), AT)]


def test_the_most_helpful_comes_first() -> None:
    tried = change("b", AT + 500), change("c", AT), change("a", AT + 500)
    assert options(*tried) == ["c", "a", "b"]


def test_a_tenth_of_the_wait_is_the_least_that_helps() -> None:
    assert options(change("a", AT + 9_000), change("b", AT + 9_001)) == ["a"]
    assert options(change("later", AT + 20_000), change("same", AT + 10_000)) == []


def test_of_a_short_wait_it_is_a_minute() -> None:
    assert options(change("a", AT + 40), change("b", AT + 41), median=AT + 100) == ["a"]
    assert options(change("a", AT), median=AT) == []
    assert options(change("a", AT - 59), median=AT - 5000) == []  # overdue: nothing is sooner


def test_where_the_start_lies_beyond_the_forecast_each_that_has_one_helps() -> None:
    assert options(change("a", AT + 600_000), median=None) == ["a"]


def test_what_is_not_possible_helps_nobody_and_only_what_would_help_is_asked_about() -> None:
    asked = []

    def is_possible(tried: Any) -> bool:
        asked.append(tried["option"])
        return bool(tried["option"] != "closed")

    tried = change("closed", AT), change("open", AT + 5), change("late", AT + 9_999)
    found = helpful_changes(answer(*tried), AT, is_possible)
    assert [c["option"] for c in found] == ["open"]
    assert asked == ["closed", "open"]


def test_nothing_was_tried() -> None:
    assert tried_changes({}) == tried_changes({"changes": None}) == []
    assert helpful_changes({"start": {"median": AT + 100}}, AT) == []


def test_a_limit_is_advised_only_when_it_helps() -> None:
    shorter = change("--time=60", AT, "time-limit", "3600")
    advice = {"time_limit_s": 3600, "probability": 0.98}
    assert limit_change(answer(shorter, limit_advice=advice), AT) == shorter
    assert limit_change(answer(shorter), AT) is None
    assert limit_change(answer(shorter, median=AT, limit_advice=advice), AT) is None
    other = advice | {"time_limit_s": 60}
    assert limit_change(answer(shorter, limit_advice=other), AT) is None
