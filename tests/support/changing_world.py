"""Jobs that come one after the other, in a world that can change under the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from gsched.app.watched_model import WatchedModel
from gsched.model.history import PastJob
from gsched.model.job import JobView, Prediction
from gsched.predict.drift import Turn
from gsched.predict.model import DurationModel
from support.jobs import T0, past_job, view

USERS = tuple(f"user{n}" for n in range(6))
LIMITS_S = (3600, 86400)


class World:
    """Run times follow user and time limit, names tell nothing: the regression knows best.

    `factors` stretches the jobs of users, `of_limit` those of a time limit; `now` is the clock.
    """

    def __init__(self, seed: int = 0, gpus: int = 1) -> None:
        self.now = T0
        self.ended: list[PastJob] = []
        self.factors = dict.fromkeys(USERS, 1.0)
        self.of_limit = dict(zip(LIMITS_S, (1, 6), strict=True))
        self.asked: list[tuple[int, int]] = []
        self._gpus = gpus
        self._random = Random(seed)

    def next_job(self) -> tuple[JobView, int]:
        """A job that is submitted now, and the seconds that it will take."""
        user, limit_s = self._random.choice(USERS), self._random.choice(LIMITS_S)
        job_id = len(self.ended) + 1
        base_s = 20 * 2 ** USERS.index(user) * self.of_limit[limit_s]
        duration_s = int(base_s * self.factors[user] * self._random.lognormvariate(0, 0.2))
        waiting = view(
            job_id, submit=self.now, user=user, name="sh", time_limit_s=limit_s, gpus=self._gpus
        )
        return waiting, max(1, min(duration_s, limit_s))

    def end(self, job: JobView, duration_s: int) -> None:
        """`job` has run at once; the clock moves on to just after its end."""
        end = self.now + duration_s
        self.ended.append(
            past_job(
                *(job.key.job_id, duration_s),
                end=end,
                submit=self.now,
                user=job.user,
                name=job.name,
                time_limit_s=job.time_limit_s,
                gpus=self._gpus,
            )
        )
        self.now = end + 1

    def live(self, count: int) -> World:
        """`count` jobs that nobody predicts."""
        for _ in range(count):
            self.end(*self.next_job())
        return self

    def watched(self, model: DurationModel, watched: WatchedModel, count: int) -> list[Turn]:
        """`count` jobs that `watched` predicts and learns from; what has turned meanwhile."""
        turns = []
        for _ in range(count):
            job, duration_s = self.next_job()
            watched.predict([job], self.now)
            self.end(job, duration_s)
            turns += watched.take_in(self.now, self.now)
        return turns

    def fit(self) -> DurationModel:
        """A model of all that has ended."""
        return DurationModel.fit(self.ended, self.now, self.now)

    def past_jobs(self, ended_after: int, ended_before: int) -> Sequence[PastJob]:
        """As the history gives them."""
        self.asked.append((ended_after, ended_before))
        return [job for job in self.ended if ended_after <= job.end_time < ended_before]


def with_regressions_of(model: DurationModel, other: DurationModel) -> DurationModel:
    """`model` with what `other` has learnt in its trees, under a name of its own."""
    info = replace(other.info, model_id=f"{model.info.model_id}-planted", as_of=model.info.as_of)
    return DurationModel(info, model.memory, other.encoder, other.regressions)


def mean_of(prediction: Prediction | None) -> float:
    """The predicted mean, which there has to be."""
    assert prediction is not None
    return prediction.mean
