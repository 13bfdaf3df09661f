"""``sdiag``: how slurmctld and its schedulers fare. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gsched.errors import DataError

_TIME = re.compile(r"^sdiag output at .*\((\d{1,12})\)", re.MULTILINE)
_PENDING = re.compile(r"^\s*Jobs pending:\s*(\d{1,12})", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SchedulerStats:
    """slurmctld's own clock (epoch seconds) and the jobs that wait."""

    server_time: int
    jobs_pending: int


def parse_sdiag(text: str) -> SchedulerStats:
    """The text of sdiag(1). Raises DataError when it is none."""
    at, pending = _TIME.search(text), _PENDING.search(text)
    if at is None or pending is None:
        raise DataError("what sdiag printed is not understood")
    return SchedulerStats(int(at[1]), int(pending[1]))
