"""Moments as people write them and as Slurm prints them → epoch seconds.

The grammar is that of sbatch(1), ``--begin`` and ``--deadline``, and of sacct(1), ``--starttime``
and ``--endtime``; ISO 8601 with an offset and, looking back, ``2d`` or ``6h`` (ago) are added.
"""

from __future__ import annotations

import enum
import re
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta, tzinfo

from gsched.errors import DataError

DAY_S = 86_400

_SHOWN = 60  # characters of a wrong text that an error repeats
_UNIT_S = {"second": 1, "minute": 60, "hour": 3600, "day": DAY_S, "week": 604800}
_LETTER_S = {unit[0]: seconds for unit, seconds in _UNIT_S.items()}
_CLOCK_WORDS = {
    "midnight": time(0),
    "elevenses": time(11),
    "noon": time(12),
    "fika": time(15),
    "teatime": time(16),
}

_NOW = re.compile(
    r"now(?: *(?P<sign>[+-]) *(?P<count>\d{1,12}) *(?P<unit>second|minute|hour|day|week|)s?)?",
    re.ASCII,
)
_AGO = re.compile(r"(?P<count>\d{1,12})(?P<unit>[smhdw])", re.ASCII)
_DAY = (
    r"(?P<word>today|tomorrow)"
    r"|(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"|(?P<mm>\d\d)(?P<dd>\d\d)(?P<yy>\d\d)?"
    r"|(?P<mm_slash>\d{1,2})/(?P<dd_slash>\d{1,2})(?:/(?P<yy_slash>\d\d)?)?"
    r"|(?P<mm_dot>\d{1,2})\.(?P<dd_dot>\d{1,2})(?:\.(?P<yy_dot>\d\d)?)?"
)
_CLOCK = (
    rf"(?P<name>{'|'.join(_CLOCK_WORDS)})"
    r"|(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?: *(?P<half>am|pm))?"
)
_DAY_AND_CLOCK = re.compile(rf"(?:{_DAY})(?:(?: *t *| *- *| +)(?:{_CLOCK}))?", re.ASCII)
_CLOCK_AND_DAY = re.compile(rf"(?:{_CLOCK})(?: +(?:{_DAY}))?", re.ASCII)
_WITH_OFFSET = re.compile(
    r"(?P<local>\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d)?)(?:\.\d{1,9})?"
    r"(?P<offset>z|[+-]\d\d(?::?\d\d)?)",
    re.ASCII,
)
_PRINTED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", re.ASCII)
_NOT_YET = frozenset(
    {"", "0", "Unknown", "unknown", "None", "NONE", "N/A", "(null)", "None assigned"}
)


class Looking(enum.Enum):
    """Which moment an incomplete text means.

    AHEAD, as for ``sbatch --begin``: a clock time that is past is tomorrow's, a day without a year
    that is past is next year's. BACK, as for ``sacct -S``: a clock time is today's, a month that
    is still to come was last year's.
    """

    AHEAD = "ahead"
    BACK = "back"


def parse_moment(text: str, now: float, looking: Looking, zone: tzinfo | None = None) -> int:
    """Epoch seconds of a moment; without an offset it is local time in `zone` (None: this host's).

    Words may be in capitals. A local time that the change to summer time leaves out is taken as
    long after the change; of one that comes twice, east of Greenwich the second is meant and west
    of it the first: so does sbatch. Raises DataError for what is no moment; unlike Slurm also for
    a day that the calendar does not have (Slurm takes 02/30 as 2 March).
    """
    words = text.strip().lower()
    try:
        moment = _parse(words, now, looking, zone)
    except (OverflowError, ValueError, OSError):
        moment = None
    if moment is None:
        raise DataError(f"not a time: {text[:_SHOWN]!r}", _hint(looking))
    return moment


def _hint(looking: Looking) -> str:
    example = "2d or 6h (ago)" if looking is Looking.BACK else "now+2days"
    return f"write {example}, 2026-11-29, 2026-11-29T13:00, 13:00 or today"


