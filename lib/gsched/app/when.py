"""Moments as users write them on the command line."""

from __future__ import annotations

import re
from datetime import datetime

from gsched.errors import UsageError

_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_AGO = re.compile(r"(?P<count>\d{1,9})(?P<unit>[smhdw])", re.ASCII)
_FROM_NOW = re.compile(
    r"now(?:(?P<sign>[+-])(?P<count>\d{1,9})(?P<unit>second|minute|hour|day|week|)s?)?", re.ASCII
)
_CLOCK = re.compile(r"(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}))?", re.ASCII)
_NAMES = {"midnight": "0:00", "today": "0:00", "noon": "12:00"}
_AMERICAN = ("%m/%d/%y", "%m/%d/%y-%H:%M", "%m/%d/%y-%H:%M:%S")


def parse_when(text: str, now: int) -> int:
    """Epoch seconds of ``2d`` (ago), ISO 8601, or Slurm's grammar (sacct(1), ``--starttime``).

    Without an offset a time is local; a clock time alone is today's. Raises UsageError.
    """
    text = text.strip()
    try:
        if match := _AGO.fullmatch(text):
            return now - int(match["count"]) * _UNIT_S[match["unit"]]
        if match := _FROM_NOW.fullmatch(text):
            seconds = int(match["count"] or 0) * _UNIT_S[(match["unit"] or "second")[0]]
            return now - seconds if match["sign"] == "-" else now + seconds
        return int(_absolute(text, now).timestamp())
    except (OverflowError, ValueError, OSError):
        raise UsageError(
            f"not a time: {text!r}",
            "write 2d or 6h (ago), 2026-11-29, 2026-11-29T13:00, 13:00, now-1hour or today",
        ) from None


def _absolute(text: str, now: int) -> datetime:
    if match := _CLOCK.fullmatch(_NAMES.get(text, text)):
        return datetime.fromtimestamp(now).replace(
            hour=int(match["hour"]),
            minute=int(match["minute"]),
            second=int(match["second"] or 0),
        )
    for form in _AMERICAN:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    return datetime.fromisoformat(text)
