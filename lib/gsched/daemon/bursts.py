"""When priorities may be written: in one burst a backfill interval.

Backfill (slurm.conf(5), bf_interval) plans through the queue in the order that stood when it began
and, without bf_continue, begins anew when jobs change under it. Writes in many small portions would
keep it from ever getting far; those of one round together disturb it once.
"""

from __future__ import annotations

from gsched.slurm.records import SlurmConfig

DEFAULT_BF_INTERVAL_S = 30.0
"""Slurm's own default of bf_interval."""

_LATE_ENOUGH = 0.9  # of the interval: rounds do not tick to the millisecond


def bf_interval_s(config: SlurmConfig) -> float:
    """The cluster's bf_interval; Slurm's default where none is set, or none that is a number."""
    text = config.flags("SchedulerParameters").get("bf_interval", "")
    return float(text) if text.isdecimal() and int(text) > 0 else DEFAULT_BF_INTERVAL_S


class Bursts:
    """Tells which rounds may write. Times are monotonic seconds, those of a round's look.

    A process that has just begun may write at once: it knows of no earlier burst.
    """

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._last: float | None = None

    def may_write(self, at: float) -> bool:
        """Whether the interval since the last round that wrote is over for a round of `at`."""
        return self._last is None or at - self._last >= _LATE_ENOUGH * self.interval_s

    def wrote(self, at: float) -> None:
        """The round of `at` writes."""
        self._last = at
