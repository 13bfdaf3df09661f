from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from support.jobs import T0, past_job

from gsched.predict import validation
from gsched.predict.validation import compare, log_error, rank_correlation, validate


def array(*values):
    return np.array(values, dtype=float)


def test_rank_correlation_is_spearmans():
    assert rank_correlation(array(1, 2, 3), array(10, 200, 3000)) == pytest.approx(1)
    assert rank_correlation(array(1, 2, 3), array(3, 2, 1)) == pytest.approx(-1)
    assert rank_correlation(array(1, 2, 3, 4, 5), array(2, 1, 4, 3, 5)) == pytest.approx(0.8)
    assert rank_correlation(array(1, 1, 2), array(5, 6, 7)) == pytest.approx(math.sqrt(3) / 2)
    assert rank_correlation(array(1, 1, 1), array(1, 2, 3)) == 0.0
    assert rank_correlation(array(1, 2, 3), array(7, 7, 7)) == 0.0


def test_log_error_is_the_median_factor_and_short_jobs_count_as_a_second():
    assert log_error(array(20, 5, 10), array(10, 10, 10)) == pytest.approx(math.log(2))
    assert log_error(array(0, 0.2), array(0, 1)) == 0.0


def test_too_few_jobs_choose_nothing():
    jobs = [past_job(i, i, end=T0 + i) for i in range(9)]
    assert validate(jobs) is None
    assert validate([]) is None
    assert validate([*jobs, past_job(9, 9, end=T0 + 9)]) is not None


def test_recurring_jobs_speak_for_the_rolling_estimate(recurring_model):
    found = recurring_model.info.validation
    assert found.lam == 1.0
    assert found.held_out == "every-fifth"
    assert found.num_held_out == 36
    assert found.scores["model"].rank_correlation > 0.95
    assert found.scores["model"] == found.scores["rolling"]
    assert found.scores["user-mean"].rank_correlation < 0.5
    assert found.scores["mean"].log_error > 3 * found.scores["model"].log_error


def test_names_that_tell_nothing_speak_for_the_regression(regression_model):
    found = regression_model.info.validation
    assert found.lam < 0.5
    assert found.scores["regression"].rank_correlation > 0.9
    assert found.scores["model"].rank_correlation >= found.scores["rolling"].rank_correlation
    assert set(found.grid) == {f"{lam:.1f}" for lam in validation.GRID}
    assert found.grid[f"{found.lam:.1f}"] == found.scores["model"].rank_correlation


def test_a_few_jobs_started_together_do_not_mislead_it():
    """The last fifth by end time holds only the longest names, which never ended before."""
    jobs = sorted(
        (
            past_job(
                run * 12 + i, 2**i + run, end=T0 + 2**i + run, submit=T0, name="abcdefghijkl"[i] * 8
            )
            for run in range(3)
            for i in range(12)
        ),
        key=lambda j: j.end_time,
    )
    found = validate(jobs)
    assert found.lam == 1.0
    assert found.scores["model"].rank_correlation > 0.95


def test_the_order_that_counts_is_that_of_gpu_time():
    jobs = [
        past_job(i, 10 + 10 * (i % 3), end=T0 + 100 * i, gpus=(8, 4, 1)[i % 3], name="x" * 9)
        for i in range(60)
    ]
    scores = validate(jobs).scores
    assert scores["mean"].rank_correlation > 0.85  # all durations alike: the GPU counts' own
    comparison = compare(jobs[:40], jobs[40:], since=jobs[40].end_time)
    assert comparison.num_units.tolist() == [float((8, 4, 1)[i % 3]) for i in range(40, 60)]
    score = comparison.score(comparison.actual_s)
    assert score.rank_correlation == pytest.approx(1)
    assert score.log_error == 0
    by_duration = rank_correlation(1 / comparison.num_units, comparison.actual_s)
    assert comparison.score(1 / comparison.num_units).rank_correlation < by_duration


def test_large_histories_hold_out_the_last_fifth():
    jobs = [past_job(i, 1 + i % 7, end=T0 + 50 * i, name="ab"[i % 2] * 9) for i in range(600)]
    found = validate(jobs)
    assert (found.held_out, found.num_held_out) == ("last-fifth", 120)


def test_the_choice_leans_to_the_rolling_estimate_within_one_standard_error():
    grid = {0.0: 0.5, 0.5: 0.9, 1.0: 0.88}
    assert validation._choose(grid, 50) == 1.0
    assert validation._choose(grid, 5000) == 0.5


def test_walking_forward_learns_from_what_has_ended_and_from_nothing_else():
    train = [past_job(i, 10, end=T0 + i) for i in range(20)]
    held_out = [
        past_job(100, 500, end=T0 + 1000, submit=T0 + 400),
        past_job(101, 60, end=T0 + 3060, submit=T0 + 999),
        past_job(102, 60, end=T0 + 4060, submit=T0 + 1001),
    ]
    found = compare(train, held_out, since=T0 + 100)
    rolled = found.predicted_s["rolling"].tolist()
    assert rolled[:2] == [10.0, 10.0]
    assert rolled[2] > 100  # the job of 500 s ended a second before
    assert found.predicted_s["mean"].tolist()[1:] == [10.0, pytest.approx((20 * 10 + 500) / 21)]
    assert found.actual_s.tolist() == [500.0, 60.0, 60.0]
    longer = [replace(job, end_time=job.end_time + 10**6) for job in held_out]
    again = compare(train, longer, since=T0 + 100)
    assert again.predicted_s["rolling"].tolist() == [10.0] * 3
    assert again.predicted_s["regression"].tolist() == found.predicted_s["regression"].tolist()


def test_ratios_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    durations = np.exp(rng.normal(5, 1, 3000)).astype(int) + 1
    jobs = [past_job(i, int(d), end=T0 + 10_000 * i) for i, d in enumerate(durations)]
    learnt, later = jobs[:2000], jobs[2000:]
    found = validate(learnt)
    low, middle, high = found.ratios["any"]
    comparison = compare(learnt, later, since=later[0].start_time)
    ratio = comparison.actual_s / comparison.blend(found.lam)
    assert low < middle < high
    assert np.mean(ratio < low) == pytest.approx(0.1, abs=0.04)
    assert np.mean(ratio < middle) == pytest.approx(0.5, abs=0.1)
    assert np.mean(ratio > high) == pytest.approx(0.1, abs=0.04)
    assert found.ratios["similar-name"] == pytest.approx(found.ratios["any"], rel=0.2)
