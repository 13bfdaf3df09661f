"""Walking forward over a log: what was known when, and nothing that came later."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from support.jobs import T0, past_job

from gsched.model.job import JobState
from gsched.model.times import DAY_S
from gsched.predict.rolling import QUANTILES
from gsched.predict.walk import CONTENDERS, MODEL_PARTS, WalkOptions, walk

COUNT, STEP_S = 240, 3600
OPTIONS = WalkOptions(refit_s=3 * DAY_S, min_jobs=10, default_duration_s=777.0)


def log(count=COUNT, seed=1):
    """Jobs of four users, some with GPUs; each (user, name) has a typical run time."""
    random = np.random.default_rng(seed)
    jobs = []
    for i in range(count):
        user, name, gpus = random.integers(4), random.integers(3), int(random.integers(0, 3))
        typical = 60 * 4 ** int(user) * (1 + int(name))
        duration_s = max(1, int(typical * np.exp(random.normal(0, 0.4))))
        submit = T0 + i * STEP_S
        jobs.append(
            past_job(
                i,
                duration_s,
                end=submit + int(random.integers(0, 4000)) + duration_s,
                submit=submit,
                user=f"u{user}",
                name="abc"[name] * 5,
                gpus=gpus,
                time_limit_s=int(20 * typical) if i % 2 else None,
            )
        )
    return jobs


@pytest.fixture(scope="module")
def walked():
    return walk(log(), OPTIONS)


def columns(walked):
    return {
        **walked.predicted_s,
        "mean": walked.mean_s,
        **{f"q{p}": walked.quantiles_s[:, k] for k, p in enumerate(QUANTILES)},
    }


def test_every_contender_predicts_every_job(walked):
    assert set(walked.predicted_s) == set(CONTENDERS)
    assert [job.job_id for job in walked.jobs] == list(range(COUNT))
    for name, seconds in walked.predicted_s.items():
        assert np.isfinite(seconds).all(), name
        assert (seconds > 0).all(), name
    limits = np.array([job.time_limit_s or np.inf for job in walked.jobs])
    for name, seconds in walked.predicted_s.items():
        assert (seconds <= limits + 1e-6).all(), name


def test_the_first_jobs_know_their_limit_or_the_sites_default_alone(walked):
    first, second = walked.jobs[:2]
    assert first.time_limit_s is None
    assert {walked.predicted_s[name][0] for name in CONTENDERS} == {777.0}
    assert {walked.predicted_s[name][1] for name in MODEL_PARTS} == {second.time_limit_s}
    assert walked.sources[0] == "site-default"
    assert walked.sources[1] == "time-limit"
    assert np.isnan(walked.quantiles_s[0]).all()


def test_it_is_fitted_anew_as_its_rule_says(walked):
    times = [fit.as_of for fit in walked.fits]
    ended = [sum(job.end_time < at for job in walked.jobs) for at in times]
    assert ended[0] == 10 or ended[0] - 10 < 5
    assert [fit.num_jobs for fit in walked.fits] == ended
    steps = zip(itertools.pairwise(times), itertools.pairwise(ended), strict=True)
    for (earlier, later), (few, many) in steps:
        assert later - earlier >= 3 * DAY_S or many >= 2 * few
    assert T0 + COUNT * STEP_S - times[-1] <= 3 * DAY_S + STEP_S
    assert set(walked.fits[-1].lam) == {"gpu", "cpu"}


def test_old_jobs_are_forgotten():
    options = replace(OPTIONS, history_s=2 * DAY_S)
    fits = walk(log(), options).fits
    assert max(fit.num_jobs for fit in fits) <= 2 * DAY_S / STEP_S + 5
    assert len(fits) < 12  # a history that cannot double is not fitted at each job


def test_nothing_that_ends_later_changes_a_prediction(walked):
    """Everything that ended at or after a moment is made up anew: what was told by then stays."""
    moment = walked.jobs[150].submit_time
    changed = [
        job if job.end_time < moment else replace(job, end_time=job.end_time + 1000 + job.job_id)
        for job in log()
    ]
    assert any(job.submit_time < moment <= job.end_time for job in changed)
    again = walk(changed, OPTIONS)
    until = [k for k, job in enumerate(walked.jobs) if job.submit_time <= moment]
    rows = {job.job_id: k for k, job in enumerate(again.jobs)}
    others = [rows[walked.jobs[k].job_id] for k in until]
    for name, values in columns(walked).items():
        assert np.array_equal(values[until], columns(again)[name][others], equal_nan=True), name
    assert len(until) == 151


def test_a_job_that_ended_just_before_is_known(walked):
    """The control: what ends a second before a submission does change its prediction."""
    job = walked.jobs[150]
    told = max(
        (j for j in walked.jobs if j.end_time < job.submit_time and j.user == job.user),
        key=lambda j: j.end_time,
    )
    jobs = [replace(j, start_time=j.end_time - 10**6) if j == told else j for j in walked.jobs]
    again = walk(jobs, OPTIONS)
    for name in ("user-mean", "last-two", "mean"):
        assert again.predicted_s[name][150] > walked.predicted_s[name][150], name
    assert not np.array_equal(again.predicted_s["model"][150:], walked.predicted_s["model"][150:])


def test_what_the_cluster_ended_is_left_out_and_counted():
    jobs = log(60)
    jobs[20] = replace(jobs[20], state=JobState.NODE_FAIL)
    found = walk(jobs, OPTIONS)
    assert found.left_out == {"ended-by-cluster": 1}
    assert 20 not in {job.job_id for job in found.jobs}


def test_the_order_of_the_input_does_not_matter(walked):
    shuffled = log()
    np.random.default_rng(2).shuffle(shuffled)
    again = walk(shuffled, OPTIONS)
    for name, values in columns(walked).items():
        assert np.array_equal(values, columns(again)[name], equal_nan=True), name


def test_the_model_learns_between_its_fits():
    """Fitted once, then never again: the rolling estimate still follows."""
    options = replace(OPTIONS, refit_s=10**9)
    jobs = [
        past_job(i, 100 if i < 40 else 9000, end=T0 + 20_000 * i + 9500, submit=T0 + 20_000 * i)
        for i in range(70)
    ]
    found = walk(jobs, options)
    assert [fit.num_jobs for fit in found.fits] == [10, 20, 40]
    assert found.predicted_s["rolling"][39] == pytest.approx(100)
    assert found.predicted_s["rolling"][69] > 8000
