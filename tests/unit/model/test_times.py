"""Moments in Slurm's grammar; the expected values were seen on Slurm's own parser."""

from __future__ import annotations

import contextlib
import time
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.errors import DataError
from gsched.model.times import Looking, parse_moment, parse_printed_time

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
KOLKATA = ZoneInfo("Asia/Kolkata")
ZONES = (BERLIN, NEW_YORK, KOLKATA, UTC, ZoneInfo("Australia/Lord_Howe"))
AHEAD, BACK = Looking.AHEAD, Looking.BACK


def at(text: str, zone: ZoneInfo = BERLIN) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp())


NOW = at("2026-11-29T16:11:17")


@pytest.mark.parametrize(
    ("text", "ahead", "back"),
    [
        ("now", "2026-11-29T16:11:17", "2026-11-29T16:11:17"),
        ("now+60", "2026-11-29T16:12:17", "2026-11-29T16:12:17"),
        ("now + 1 hour", "2026-11-29T17:11:17", "2026-11-29T17:11:17"),
        ("NOW+2minutes", "2026-11-29T16:13:17", "2026-11-29T16:13:17"),
        ("now-1day", "2026-11-28T16:11:17", "2026-11-28T16:11:17"),
        ("now+2weeks", "2026-12-13T16:11:17", "2026-12-13T16:11:17"),
        ("now+1second", "2026-11-29T16:11:18", "2026-11-29T16:11:18"),
        ("today", "2026-11-29T00:00", "2026-11-29T00:00"),
        ("Tomorrow", "2026-11-30T00:00", "2026-11-30T00:00"),
        # a clock time alone: the next one, or today's
        ("16:11:17", "2026-11-30T16:11:17", "2026-11-29T16:11:17"),
        ("16:11:18", "2026-11-29T16:11:18", "2026-11-29T16:11:18"),
        ("16:11", "2026-11-30T16:11", "2026-11-29T16:11"),
        ("17:00", "2026-11-29T17:00", "2026-11-29T17:00"),
        ("9:05", "2026-11-30T09:05", "2026-11-29T09:05"),
        ("midnight", "2026-11-30T00:00", "2026-11-29T00:00"),
        ("elevenses", "2026-11-30T11:00", "2026-11-29T11:00"),
        ("noon", "2026-11-30T12:00", "2026-11-29T12:00"),
        ("fika", "2026-11-30T15:00", "2026-11-29T15:00"),
        ("TEATIME", "2026-11-30T16:00", "2026-11-29T16:00"),
        ("4:00PM", "2026-11-30T16:00", "2026-11-29T16:00"),
        ("5:00 pm", "2026-11-29T17:00", "2026-11-29T17:00"),
        ("12:00AM", "2026-11-30T00:00", "2026-11-29T00:00"),
        ("12:30pm", "2026-11-30T12:30", "2026-11-29T12:30"),
        ("0:30PM", "2026-11-30T12:30", "2026-11-29T12:30"),
        # a day without a year: the next one, or last year's if its month is still to come
        ("0930", "2027-09-30T00:00", "2026-09-30T00:00"),
        ("1231", "2026-12-31T00:00", "2025-12-31T00:00"),
        ("12/31", "2026-12-31T00:00", "2025-12-31T00:00"),
        ("12.31.", "2026-12-31T00:00", "2025-12-31T00:00"),
        ("2/3", "2027-02-03T00:00", "2026-02-03T00:00"),
        ("11/30", "2026-11-30T00:00", "2026-11-30T00:00"),
        ("11/29", "2027-11-29T00:00", "2026-11-29T00:00"),
        ("1129-16:11:17", "2027-11-29T16:11:17", "2026-11-29T16:11:17"),
        ("1129-16:11:18", "2026-11-29T16:11:18", "2026-11-29T16:11:18"),
        ("12/31-12:00", "2026-12-31T12:00", "2025-12-31T12:00"),
        ("12:00 12/31", "2026-12-31T12:00", "2025-12-31T12:00"),
        # a whole date
        ("093026", "2026-09-30T00:00", "2026-09-30T00:00"),
        ("12/31/26", "2026-12-31T00:00", "2026-12-31T00:00"),
        ("12.31.26-12:00:30", "2026-12-31T12:00:30", "2026-12-31T12:00:30"),
        ("2026-12-31", "2026-12-31T00:00", "2026-12-31T00:00"),
        ("2026-12-31T12:00", "2026-12-31T12:00", "2026-12-31T12:00"),
        ("2026-12-31t12:00:30", "2026-12-31T12:00:30", "2026-12-31T12:00:30"),
        ("2026-12-31 noon", "2026-12-31T12:00", "2026-12-31T12:00"),
        ("2026-12-31-4:00PM", "2026-12-31T16:00", "2026-12-31T16:00"),
        ("tomorrow 12:00", "2026-11-30T12:00", "2026-11-30T12:00"),
        ("12:00 today", "2026-11-29T12:00", "2026-11-29T12:00"),
        (" 2026-12-31 ", "2026-12-31T00:00", "2026-12-31T00:00"),
        # ISO 8601 with an offset, which Slurm does not take
        ("2026-12-31T12:00Z", "2026-12-31T13:00", "2026-12-31T13:00"),
        ("2026-12-31T12:00:30.5+05:30", "2026-12-31T07:30:30", "2026-12-31T07:30:30"),
        ("2026-12-31 12:00+0530", "2026-12-31T07:30", "2026-12-31T07:30"),
        ("2026-12-31T12:00-01", "2026-12-31T14:00", "2026-12-31T14:00"),
    ],
)
def test_every_form_ahead_and_back(text, ahead, back):
    assert parse_moment(text, NOW, AHEAD, BERLIN) == at(ahead)
    assert parse_moment(text, NOW, BACK, BERLIN) == at(back)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("90m", 5400), ("6h", 21600), ("2d", 172800), ("1w", 604800)],
)
def test_ago_looks_back_only(text, seconds):
    assert parse_moment(text, NOW, BACK, BERLIN) == NOW - seconds
    with pytest.raises(DataError) as caught:
        parse_moment(text, NOW, AHEAD, BERLIN)
    assert "now+2days" in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["", "-", "7", "4PM", "16:0", "7:5", "24:00", "23:60", "23:59:60", "13:00PM", "100:00",
     "now+", "now+1h", "now+2min", "now+1.5hours", "now+-1", "nowx", "today+1", "yesterday",
     "monday", "31.12.", "13/01", "00/10", "1/0", "12/31/2026", "12/31/1", "12-31", "2026-1-2",
     "2026-13-01", "2026-12-31T12", "2026-12-31T24:00", "2026-12-31T12:00:30.5", "20261231",
     "2026/12/31", "1600000000", "uptime", "noonPM", "now tomorrow", "16:00x", "١٢:٠٠",
     "2026-12-31T12:00+", "2026-12-31T12:00+25:00"],
)  # fmt: skip
@pytest.mark.parametrize("looking", Looking)
def test_what_slurm_refuses_is_refused(text, looking):
    with pytest.raises(DataError, match="not a time"):
        parse_moment(text, NOW, looking, BERLIN)


