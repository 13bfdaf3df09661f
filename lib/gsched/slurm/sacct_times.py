"""Times in saved output of sacct: as epoch, with an offset, or local time of some zone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, tzinfo
from itertools import pairwise, product

from gsched.errors import DataError
from gsched.model.times import parse_printed_time

_MOST_MINUTES = 200_000


class Clock:
    """Reads the times of one file; `zone` holds for those that name none.

    An hour that a change of the clocks repeats is told apart where the row allows it, see
    `settled`.
    """

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self._minutes: dict[str, tuple[int, int | None]] = {}
        self.is_used = False
        """Whether a time was met that names no zone."""
        self.comes_twice = False
        """Whether a time was met that the clocks showed twice."""

    def read(self, text: str) -> int | None:
        """Epoch seconds; None where Slurm has no time (yet). Raises DataError or ValueError."""
        if _is_plain(text):
            return self._minute(text[:16])[0] + int(text[17:])
        try:
            return parse_printed_time(text, self.zone)
        except DataError:
            return self._other_form(text)

    def other(self, text: str) -> int | None:
        """The second moment that `text` may mean; None for a time that comes once."""
        second = self._minute(text[:16])[1] if _is_plain(text) else None
        return None if second is None else second + int(text[17:])

    def _minute(self, text: str) -> tuple[int, int | None]:
        found = self._minutes.get(text)
        if found is None:
            if len(self._minutes) > _MOST_MINUTES:
                self._minutes.clear()
            found = self._minutes[text] = self._two_readings(text)
        return found

    def _two_readings(self, text: str) -> tuple[int, int | None]:
        first = parse_printed_time(f"{text}:00", self.zone)
        if first is None:
            raise DataError(f"not a time: {text!r}")
        self.is_used = True
        local = datetime.fromisoformat(text)
        both = [int(local.replace(tzinfo=self.zone, fold=fold).timestamp()) for fold in (0, 1)]
        if both[0] >= both[1]:  # a gap has both the other way round
            return first, None
        self.comes_twice = True
        return first, both[0] if first == both[1] else both[1]

    def _other_form(self, text: str) -> int:
        """SLURM_TIME_FORMAT can be anything that strftime writes; ISO 8601 is read."""
        moment = datetime.fromisoformat(text.strip())
        if moment.tzinfo is None:
            self.is_used = True
            moment = moment.replace(tzinfo=self.zone)
        return int(moment.timestamp())

    def settled(
        self, submit_time: int, texts: Sequence[str], elapsed_s: float | None
    ) -> tuple[int | None, ...]:
        """Eligible, start and end time of a row in which some local time comes twice.

        Of the moments that the texts may mean those are taken that are in order and as far apart
        as the job took. `submit_time` is not doubted: it names the attempt, and must not depend on
        what a later row tells.
        """
        readings = [[first, *_some(self.other(t))] for t in texts for first in (self.read(t),)]

        def misfit(moments: tuple[int | None, ...]) -> tuple[int, float]:
            known = [submit_time, *(m for m in moments if m is not None)]
            backwards = sum(later < earlier for earlier, later in pairwise(known))
            _, start, end = moments
            if elapsed_s is None or start is None or end is None:
                return backwards, 0.0
            return backwards, abs(end - start - elapsed_s)

        return min(product(*readings), key=misfit)


def _is_plain(text: str) -> bool:
    """Whether a text looks like ``2026-11-29T13:00:00``."""
    return len(text) == 19 and text[10] == "T" and text[16] == ":" and text[17:].isdecimal()


def _some(moment: int | None) -> list[int]:
    return [] if moment is None else [moment]