def _parse(words: str, now: float, looking: Looking, zone: tzinfo | None) -> int | None:
    """Raises also ValueError or OverflowError for a number out of its range."""
    if match := _NOW.fullmatch(words):
        seconds = int(match["count"] or 0) * _UNIT_S[match["unit"] or "second"]
        return _in_range(int(now) + (-seconds if match["sign"] == "-" else seconds))
    if match := _WITH_OFFSET.fullmatch(words):
        iso = (match["local"] + match["offset"]).upper()
        return int(datetime.fromisoformat(iso).timestamp())
    if looking is Looking.BACK and (match := _AGO.fullmatch(words)):
        return _in_range(int(now) - int(match["count"]) * _LETTER_S[match["unit"]])
    if match := _DAY_AND_CLOCK.fullmatch(words) or _CLOCK_AND_DAY.fullmatch(words):
        local = _local(match, datetime.fromtimestamp(int(now), zone), looking)
        if looking is Looking.AHEAD and local.year == MAXYEAR:  # its last day has no local offset
            return int(local.replace(tzinfo=UTC).timestamp())
        return _epoch(local, zone)
    return None


def _in_range(epoch: int) -> int:
    datetime.fromtimestamp(epoch, UTC)  # raises for years that no calendar has
    return epoch


def _local(match: re.Match[str], now: datetime, looking: Looking) -> datetime:
    """The local time that is meant, seen from the local time `now`."""
    clock = _clock(match)
    return datetime.combine(_day(match, clock, now, looking), clock)


def _day(match: re.Match[str], clock: time, now: datetime, looking: Looking) -> date:
    today = now.date()
    if match["word"]:
        return today + timedelta(match["word"] == "tomorrow")
    if match["year"]:
        return date(int(match["year"]), int(match["month"]), int(match["day"]))
    for form in ("", "_slash", "_dot"):
        if match[f"mm{form}"]:
            month, day = int(match[f"mm{form}"]), int(match[f"dd{form}"])
            short_year = match[f"yy{form}"]
            year = 2000 + int(short_year) if short_year else _year(month, day, clock, now, looking)
            return date(year, month, day)
    is_past = looking is Looking.AHEAD and clock <= now.time()
    return today + timedelta(is_past)


def _year(month: int, day: int, clock: time, now: datetime, looking: Looking) -> int:
    if looking is Looking.BACK:
        return now.year - (month > now.month)
    return now.year + ((month, day, clock) <= (now.month, now.day, now.time()))


def _clock(match: re.Match[str]) -> time:
    """The time of the day; midnight where the text names a day alone."""
    if match["name"]:
        return _CLOCK_WORDS[match["name"]]
    if match["hour"] is None:
        return time(0)
    hour = int(match["hour"])
    if match["half"]:
        if hour > 12:
            raise ValueError("hours before or after noon go to 12")
        hour = hour % 12 + (12 if match["half"] == "pm" else 0)
    return time(hour, int(match["minute"]), int(match["second"] or 0))


def _epoch(local: datetime, zone: tzinfo | None) -> int:
    first, second = (int(local.replace(tzinfo=zone, fold=fold).timestamp()) for fold in (0, 1))
    in_greenwich = int(local.replace(tzinfo=UTC).timestamp())
    # In a gap the "first" is the later one: it is reckoned with the offset before the change.
    comes_twice_in_the_east = first < second <= in_greenwich
    return second if comes_twice_in_the_east else first


def parse_printed_time(text: str, zone: tzinfo | None = None) -> int | None:
    """Epoch seconds of a time as Slurm's commands print it; None where it has none yet.

    ``2026-11-29T13:00:00`` is local time in `zone` (None: this host's); with
    SLURM_TIME_FORMAT=%s Slurm prints epoch seconds, 0 for none. Raises DataError.
    """
    if text in _NOT_YET:
        return None
    try:
        if text.isascii() and text.isdigit():
            return _in_range(int(text))
        if _PRINTED.fullmatch(text):
            return _epoch(datetime.fromisoformat(text), zone)
    except (OverflowError, ValueError, OSError):
        pass
    raise DataError(f"not a time as Slurm prints it: {text[:_SHOWN]!r}")