@pytest.mark.parametrize("text", ["02/30", "0231", "2026-02-29", "11/31", "2026-11-31T12:00"])
@pytest.mark.parametrize("looking", Looking)
def test_a_day_that_no_calendar_has_is_refused_where_slurm_takes_another(text, looking):
    with pytest.raises(DataError, match="not a time"):
        parse_moment(text, NOW, looking, BERLIN)


def test_29_february_exists_in_leap_years():
    january_2028 = at("2028-01-29T16:11:17")
    assert parse_moment("02/29", january_2028, AHEAD, BERLIN) == at("2028-02-29T00:00")
    with pytest.raises(DataError):
        parse_moment("02/29", NOW, AHEAD, BERLIN)  # the next one would be in 2027


@pytest.mark.parametrize("text", ["now+99999999999days", "now-99999999999weeks", "9999999w"])
def test_years_beyond_the_calendar_are_refused(text):
    with pytest.raises(DataError, match="not a time"):
        parse_moment(text, NOW, BACK, BERLIN)


@pytest.mark.parametrize(
    ("zone", "text", "with_offset"),
    [
        # left out by the change to summer time: as long after the change
        (BERLIN, "2026-03-29T02:30", "2026-03-29T03:30+02:00"),
        (NEW_YORK, "2026-03-08T02:30", "2026-03-08T03:30-04:00"),
        (ZoneInfo("Australia/Lord_Howe"), "2026-10-04T02:15", "2026-10-04T02:45+11:00"),
        # comes twice: east of Greenwich the second, west of it the first
        (BERLIN, "2026-10-25T02:30", "2026-10-25T02:30+01:00"),
        (ZoneInfo("Europe/London"), "2026-10-25T01:30", "2026-10-25T01:30+00:00"),
        (ZoneInfo("Australia/Lord_Howe"), "2026-04-05T01:45", "2026-04-05T01:45+10:30"),
        (NEW_YORK, "2026-11-01T01:30", "2026-11-01T01:30-04:00"),
        (ZoneInfo("Atlantic/Azores"), "2026-10-25T00:30", "2026-10-25T00:30+00:00"),
        # about the changes, and where there is none
        (BERLIN, "2026-03-29T01:59:59", "2026-03-29T01:59:59+01:00"),
        (BERLIN, "2026-03-29T03:00", "2026-03-29T03:00+02:00"),
        (BERLIN, "2026-10-25T01:59", "2026-10-25T01:59+02:00"),
        (BERLIN, "2026-10-25T03:00", "2026-10-25T03:00+01:00"),
        (KOLKATA, "2026-03-29T02:30", "2026-03-29T02:30+05:30"),
    ],
)
def test_local_times_at_the_clock_changes(zone, text, with_offset, monkeypatch):
    epoch = int(datetime.fromisoformat(with_offset).timestamp())
    assert parse_moment(text, NOW, AHEAD, zone) == epoch
    # … and where the zone is that of the process
    monkeypatch.setenv("TZ", zone.key)
    time.tzset()
    try:
        assert parse_moment(text, NOW, AHEAD) == epoch
        assert parse_printed_time(f"{text}:00"[:19]) == epoch
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("now", "text", "ahead", "back"),
    [
        # the day before, the night and the day of each change
        ("2026-03-28T12:00+01:00", "02:30", "2026-03-29T03:30+02:00", "2026-03-28T02:30+01:00"),
        ("2026-03-28T12:00+01:00", "10:00", "2026-03-29T10:00+02:00", "2026-03-28T10:00+01:00"),
        ("2026-03-28T12:00+01:00", "now+1day", "2026-03-29T13:00+02:00", "2026-03-29T13:00+02:00"),
        ("2026-03-29T01:30+01:00", "02:30", "2026-03-29T03:30+02:00", "2026-03-29T03:30+02:00"),
        ("2026-03-29T12:00+02:00", "today", "2026-03-29T00:00+01:00", "2026-03-29T00:00+01:00"),
        ("2026-10-24T12:00+02:00", "02:30", "2026-10-25T02:30+01:00", "2026-10-24T02:30+02:00"),
        ("2026-10-24T12:00+02:00", "now+1day", "2026-10-25T11:00+01:00", "2026-10-25T11:00+01:00"),
        ("2026-10-25T02:45+02:00", "02:30", "2026-10-26T02:30+01:00", "2026-10-25T02:30+01:00"),
        ("2026-10-25T02:45+02:00", "02:50", "2026-10-25T02:50+01:00", "2026-10-25T02:50+01:00"),
        ("2026-10-25T02:15+01:00", "02:10", "2026-10-26T02:10+01:00", "2026-10-25T02:10+01:00"),
        ("2026-10-25T12:00+01:00", "midnight", "2026-10-26T00:00+01:00", "2026-10-25T00:00+02:00"),
    ],
)
def test_seen_from_about_a_clock_change(now, text, ahead, back):
    seen_from = datetime.fromisoformat(now).timestamp()
    for looking, expected in ((AHEAD, ahead), (BACK, back)):
        epoch = int(datetime.fromisoformat(expected).timestamp())
        assert parse_moment(text, seen_from, looking, BERLIN) == epoch


