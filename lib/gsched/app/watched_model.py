"""The model in a daemon: it learns from every job that ends, and is watched for drift."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from gsched.daemon.model_facts import KINDS
from gsched.errors import GschedError
from gsched.model.history import PastJob
from gsched.model.job import JobKey, JobView, Prediction
from gsched.model.times import DAY_S
from gsched.predict.attributes import of_view, select_jobs
from gsched.predict.baselines import Baselines
from gsched.predict.drift import MODEL, NAIVE, ROLLING, DriftWatch, Turn
from gsched.predict.model import DurationModel
from gsched.predict.watch_file import read_watch, write_watch

log = logging.getLogger("gsched.daemon")

PastJobs = Callable[[int, int], Sequence[PastJob]]
"""Gives the jobs that ended in [first, second), by end time."""

LATE_S = 600
"""The end of a job is looked for so long after it: accounting tells it some seconds later."""
NAIVE_DAYS = 7
"""The naive mean that the model is compared with begins with jobs of so many days."""


class WatchedModel:
    """Implements ``gsched.engine.ports.Predictor`` by a model and its DriftWatch."""

    def __init__(
        self, model: DurationModel, watch_file: Path, past_jobs: PastJobs, now: int
    ) -> None:
        """Take in what has ended since the fit. Raises what `past_jobs` raises."""
        self.model = model
        self._file = watch_file
        self._past_jobs = past_jobs
        self.watch = _stored(watch_file, model.info.model_id)
        self._naive = Baselines()
        self._floor = model.info.data_until - LATE_S
        self._seen: dict[JobKey, int] = {}  # job → end, of those that may be told once more
        self._catch_up(now)
        self._follow_watch()

    @property
    def model_id(self) -> str:
        """The model, and whether the rolling estimate stands in for it."""
        return self.model.model_id

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """The model's predictions; those of its parts are remembered for when the jobs end."""
        attributes = [of_view(job) for job in jobs]
        looks = self.model.look(attributes, now)
        parts = self.model.parts_of(looks)
        for i, (view, job) in enumerate(zip(jobs, attributes, strict=True)):
            told = {name: float(parts[name][i]) for name in (MODEL, ROLLING)}
            told[NAIVE] = self._naive.durations_s(job)[NAIVE]
            self.watch.note(view.key, job, self.model.info.model_id, told)
        return [*self.model.predictions_of(looks, parts)]

    def take_in(self, now: int, told_until: int | None) -> list[Turn]:
        """Learn from the jobs that have ended since the last time; what that turns.

        `told_until` is when (epoch) the history was last brought up to date, None where it was not
        yet: what ended after it may still be told. Raises what `past_jobs` raises.
        """
        new = self._new(now, told_until)
        for job in select_jobs(new, now + 1)[0]:
            self.watch.ended(job)
            self._observe(job)
        turns = self.watch.judge(self.model.info.model_id, now)
        if turns:
            self._follow_watch()
        if new:
            self._keep_watch()
        return turns

    def _follow_watch(self) -> None:
        self.model.rolling_only = frozenset(self.watch.fallen)

    def _catch_up(self, now: int) -> None:
        """Jobs up to `data_until` were trained on; the naive mean has not seen them."""
        data_until = self.model.info.data_until
        past = self._past_jobs(min(self._floor, now - NAIVE_DAYS * DAY_S), now + 1)
        for job in select_jobs(past, now + 1)[0]:
            if job.end_time > data_until:
                self._observe(job)
            else:
                self._naive.observe(job)
        self._remember(past)

    def _observe(self, job: PastJob) -> None:
        self.model.observe(job)
        self._naive.observe(job)

    def _new(self, now: int, told_until: int | None) -> list[PastJob]:
        """What has ended and was not told before. A clock that is set back asks nothing twice."""
        told = self._past_jobs(self._floor, now + 1)
        new = [job for job in told if _key(job) not in self._seen]
        if told_until is not None:
            self._floor = max(self._floor, told_until - LATE_S)
        self._remember(new)
        return new

    def _remember(self, jobs: Sequence[PastJob]) -> None:
        """All that has been told of jobs that ended at `_floor` or later is in `_seen`."""
        known = self._seen | {_key(job): job.end_time for job in jobs}
        self._seen = {key: end for key, end in known.items() if end >= self._floor}

    def _keep_watch(self) -> None:
        """For the next start. A watch that cannot be kept is told of, and goes on."""
        try:
            write_watch(self._file, self.watch)
        except GschedError as e:
            log.warning("what is known of the model's drift is not kept: %s", e.message)


def words(turn: Turn) -> str:
    """What a turn means, for the log."""
    judged, kind = turn.judgement, KINDS[turn.kind]
    figures = (
        f"of {judged.num_jobs} ended ones, predicted and actual run times differ by a factor of "
        f"{judged.off_by[MODEL]:.2f} (rolling {judged.off_by[ROLLING]:.2f}, last two jobs "
        f"{judged.off_by[NAIVE]:.2f}) in the median; rank correlation "
        f"{judged.rank_correlations[MODEL]:.2f} (rolling {judged.rank_correlations[ROLLING]:.2f})"
    )
    if turn.falls_back:
        return f"the model has become worse: the rolling estimate predicts {kind}: {figures}"
    return f"the model predicts {kind} again: {figures}"


def _stored(path: Path, model_id: str) -> DriftWatch:
    """The watch of an earlier process; an empty one in the place of a damaged one."""
    try:
        return read_watch(path, model_id)
    except GschedError as e:
        log.warning("what was known of the model's drift is lost: %s", e.message)
        return DriftWatch()


def _key(job: PastJob) -> JobKey:
    return JobKey(job.cluster, job.job_id, job.array_task, job.het_offset, job.submit_time)
