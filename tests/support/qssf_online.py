"""QSSF simulated with predictions that are made in the simulation, from what has ended in it.

Every BATCH_S seconds those who will be submitted until the next time are predicted: nothing is
known early, whatever the order does to the ends, and some ends are known up to BATCH_S late.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from gsched.model.history import PastJob
from gsched.policy.order_form import OrderForm
from gsched.predict.attributes import JobAttributes, of_past
from gsched.predict.cold_start import cold_start
from gsched.predict.model import DurationModel
from gsched.predict.rolling import RollingEstimator
from gsched.predict.walk import WalkOptions
from gsched.sim.cluster import SimCluster
from gsched.sim.core.build import make_sim, with_more_room
from gsched.sim.core.ordered_loop import result_of
from gsched.sim.core.recording import sample_until, samples_due
from gsched.sim.core.state import Sim
from gsched.sim.core.steps import advance, next_event_s, schedule
from gsched.sim.jobs import Floats, SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import SimRules

BATCH_S = 600


class Learner(Protocol):
    """Predicts run times, and learns from jobs that have ended."""

    def predict(self, jobs: Sequence[PastJob], now: int) -> Sequence[float | None]:
        """Seconds from what had ended before the epoch time `now`, None where that says nothing.

        `jobs` are submitted then or later.
        """

    def observe(self, job: PastJob) -> None:
        """A job has ended; in the order of ends."""


def run_online(
    jobs: SimJobs, past: Sequence[PastJob], cluster: SimCluster, rules: SimRules, learner: Learner
) -> tuple[SimResult, Floats]:
    """What QSSF does with `jobs` (`past` says of each row what is known of it), and what was
    predicted of each. A job without a prediction has the median key of those before it.

    For rules under which jobs run without a break and cost nothing beside.
    """
    sim = make_sim(jobs, cluster, OrderForm.static(np.zeros(len(jobs))), rules)
    run = _Run(sim, jobs, past, learner)
    while run.step():
        pass
    seen = replace(jobs, predicted_duration_s=run.predicted_s)
    return result_of(run.sim, seen, cluster, rules, "qssf", "online", False), run.predicted_s


class _Run:
    def __init__(self, sim: Sim, jobs: SimJobs, past: Sequence[PastJob], learner: Learner) -> None:
        self.sim = sim
        self.predicted_s = np.full(len(jobs), np.nan)
        self._jobs, self._past, self._learner = jobs, past, learner
        self._keys: list[float] = []  # of those predicted so far
        self._next = 0  # the first job that has not been predicted
        self._ends: list[tuple[float, int]] = []  # of those that have started

    def step(self) -> bool:
        """Go to the next event. False when nothing is left to happen."""
        time_s = float(next_event_s(self.sim))
        if time_s == np.inf:
            return False
        self._make_room(time_s)
        while self._next < len(self._jobs) and self._jobs.submit_s[self._next] <= time_s:
            self._predict_batch()
        before = int(self.sim.now[0]["segments"])
        sample_until(self.sim, time_s)
        advance(self.sim, time_s)
        schedule(self.sim, time_s)
        for row in self.sim.segments["job"][before : self.sim.now[0]["segments"]].tolist():
            heapq.heappush(self._ends, (time_s + float(self._jobs.duration_s[row]), row))
        return True

    def _predict_batch(self) -> None:
        """Those who are submitted from the last multiple of BATCH_S to the next one."""
        submit_s, first = self._jobs.submit_s, self._next
        since_s = float(submit_s[first] // BATCH_S) * BATCH_S
        self._next = int(np.searchsorted(submit_s, since_s + BATCH_S))
        self._learn_until(since_s)
        asked = self._past[first : self._next]
        found = self._learner.predict(asked, self._jobs.origin + int(since_s))
        for row, seconds in enumerate(found, first):
            self._give_key(row, seconds)

    def _learn_until(self, time_s: float) -> None:
        while self._ends and self._ends[0][0] < time_s:
            end_s, row = heapq.heappop(self._ends)
            end = self._jobs.origin + int(end_s)
            job = self._past[row]
            self._learner.observe(replace(job, start_time=end - job.duration_s, end_time=end))

    def _give_key(self, row: int, seconds: float | None) -> None:
        if seconds is None:
            key = float(np.median(self._keys)) if self._keys else 0.0
        else:
            self.predicted_s[row] = seconds
            key = seconds * float(self._jobs.num_gpus[row])
            self._keys.append(key)
        self.sim.jobs["constant"][row] = key

    def _make_room(self, time_s: float) -> None:
        now = self.sim.now[0]
        samples = samples_due(self.sim, time_s) + 2
        full = now["samples"] + samples > len(self.sim.samples)
        if full or now["segments"] + len(self.sim.runners) > len(self.sim.segments):
            self.sim = with_more_room(self.sim, samples)


class Oracle:
    """Knows all run times."""

    def predict(self, jobs: Sequence[PastJob], now: int) -> Sequence[float | None]:
        del now
        return [float(job.duration_s) for job in jobs]

    def observe(self, job: PastJob) -> None:
        del job


class Rolling:
    """The rolling estimate alone, within the jobs' limits."""

    def __init__(self) -> None:
        self._estimator = RollingEstimator()

    def predict(self, jobs: Sequence[PastJob], now: int) -> Sequence[float | None]:
        return [self._seconds(of_past(job), now) for job in jobs]

    def _seconds(self, job: JobAttributes, now: int) -> float | None:
        estimate = self._estimator.estimate(job, now)
        return None if estimate is None else job.within_limit(estimate.duration_s)

    def observe(self, job: PastJob) -> None:
        self._estimator.observe(job)


class Model:
    """The duration model as the daemon keeps it: fitted anew every week, or when twice as many jobs
    have ended; in between it observes. `caution` off: predictions without it, for comparison.
    """

    def __init__(self, caution: bool = True) -> None:
        self.fits = 0
        self._caution = caution
        self._options = WalkOptions()
        self._ended: list[PastJob] = []
        self._ended_at_fit = self._fitted_at = 0
        self._model: DurationModel | None = None

    def predict(self, jobs: Sequence[PastJob], now: int) -> Sequence[float | None]:
        if self._is_due(now):
            self._fit(now)
        asked = [of_past(job) for job in jobs]
        if self._model is None:
            return [cold_start(job, self._options.default_duration_s)[0] for job in asked]
        found = self._model.predictions_of(self._model.look(asked, now))
        return [p.mean if self._caution else p.mean / p.caution for p in found]

    def observe(self, job: PastJob) -> None:
        self._ended.append(job)
        if self._model is not None:
            self._model.observe(job)

    def _is_due(self, now: int) -> bool:
        if len(self._ended) < self._options.min_jobs:
            return False
        is_old = now >= self._fitted_at + self._options.refit_s
        return is_old or len(self._ended) >= 2 * self._ended_at_fit

    def _fit(self, now: int) -> None:
        since = now - self._options.history_s
        past = [job for job in self._ended if job.end_time >= since]
        self._model = DurationModel.fit(past, now, now)
        self._fitted_at, self._ended_at_fit = now, len(self._ended)
        self.fits += 1
