"""In which order waiting jobs of a log stand: logs with recorded starts do not tell it.

It is taken from how the cluster started jobs in the part of the log that only teaches: of the
orders below the one that agrees most often with who was started while others of the same size or
smaller waited. A daemon on a live Slurm knows the priorities instead.

``submission``: first come, first served. ``fair-share``: the user who has used least of late (half
as much counts of what was used HALF_LIFE_S before, Slurm's default), then by submission. ``qssf``:
as simulated, by the log's keys.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from support.forecast_log import ReplayLog

Floats = NDArray[np.float64]

SUBMISSION, FAIR_SHARE, QSSF = "submission", "fair-share", "qssf"
HALF_LIFE_S = 7 * 86_400.0
LOOKED_AT = 500
"""Starts that an order is judged by."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """Which order agrees best, and the share of pairs of waiting jobs on which each does."""

    order: str
    shares: dict[str, float]


def order_values(log: ReplayLog, order: str, until: int, now: float) -> Floats:
    """For the first `until` jobs a number, smaller first, ties by submission, as known at `now`."""
    known = slice(0, until)
    if order == SUBMISSION:
        return log.submit[known] - now
    if order == FAIR_SHARE:
        return used(log, until, now)[log.user[known]]
    return log.key[known]


def used(log: ReplayLog, until: int, now: float) -> Floats:
    """By user: the unit-seconds that the first `until` jobs have used before `now`, decayed."""
    started = np.flatnonzero(log.start[:until] < now)
    rate = np.log(2) / HALF_LIFE_S
    ended_ago = now - np.minimum(log.end[started], now)
    received = np.exp(-rate * ended_ago) - np.exp(-rate * (now - log.start[started]))
    use = np.bincount(
        log.user[started],
        weights=log.units[started] * received / rate,
        minlength=int(log.user.max()) + 1,
    )
    return use.astype(np.float64)


def agreement(log: ReplayLog, until: int) -> Agreement:
    """The order of the first `until` jobs, by their starts before the last of them came."""
    if log.starts == "simulated":
        return Agreement(QSSF, {})
    now = float(log.submit[until])
    waited = np.flatnonzero((log.start[:until] < now) & (log.start[:until] > log.submit[:until]))
    chosen = waited[np.linspace(0, len(waited) - 1, min(len(waited), LOOKED_AT)).astype(np.int64)]
    shares = {order: _share(log, order, chosen) for order in (SUBMISSION, FAIR_SHARE)}
    return Agreement(max(shares, key=lambda order: shares[order]), shares)


def _share(log: ReplayLog, order: str, chosen: NDArray[np.int64]) -> float:
    """Of the pairs of a job that started and one that then went on waiting, in one of which the
    order is right."""
    agreed = pairs = 0
    for row in chosen.tolist():
        at = float(log.start[row])
        until = int(np.searchsorted(log.submit, at, side="left"))
        others = np.flatnonzero((log.start[:until] > at) & (log.units[:until] <= log.units[row]))
        number = order_values(log, order, until, at)
        mine = number[row]
        before = (number[others] > mine) | ((number[others] == mine) & (others > row))
        agreed, pairs = agreed + int(before.sum()), pairs + len(others)
    return agreed / pairs if pairs else 0.5
