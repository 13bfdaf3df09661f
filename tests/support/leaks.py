"""A detector of leaks: whether predictions at a moment depend on anything that ended then or later.

Whatever ended at the moment or later is made another: jobs that were submitted before run for
another time and end in another way, jobs that were submitted later become others', and some are
added. What a job asks for at its submission is known, and stays. A causal estimator cannot tell.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from gsched.model.history import PastJob
from gsched.model.job import JobState

Predict = Callable[[Sequence[PastJob], int], object]
"""Of a log (in any order) and a moment: all that is predicted at that moment."""

SEEDS = (1, 2)


def leaking_moments(predict: Predict, jobs: Sequence[PastJob], moments: Sequence[int]) -> list[int]:
    """Those of `moments` at which `predict` knows of what ended then or later."""
    found = []
    for moment in moments:
        told = predict(jobs, moment)
        if any(predict(another_future(jobs, moment, seed), moment) != told for seed in SEEDS):
            found.append(moment)
    return found


def another_future(jobs: Sequence[PastJob], moment: int, seed: int) -> list[PastJob]:
    """The same log up to `moment`, and another one from there."""
    chance = random.Random(seed)
    past = [job for job in jobs if job.end_time < moment]
    later = [_another(job, moment, chance) for job in jobs if job.end_time >= moment]
    added = [
        replace(_another(job, moment, chance), job_id=10**6 + n, submit_time=moment + n)
        for n, job in enumerate(chance.sample(list(jobs), min(20, len(jobs))))
    ]
    return [*past, *later, *added]


def _another(job: PastJob, moment: int, chance: random.Random) -> PastJob:
    """`job` with another end, not before `moment`; a job not yet submitted then is another one."""
    end = moment + int(10 ** chance.uniform(0, 6))
    ended = replace(
        job,
        start_time=min(job.start_time, end),
        end_time=end,
        state=chance.choice((JobState.COMPLETED, JobState.FAILED, JobState.TIMEOUT)),
    )
    if job.submit_time < moment:
        return ended
    return replace(
        ended,
        submit_time=moment + chance.randrange(1000),
        user=chance.choice((job.user, "somebody else")),
        name=chance.choice((job.name, "something else")),
        num_gpus=chance.choice((job.num_gpus, 0, 3)),
    )
