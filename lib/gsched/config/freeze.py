"""Freeze windows: times in which the daemon only observes, as ``daemon.freeze`` writes them.

The times are those of the wall clock of this host. Where clocks change within a window it is
rather longer than shorter: it begins at the first and ends at the last moment that the clock shows
its ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from gsched.errors import ConfigError

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DAY_MIN = 24 * 60
_CLOCK = r"(\d\d):(\d\d)"
_DAY = "(" + "|".join(_DAYS) + ")"
_WEEKLY = re.compile(rf"{_DAY} +{_CLOCK} *- *(?:{_DAY} +)?{_CLOCK}", re.ASCII | re.IGNORECASE)
_DAILY = re.compile(rf"{_CLOCK} *- *{_CLOCK}", re.ASCII)
_DATE = r"(\d{4}-\d\d-\d\dT\d\d:\d\d)"
_ONCE = re.compile(rf"{_DATE} */ *{_DATE}", re.ASCII)
_HINT = (
    "write Fri 16:00-Mon 08:00 (every week), 22:00-06:00 (every day) or "
    "2026-12-24T00:00/2027-01-02T00:00 (once), in local time"
)


@dataclass(frozen=True, slots=True)
class FreezeWindow:
    """One window, of which `text` is what the admin wrote.

    Recurring: from `start_min` minutes after the midnight that begins each period of `period_days`
    days (a week on Monday) for `length_min` minutes. Once: `start` and `end`.
    """

    text: str
    period_days: int = 0
    start_min: int = 0
    length_min: int = 0
    start: datetime | None = None
    end: datetime | None = None

    def ends(self, at: float) -> int | None:
        """When (epoch seconds) the window around the time `at` ends; None outside of it."""
        found = [_last(end) for start, end in self._near(at) if _first(start) <= at < _last(end)]
        return max(found, default=None)

    def _near(self, at: float) -> Iterable[tuple[datetime, datetime]]:
        if self.start is not None and self.end is not None:
            return [(self.start, self.end)]
        today = datetime.fromtimestamp(at).date()
        begun = today - timedelta(days=today.weekday() if self.period_days == 7 else 0)
        # one period more on each side: clocks that change, and windows over a period's end
        firsts = (begun + timedelta(days=self.period_days * n) for n in (-1, 0, 1))
        return [
            (_wall(day, self.start_min), _wall(day, self.start_min + self.length_min))
            for day in firsts
        ]


def parse_freeze(text: str) -> FreezeWindow:
    """The window that `text` describes. Raises ConfigError that quotes it."""
    stripped = text.strip()
    if match := _WEEKLY.fullmatch(stripped):
        return _weekly(text, match)
    if match := _DAILY.fullmatch(stripped):
        start = _minutes(text, match[1], match[2])
        end = _minutes(text, match[3], match[4], is_end=True)
        return FreezeWindow(text, 1, start, _length(text, start, end, _DAY_MIN))
    if match := _ONCE.fullmatch(stripped):
        try:
            start_time, end_time = map(datetime.fromisoformat, match.groups())
        except ValueError:
            raise _error(text, "names a day or time that there is not") from None
        if start_time >= end_time:
            raise _error(text, "ends before it begins")
        return FreezeWindow(text, start=start_time, end=end_time)
    raise _error(text, "is no window of time")


def _weekly(text: str, match: re.Match[str]) -> FreezeWindow:
    day, end_day = (_DAYS.index((match[n] or match[1]).lower()) for n in (1, 4))
    start = day * _DAY_MIN + _minutes(text, match[2], match[3])
    end = end_day * _DAY_MIN + _minutes(text, match[5], match[6], is_end=True)
    if match[4] is None and end < start:
        end += _DAY_MIN  # "Sun 22:00-06:00" ends on Monday
    return FreezeWindow(text, 7, start, _length(text, start, end, 7 * _DAY_MIN))


def _minutes(text: str, hours: str, minutes: str, *, is_end: bool = False) -> int:
    found = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or found > _DAY_MIN or (found == _DAY_MIN and not is_end):
        raise _error(text, f"holds {hours}:{minutes}, which is no time of day")
    return found


def _length(text: str, start: int, end: int, period: int) -> int:
    if start == end:
        raise _error(text, "ends as it begins")
    return (end - start) % period or period


def _error(text: str, problem: str) -> ConfigError:
    return ConfigError(f"{text!r} {problem}", _HINT)


def _wall(day: date, minutes: int) -> datetime:
    """So many minutes of the wall clock after a midnight."""
    return datetime.combine(day, time()) + timedelta(minutes=minutes)


def _first(wall: datetime) -> int:
    """The first moment that this host's clock shows it (or would: clocks jump over some times)."""
    return min(_epochs(wall))


def _last(wall: datetime) -> int:
    return max(_epochs(wall))


def _epochs(wall: datetime) -> tuple[int, int]:
    return int(wall.timestamp()), int(wall.replace(fold=1).timestamp())
