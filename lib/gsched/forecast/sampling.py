"""Chance, seeded: uniform numbers by name, and run times drawn from quantiles.

A job's numbers depend on the seed and its own name alone, so that the same job meets the same luck
whatever else is in the queue: two forecasts that differ by one change differ by that change.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]
Hashes = NDArray[np.uint64]

LEAST_S = 1.0
"""Slurm counts whole seconds: no run time below it tells anything."""

OVERDUE_S = 60.0
"""What a job has left that has reached its time limit: Slurm looks once a minute."""

OUTLIVED = 0.999
"""Beyond this quantile a run time says that the prediction was wrong, not how long it will be."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = np.array([30, 27, 31, 11], dtype=np.uint64)


def name_hashes(names: Sequence[str], seed: int) -> Hashes:
    """A number for each name; other ones with another seed."""
    sums = np.fromiter((zlib.crc32(name.encode()) for name in names), np.uint64, len(names))
    return mixed(sums + mixed(np.full(1, seed % 2**64, dtype=np.uint64)))


def mixed(numbers: Hashes) -> Hashes:
    """Scrambled so that neighbours have nothing in common (SplitMix64, Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        mix = numbers + _GOLDEN
        mix = (mix ^ (mix >> _SHIFTS[0])) * _MIX_1
        mix = (mix ^ (mix >> _SHIFTS[1])) * _MIX_2
    scrambled: Hashes = mix ^ (mix >> _SHIFTS[2])
    return scrambled


def uniform(numbers: Hashes) -> Floats:
    """Numbers between 0 and 1, neither included."""
    numbers_53: Floats = (mixed(numbers) >> _SHIFTS[3]).astype(np.float64)
    return (numbers_53 + 0.5) / 2.0**53


def stratified(hashes: Hashes, samples: int) -> Floats:
    """For each hash (row) so many uniform numbers, one in each of so many equal parts of (0, 1).

    Few samples cover each job's possible run times evenly so (a Latin hypercube, McKay et al.
    1979): the quantiles of what comes of them need fewer.
    """
    cells = hashes[:, np.newaxis] + mixed(np.arange(samples, dtype=np.uint64))
    parts = np.argsort(np.argsort(mixed(cells), axis=1), axis=1)
    return (parts + uniform(~cells)) / samples


class RunTimes:
    """Distributions of run times, one a row, from quantiles at common levels.

    Between levels, and beyond the first and the last, the logarithm goes in a straight line with
    the normal score of the probability: as in a log-normal distribution piece by piece. No run is
    longer than the job's limit (inf: none), where Slurm ends it.
    """

    def __init__(self, levels: Sequence[float], quantiles_s: Floats, limit_s: Floats) -> None:
        self._scores: Floats = ndtri(np.asarray(levels, dtype=np.float64))
        self._logs: Floats = np.log(np.maximum(quantiles_s, LEAST_S)).reshape(-1, len(levels))
        self._limit_s = limit_s
        if len(levels) == 1:  # nothing is known of the spread: there is none
            self._scores = np.append(self._scores, self._scores + 1.0)
            self._logs = np.repeat(self._logs, 2, axis=1)
        self._slopes: Floats = np.diff(self._logs, axis=1) / np.diff(self._scores)

    def of(self, rows: NDArray[np.int64]) -> RunTimes:
        """Those of some rows, each as often as it is named."""
        some = copy.copy(self)
        some._logs, some._slopes = self._logs[rows], self._slopes[rows]
        some._limit_s = self._limit_s[rows]
        return some

    def draw(self, chances: Floats) -> Floats:
        """Run times at probabilities (a row for each job), in seconds."""
        scores = ndtri(chances)
        piece = np.clip(np.searchsorted(self._scores, scores) - 1, 0, self._slopes.shape[1] - 1)
        logs = np.take_along_axis(self._logs, piece, 1) + (
            scores - self._scores[piece]
        ) * np.take_along_axis(self._slopes, piece, 1)
        drawn: Floats = np.minimum(np.exp(logs), self._limit_s[:, np.newaxis])
        return drawn

    def draw_remaining(self, chances: Floats, elapsed_s: Floats) -> Floats:
        """What is left of runs that have lasted `elapsed_s` (by row) already.

        Who has outlived its distribution may last as long again with probability 1/2, twice as
        long again with 1/3, and so on: a Pareto tail, as run times have (Harchol-Balter and Downey
        1997), up to the limit.
        """
        gone = self._passed(elapsed_s)[:, np.newaxis]
        elapsed = np.maximum(elapsed_s, LEAST_S)[:, np.newaxis]
        is_known = gone < OUTLIVED
        run_s = self.draw(np.where(is_known, gone + (1.0 - gone) * chances, chances))
        run_s = np.where(is_known, run_s, elapsed / (1.0 - chances))
        run_s = np.minimum(run_s, self._limit_s[:, np.newaxis])
        left_s = run_s - elapsed_s[:, np.newaxis]
        is_overdue = (elapsed_s >= self._limit_s)[:, np.newaxis]
        remaining: Floats = np.where(is_overdue, OVERDUE_S, np.maximum(left_s, LEAST_S))
        return remaining

    def _passed(self, elapsed_s: Floats) -> Floats:
        """By row: the probability of a run that is over by then."""
        logs = np.log(np.maximum(elapsed_s, LEAST_S))
        below = (self._logs <= logs[:, np.newaxis]).sum(axis=1)
        piece = np.clip(below - 1, 0, self._slopes.shape[1] - 1)
        rows = np.arange(len(logs))
        slope = self._slopes[rows, piece]
        beyond = logs - self._logs[rows, piece]
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = self._scores[piece] + beyond / slope
        flat = np.where(below == 0, -np.inf, np.inf)  # all its quantiles there are one
        passed: Floats = ndtr(np.where(slope > 0, scores, flat))
        return np.where(elapsed_s > 0, passed, 0.0)
