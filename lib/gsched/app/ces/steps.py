"""The newest steps of each pool's demand, as the daemon's looks have seen them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gsched.app.ces.messages import STEP_S

KEPT_STEPS = 36
LONGEST_GAP_S = STEP_S // 2
"""A step in which nobody looked for longer is not taken for seen: jobs may have come and gone."""


@dataclass(slots=True)
class _Pool:
    """The step that goes on, since `step`: its peak, and whether it was watched from the start."""

    step: int
    peak: int
    is_watched: bool
    looked_at: int
    busy: int
    peaks: dict[int, int] = field(default_factory=dict)


class StepPeaks:
    """Peaks of steps that have ended and were watched from end to end."""

    def __init__(self) -> None:
        self._pools: dict[str, _Pool] = {}

    def look(self, now: int, busy: Mapping[str, int]) -> None:
        """So many nodes of each pool hold jobs at `now` (epoch seconds)."""
        self._pools = {name: self._looked(name, now, count) for name, count in busy.items()}

    def of(self, name: str) -> tuple[tuple[int, int], ...]:
        """The steps of a pool, start and peak, the oldest first."""
        pool = self._pools.get(name)
        return () if pool is None else tuple(sorted(pool.peaks.items()))

    def _looked(self, name: str, now: int, busy: int) -> _Pool:
        step = now - now % STEP_S
        pool = self._pools.get(name)
        if pool is None or now < pool.looked_at:  # the clock went back: nothing of it holds
            return _Pool(step, busy, False, now, busy)
        goes_on = now - pool.looked_at <= LONGEST_GAP_S
        if step == pool.step:
            pool.peak = max(pool.peak, busy)
            pool.is_watched &= goes_on
        else:
            if pool.is_watched and goes_on:
                pool.peaks[pool.step] = pool.peak
                for old in sorted(pool.peaks)[:-KEPT_STEPS]:
                    del pool.peaks[old]
            # what was busy at the last look was so when the step began, as far as one knows
            pool.peak = max(busy, pool.busy) if goes_on else busy
            pool.step, pool.is_watched = step, goes_on
        pool.looked_at, pool.busy = now, busy
        return pool