_moments = st.integers(at("1990-01-01T00:00"), at("2090-01-01T00:00"))
_looking = st.sampled_from(Looking)
_zones = st.sampled_from(ZONES)


@given(_moments, _moments, _looking, _zones)
def test_with_an_offset_a_moment_comes_back(epoch, now, looking, zone):
    text = datetime.fromtimestamp(epoch, zone).isoformat()
    assert parse_moment(text, now, looking, zone) == epoch


@given(_moments, _moments, _looking, _zones, st.sampled_from("T -"))
def test_local_times_come_back_unless_they_come_twice(epoch, now, looking, zone, between):
    local = datetime.fromtimestamp(epoch, zone)
    found = parse_moment(f"{local:%Y-%m-%d}{between}{local:%H:%M:%S}", now, looking, zone)
    assert abs(found - epoch) in {0, 1800, 3600}
    if local.utcoffset() == local.replace(fold=1 - local.fold).utcoffset():
        assert found == epoch
    assert parse_printed_time(local.strftime("%Y-%m-%dT%H:%M:%S"), zone) == found


@given(_moments, st.integers(0, 7000), st.sampled_from(["second", "minute", "hour", "day"]))
def test_distances_are_whole_seconds(now, count, unit):
    distance = int(timedelta(**{f"{unit}s": count}).total_seconds())
    assert parse_moment(f"now+{count}{unit}s", now, AHEAD, BERLIN) == now + distance
    assert parse_moment(f"now-{count} {unit}", now, AHEAD, BERLIN) == now - distance
    assert parse_moment(f"{count}{unit[0]}", now, BACK, BERLIN) == now - distance


