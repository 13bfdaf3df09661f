"""How sure a figure is, and the difference of two policies.

With several runs (seeds or windows) the runs are the unit: Student's t over their values; run k of
one policy is compared with run k of the other, which had the same jobs and the same chance. With
one run the days are, by first submission: whole days of jobs are drawn anew (`gsched.resampling`),
the same days for both policies. Nothing is simulated anew for that: what one day's queue does to
the next stays as it was, so that such an interval tells how much the figure hangs on single days of
this trace, and no more. Differences are over the jobs that ended under both (`gsched.sim.paired`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from scipy.special import stdtrit

from gsched import resampling
from gsched.resampling import CONFIDENCE, MIN_DAYS, SEED, Weights
from gsched.sim.jobs import Floats
from gsched.sim.metrics import Metrics
from gsched.sim.paired import paired

MIN_RUNS = 3
"""Of fewer runs no interval is told."""

_VALUES: Mapping[str, Callable[[Metrics], float | None]] = {
    "jct_mean_s": lambda m: m.all_jobs.jct_s.mean,
    "jct_median_s": lambda m: m.all_jobs.jct_s.median,
    "jct_p99_s": lambda m: m.all_jobs.jct_s.p99,
    "queueing_mean_s": lambda m: m.all_jobs.queueing_s.mean,
    "queueing_median_s": lambda m: m.all_jobs.queueing_s.median,
    "queueing_p99_s": lambda m: m.all_jobs.queueing_s.p99,
    "waiting_mean_s": lambda m: m.all_jobs.waiting_s.mean,
    "bounded_slowdown_mean": lambda m: m.all_jobs.bounded_slowdown.mean,
    "bounded_slowdown_median": lambda m: m.all_jobs.bounded_slowdown.median,
    "bounded_slowdown_p99": lambda m: m.all_jobs.bounded_slowdown.p99,
    "unfair_share": lambda m: m.all_jobs.unfair_share,
    "sharing_loss_share": lambda m: m.all_jobs.sharing_loss_share,
    "deadline_miss_share": lambda m: m.deadlines.miss_rate,
    "utilisation_share": lambda m: m.submitting.utilisation,
    "fragmented_share": lambda m: m.submitting.fragmented_share,
    "makespan_s": lambda m: m.makespan_s,
    "preemptions": lambda m: m.all_jobs.preemptions,
    "lost_gpu_hours": lambda m: m.all_jobs.lost_gpu_hours,
    "energy_kwh": lambda m: m.energy_kwh,
}
METRICS = tuple(_VALUES)
"""What is estimated and compared: _s are seconds, _share parts of 1."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure; `low` to `high` is its interval, None where none can be told."""

    value: float | None
    low: float | None = None
    high: float | None = None

    def document(self) -> dict[str, float | None]:
        """With the names of the fields as keys."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Difference(Estimate):
    """A figure less that of the baseline, which is `baseline` over the same jobs."""

    baseline: float | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval, and 0 lies outside it."""
        return self.low is not None and self.high is not None and not self.low <= 0 <= self.high


def estimates(runs: Sequence[Metrics]) -> dict[str, Estimate]:
    """The figures of a policy by name of METRICS; the value is the mean of the runs."""
    if len(runs) == 1:
        return _by_days(runs[0])
    return {name: _over_runs([value(run) for run in runs]) for name, value in _VALUES.items()}


def differences(runs: Sequence[Metrics], baseline: Sequence[Metrics]) -> dict[str, Difference]:
    """A policy less the baseline, run by run. ValueError: not as many runs, or of other jobs."""
    pairs = [paired(run, base) for run, base in zip(runs, baseline, strict=True)]
    if len(pairs) == 1:
        less = _by_days(*pairs[0])
    else:
        less = {
            name: _over_runs([_less(value(run), value(base)) for run, base in pairs])
            for name, value in _VALUES.items()
        }
    return {
        name: Difference(
            found.value,
            found.low,
            found.high,
            baseline=_over_runs([_VALUES[name](base) for _, base in pairs]).value,
        )
        for name, found in less.items()
    }


def _over_runs(values: Sequence[float | None]) -> Estimate:
    known = np.array([value for value in values if value is not None])
    number = len(known)
    if number < len(values):  # a mean of some of the runs would be of other runs than its fellow's
        return Estimate(None)
    mean = float(known.mean())
    if number < MIN_RUNS:
        return Estimate(mean)
    t = float(stdtrit(number - 1, (1 + CONFIDENCE) / 2))
    half = t * float(known.std(ddof=1)) / number**0.5
    return Estimate(mean, mean - half, mean + half)


def _by_days(run: Metrics, base: Metrics | None = None) -> dict[str, Estimate]:
    days = run.daily.days
    found = {}
    again: dict[str, Floats] = {}
    if len(days) >= MIN_DAYS:
        weights = resampling.draw(np.random.default_rng(SEED), len(days))
        again = _resampled(run, base, weights)
    tail = resampling.expanded_tail(len(days)) if again else 0.0
    for name, value in _VALUES.items():
        own = value(run) if base is None else _less(value(run), value(base))
        bounds = resampling.interval(again[name], tail) if name in again else (None, None)
        found[name] = Estimate(own, *bounds) if own is not None else Estimate(None)
    return found


def _resampled(run: Metrics, base: Metrics | None, weights: Weights) -> dict[str, Floats]:
    own = run.daily.at(weights)
    if base is None:
        return own
    other = base.daily.at(weights)
    return {name: values - other[name] for name, values in own.items()}


def _less(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base
