"""Freeze windows: the grammar, windows over midnight and the week's end, clocks that change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.config.freeze import parse_freeze
from gsched.config.loader import load
from gsched.errors import ConfigError

BERLIN = ZoneInfo("Europe/Berlin")


@pytest.fixture(autouse=True)
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def at(text: str, fold: int = 0) -> int:
    """Epoch of a time in Berlin."""
    return int(datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp())


@pytest.mark.parametrize(
    ("window", "inside", "outside"),
    [
        # Friday 2026-11-27
        ("Fri 16:00-Mon 08:00", ["2026-11-27T16:00", "2026-11-29T00:00", "2026-11-30T07:59"],
         ["2026-11-27T15:59", "2026-11-30T08:00", "2026-12-02T12:00"]),
        ("fri 16:00 - mon 08:00", ["2026-11-28T03:00"], ["2026-11-26T03:00"]),
        ("Sun 22:00-Sun 23:00", ["2026-11-29T22:30"], ["2026-11-29T23:00", "2026-11-28T22:30"]),
        ("Sun 22:00-06:00", ["2026-11-29T22:00", "2026-11-30T05:59"],
         ["2026-11-30T06:00", "2026-11-29T05:00"]),
        ("Tue 02:00-06:00", ["2026-12-01T02:00"], ["2026-12-02T02:00", "2026-12-01T06:00"]),
        ("22:00-06:00", ["2026-12-01T22:00", "2026-12-02T05:59", "2026-12-02T00:00"],
         ["2026-12-02T06:00", "2026-12-02T21:59"]),
        ("18:00-24:00", ["2026-12-01T23:59"], ["2026-12-02T00:00", "2026-12-01T17:59"]),
        ("00:00-24:00", ["2026-12-01T00:00", "2026-12-01T23:59"], []),
        ("Mon 00:00-Sun 24:00", ["2026-11-30T00:00", "2026-12-06T23:59"], []),
        ("2026-12-24T00:00/2027-01-02T00:00", ["2026-12-24T00:00", "2027-01-01T23:59"],
         ["2026-12-23T23:59", "2027-01-02T00:00"]),
    ],
)  # fmt: skip
def test_what_lies_in_a_window(window: str, inside: list[str], outside: list[str]) -> None:
    parsed = parse_freeze(window)
    assert [t for t in inside if parsed.ends(at(t)) is None] == []
    assert [t for t in outside if parsed.ends(at(t)) is not None] == []


def test_when_a_window_ends() -> None:
    assert parse_freeze("Fri 16:00-Mon 08:00").ends(at("2026-11-28T00:00")) == at(
        "2026-11-30T08:00"
    )
    assert parse_freeze("22:00-06:00").ends(at("2026-12-01T23:00")) == at("2026-12-02T06:00")


def test_clocks_that_change_make_a_window_longer_never_shorter() -> None:
    # 2026-03-29 02:00 becomes 03:00: 02:30 does not exist; 2026-10-25 03:00 becomes 02:00
    over_the_gap = parse_freeze("01:00-04:00")
    assert over_the_gap.ends(at("2026-03-29T01:30")) == at("2026-03-29T04:00")
    in_the_gap = parse_freeze("02:30-05:00")
    assert in_the_gap.ends(at("2026-03-29T03:00")) == at("2026-03-29T05:00")
    ends_in_the_gap = parse_freeze("00:00-02:30")
    assert ends_in_the_gap.ends(at("2026-03-29T03:00")) is not None
    twice = parse_freeze("00:00-02:30")
    assert twice.ends(at("2026-10-25T02:15", fold=1)) == at("2026-10-25T02:30", fold=1)
    assert twice.ends(at("2026-10-25T02:45")) is not None  # the hour comes again
    assert twice.ends(at("2026-10-25T02:30", fold=1)) is None
    weekly = parse_freeze("Sat 16:00-Mon 08:00")
    assert weekly.ends(at("2026-10-25T12:00")) == at("2026-10-26T08:00")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is no window of time"),
        ("Fri", "is no window of time"),
        ("Friday 16:00-Mon 08:00", "is no window of time"),
        ("Fri 16:00 Mon 08:00", "is no window of time"),
        ("25:00-06:00", "holds 25:00, which is no time of day"),
        ("24:00-06:00", "holds 24:00, which is no time of day"),
        ("22:60-06:00", "holds 22:60, which is no time of day"),
        ("22:00-24:30", "holds 24:30, which is no time of day"),
        ("22:00-22:00", "ends as it begins"),
        ("Fri 16:00-Fri 16:00", "ends as it begins"),
        ("2026-12-24T00:00/2026-12-24T00:00", "ends before it begins"),
        ("2026-12-24T00:00/2026-12-23T00:00", "ends before it begins"),
        ("2026-02-30T00:00/2026-12-24T00:00", "names a day or time that there is not"),
        ("٢٢:00-06:00", "is no window of time"),
        ("22:00-06:00\n", None),
    ],
)
def test_bad_windows_are_named(text: str, problem: str | None) -> None:
    if problem is None:
        assert parse_freeze(text).length_min == 8 * 60
        return
    with pytest.raises(ConfigError) as error:
        parse_freeze(text)
    assert error.value.message == f"{text!r} {problem}"
    assert "Fri 16:00-Mon 08:00" in error.value.hint


def test_a_bad_window_is_an_error_of_the_configuration(tmp_path: object) -> None:
    environ = {"GSCHED_DAEMON_FREEZE": "22:00-06:00, Fri 16-Mon 8"}
    with pytest.raises(ConfigError) as error:
        load(environ)
    expected = (
        "environment variable GSCHED_DAEMON_FREEZE: daemon.freeze: 'Fri 16-Mon 8' is no window"
    )
    assert error.value.message.startswith(expected)


@given(st.integers(0, 7 * 1440 - 1), st.integers(1, 7 * 1440 - 1), st.integers(0, 400 * 1440))
def test_a_week_is_cut_where_the_text_says(start: int, length: int, minute: int) -> None:
    """Against minutes of the wall clock counted by hand, away from changes of the clock."""
    days = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
    end = (start + length) % (7 * 1440)

    def words(m: int) -> str:
        return f"{days[m // 1440]} {m % 1440 // 60:02}:{m % 60:02}"

    now = datetime(2026, 1, 5) + timedelta(minutes=minute)  # a Monday
    near = [now + timedelta(days=d) for d in range(-8, 9)]
    if len({t.astimezone().utcoffset() for t in near}) > 1:
        return
    of_week = minute % (7 * 1440)
    expected = (of_week - start) % (7 * 1440) < length
    window = parse_freeze(f"{words(start)}-{words(end)}")
    assert (window.ends(now.timestamp()) is not None) == expected
