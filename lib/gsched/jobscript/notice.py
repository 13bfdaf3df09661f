"""When a job is told that its time limit is near: sbatch's ``--signal``."""

from __future__ import annotations

import re

_SIGNAL = re.compile(r"(?:([RB]{1,2}):)?(?:SIG)?(\w+)(?:@(\d{1,5}))?", re.ASCII | re.IGNORECASE)
_DEFAULT_S = 60
"""Slurm's, for a signal without a time."""


def notice_s(asked_s: int, time_limit_s: int | None) -> int:
    """Seconds before the time limit, where that is known at most half of it."""
    return asked_s if time_limit_s is None else min(asked_s, time_limit_s // 2)


def told_s(signal: str) -> int | None:
    """How many seconds before its limit a ``--signal`` brings USR1 to the batch process.

    None where it brings another signal, or to the steps alone.
    """
    found = _SIGNAL.fullmatch(signal.strip())
    if found is None or "B" not in (found[1] or "").upper():
        return None
    if found[2].upper() not in {"USR1", "10"}:
        return None
    return int(found[3] or _DEFAULT_S)
