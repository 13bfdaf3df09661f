"""A prediction at t sees only what ended before t; the detector finds leaks that were planted."""

from __future__ import annotations

import random
from statistics import mean

import pytest
from support.jobs import T0, past_job, view
from support.leaks import another_future, leaking_moments

from gsched.predict.attributes import of_view, select_jobs
from gsched.predict.baselines import Baselines
from gsched.predict.memory import Memory, walk
from gsched.predict.model import DurationModel
from gsched.predict.rolling import RollingEstimator
from gsched.predict.walk import WalkOptions
from gsched.predict.walk import walk as walk_log

USERS, NAMES = ("ann", "bob", "cem"), ("train-1", "train-2", "eval", "")
ASKED = [
    view(9000 + i, user=user, name=name, gpus=gpus, time_limit_s=limit_s)
    for i, (user, name, gpus, limit_s) in enumerate(
        (user, name, gpus, limit_s)
        for user in (*USERS, "eve")
        for name in NAMES
        for gpus, limit_s in ((1, None), (2, 7200), (0, None))
    )
]


def log(count):
    """Jobs of which many run at once, of three users."""
    chance = random.Random(5)
    jobs = []
    for i in range(count):
        submit = T0 + 60 * i
        start = submit + chance.randrange(900)
        duration_s = int(10 ** chance.uniform(1, 4))
        jobs.append(
            past_job(
                i,
                duration_s,
                end=start + duration_s,
                submit=submit,
                user=chance.choice(USERS),
                name=chance.choice(NAMES),
                gpus=chance.choice((0, 1, 2)),
                time_limit_s=chance.choice((None, 7200, 20_000)),
            )
        )
    return jobs


LOG = log(400)
MOMENTS = (T0 + 3000, T0 + 12_345, LOG[300].end_time, LOG[350].submit_time)


def ended_before(jobs, moment):
    return select_jobs(jobs, moment)[0]


def by_a_fit(jobs, moment):
    """All of the model, fitted at the moment."""
    model = DurationModel.fit(jobs, as_of=moment, trained_at=0)
    looks = model.look([of_view(job) for job in ASKED], moment)
    parts = {name: values.tolist() for name, values in model.parts_of(looks).items()}
    return looks, str(parts), model.predictions_of(looks), model.model_id


def by_observing(jobs, moment):
    """What a daemon does that was started long before."""
    memory = Memory.empty()
    for job in ended_before(jobs, moment):
        memory.observe(job)
    return str(memory.look([of_view(job) for job in ASKED], moment))


def by_the_rows_of_a_fit(jobs, moment):
    """What the regression learns from: every job as it was submitted before the moment."""
    ordered = select_jobs(jobs, 2 * T0)[0]
    asked = [(job.submit_time, i) for i, job in enumerate(ordered) if job.submit_time < moment]
    _, looks = walk(ordered, asked)
    ids = [ordered[i].job_id for _, i in asked]
    return sorted((job_id, str(look)) for job_id, look in zip(ids, looks, strict=True))


def by_the_rolling_estimate(jobs, moment):
    """Learnt in any order, from what had ended."""
    estimator = RollingEstimator.fit(job for job in jobs if job.end_time < moment)
    return [estimator.estimate(of_view(job), moment) for job in ASKED]


def by_walking(jobs, moment):
    """A whole log is evaluated; what was predicted of the jobs submitted before the moment."""
    found = walk_log(jobs, WalkOptions(refit_s=6000, min_jobs=30))
    rows = [i for i, job in enumerate(found.jobs) if job.submit_time < moment]
    return str([(found.mean_s[i], found.quantiles_s[i].tolist(), found.sources[i]) for i in rows])


@pytest.mark.parametrize("predict", [by_observing, by_the_rows_of_a_fit, by_the_rolling_estimate])
def test_nothing_that_ends_later_is_seen(predict):
    assert leaking_moments(predict, LOG, MOMENTS) == []


def test_a_fit_sees_nothing_that_ends_later():
    assert leaking_moments(by_a_fit, LOG[:150], [LOG[120].end_time]) == []


def test_an_evaluation_sees_nothing_that_ends_later():
    assert leaking_moments(by_walking, LOG[:100], [LOG[80].submit_time]) == []


def means_of_everything(jobs, moment):
    del moment
    return mean(job.duration_s for job in jobs)


def learns_at_submission(jobs, moment):
    """Takes a job in when it is submitted, as if it were over then."""
    baselines = Baselines(job for job in jobs if job.submit_time < moment)
    return [baselines.durations_s(of_view(job)) for job in ASKED]


def learns_a_second_early(jobs, moment):
    """Knows what ends in this very second."""
    estimator = RollingEstimator.fit(jobs)
    return [estimator.estimate(of_view(job), moment + 1) for job in ASKED]


def chooses_by_the_future(jobs, moment):
    """Trains on the past alone, but as long before as the whole log tells to."""
    newest = max(job.end_time for job in jobs)
    past = [job for job in ended_before(jobs, moment) if job.end_time > newest - 20_000]
    return RollingEstimator.fit(past).estimate(of_view(ASKED[0]), moment)


@pytest.mark.parametrize(
    "predict",
    [means_of_everything, learns_at_submission, learns_a_second_early, chooses_by_the_future],
)
def test_a_planted_leak_is_caught(predict):
    assert leaking_moments(predict, LOG, MOMENTS)


def test_the_other_future_has_the_same_past():
    moment = MOMENTS[1]
    other = another_future(LOG, moment, seed=1)
    assert ended_before(other, moment) == ended_before(LOG, moment)
    assert {j for j in other if j.end_time >= moment}.isdisjoint(LOG)
    assert all(job.start_time <= job.end_time for job in other)