@given(_moments, st.integers(0, 23), st.integers(0, 59), _zones)
def test_a_clock_time_ahead_lies_within_a_day_and_an_hour(now, hour, minute, zone):
    found = parse_moment(f"{hour:02}:{minute:02}", now, AHEAD, zone)
    assert now - 3600 <= found <= now + 25 * 3600  # an hour for a change of the clocks


_words = st.lists(
    st.sampled_from(["now", "today", "noon", "12", ":", "30", "/", ".", "-", "+", "T", " ", "PM",
                     "day", "2026", "0", "Z", "d", "[", "\n", "٣"]),
    max_size=8,
).map("".join)  # fmt: skip


@given(st.one_of(st.text(max_size=40), _words), _looking, _zones)
def test_any_text_gives_a_moment_or_a_data_error(text, looking, zone):
    for parse in (
        lambda: parse_moment(text, NOW, looking, zone),
        lambda: parse_printed_time(text, zone),
    ):
        with contextlib.suppress(DataError):
            datetime.fromtimestamp(parse() or 0, UTC)


@pytest.mark.parametrize("text", ["1" * 10**5, "now+" * 25_000, " " * 10**5 + "x", "12/" * 30_000])
def test_long_texts_are_refused_in_a_short_message(text):
    with pytest.raises(DataError) as caught:
        parse_moment(text, NOW, BACK, BERLIN)
    assert len(caught.value.message) < 200


@pytest.mark.parametrize("text", ["", "0", "Unknown", "None", "NONE", "N/A", "(null)"])
def test_slurm_prints_no_time_yet(text):
    assert parse_printed_time(text, BERLIN) is None


def test_times_as_slurm_prints_them():
    assert parse_printed_time("1795965077", BERLIN) == 1795965077
    assert parse_printed_time("2026-11-29T16:11:17", BERLIN) == NOW
    for text in ("16:11", "2026-11-29", "now", "-1", "²", "2026-02-30T00:00:00", "9" * 40):
        with pytest.raises(DataError, match="as Slurm prints it"):
            parse_printed_time(text, BERLIN)
