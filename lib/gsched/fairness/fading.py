"""How what was received counts less as time goes by, and for how long it counts at all. Pure.

Whoever tells a debt goes by this: the policy when it begins, `gsched fairness`, the daemon's status
file. It is loaded where nothing else is, so it needs no arrays.
"""

from __future__ import annotations

from gsched.model.accounts import FairnessEntry

HOUR_S = 3600
"""An entry of the ledger is of so many seconds."""

HALF_LIVES = 14
"""The past is read for so many half-lives. What was received earlier counts less than 1/16,000: at
a half-life of a week, a minute of all GPUs."""


def faded_gpu_s(entry: FairnessEntry, at_s: float, half_life_s: float) -> float:
    """GPU-seconds received in the time of `entry`, as they count at `at_s`.

    They count as received in its middle; 0 where that is still to come.
    """
    age_s = at_s - (entry.begin_time + entry.length_s / 2)
    return entry.received_gpu_s * 0.5 ** (age_s / half_life_s) if age_s > 0 else 0.0
