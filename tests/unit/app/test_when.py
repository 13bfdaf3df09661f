from __future__ import annotations

import time

import pytest

from gsched.app.when import parse_when
from gsched.errors import UsageError

NOW = 1_795_960_111  # 2026-11-29 13:48:31 UTC


@pytest.fixture(autouse=True)
def _berlin(monkeypatch):
    """A local time one hour ahead of UTC, where the clocks change."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


MIDNIGHT = 1_795_906_800  # 2026-11-29 00:00 in Berlin


@pytest.mark.parametrize(
    ("text", "epoch"),
    [
        ("2d", NOW - 172_800),
        ("6h", NOW - 21_600),
        ("90m", NOW - 5_400),
        ("30s", NOW - 30),
        ("1w", NOW - 604_800),
        ("now", NOW),
        ("now-1hour", NOW - 3600),
        ("now-2days", NOW - 172_800),
        ("now+1hour", NOW + 3600),
        ("now-60", NOW - 60),
        ("today", MIDNIGHT),
        ("midnight", MIDNIGHT),
        ("noon", MIDNIGHT + 43_200),
        ("13:00", MIDNIGHT + 46_800),
        (" 13:00:07 ", MIDNIGHT + 46_807),
        ("2026-11-29", MIDNIGHT),
        ("2026-11-29T13:00", MIDNIGHT + 46_800),
        ("2026-11-29 13:00:07", MIDNIGHT + 46_807),
        ("2026-11-29T13:00:00+00:00", MIDNIGHT + 50_400),
        ("2026-11-29T13:00:00Z", MIDNIGHT + 50_400),
        ("2026-07-01", 1_782_856_800),  # summer time
        ("11/29/26", MIDNIGHT),
        ("11/29/26-13:00", MIDNIGHT + 46_800),
        ("11/29/26-13:00:07", MIDNIGHT + 46_807),
    ],
)
def test_a_moment_in_any_of_its_spellings(text, epoch):
    assert parse_when(text, NOW) == epoch


@pytest.mark.parametrize(
    "text",
    ["", "nonsense", "2 d", "2dd", "25:00", "12:61", "2026-13-01", "13/29/26", "now-", "-2d"],
)
def test_anything_else_is_a_usage_error_that_shows_how(text):
    with pytest.raises(UsageError, match="not a time") as caught:
        parse_when(text, NOW)
    assert "2d" in caught.value.hint
