from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from support.jobs import T0, past_job

from gsched.predict import fitting, validation
from gsched.predict.attributes import of_past, select_jobs
from gsched.predict.features import FEATURES
from gsched.predict.fitting import fit
from gsched.predict.memory import walk
from gsched.predict.rolling import QUANTILES
from gsched.predict.validation import compare, log_error, rank_correlation, scale


def validate(jobs, kind="gpu"):
    """What a fit finds out about its jobs of one kind."""
    return fit(select_jobs(jobs, 2 * T0)[0]).kinds[kind].validation


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
    assert validate([*jobs, past_job(9, 9, end=T0 + 9)]) is not None


def test_recurring_jobs_speak_for_the_rolling_estimate(recurring_model):
    found = recurring_model.info.kinds["gpu"].validation
    assert found.lam == 1.0
    assert found.held_out == "every-fifth"
    assert found.num_held_out == 36
    assert found.scores["model"].rank_correlation > 0.95
    assert found.scores["model"] == found.scores["rolling"]
    assert found.scores["user-mean"].rank_correlation < 0.5
    assert found.scores["mean"].log_error > 3 * found.scores["model"].log_error


def test_names_that_tell_nothing_speak_for_the_regression(regression_model):
    found = regression_model.info.kinds["gpu"].validation
    assert found.lam < 0.5
    assert found.scores["regression"].rank_correlation > 0.9
    assert found.scores["model"].rank_correlation >= found.scores["rolling"].rank_correlation
    assert set(found.scores) == {
        *("model", "rolling", "regression", "user-mean", "mean", "last-two", "time-limit")
    }
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
    comparison = _compared(jobs[:40], jobs[40:])
    assert comparison.num_units.tolist() == [float((8, 4, 1)[i % 3]) for i in range(40, 60)]
    score = comparison.score(comparison.actual_s)
    assert score.rank_correlation == pytest.approx(1)
    assert score.log_error == 0
    by_duration = rank_correlation(1 / comparison.num_units, comparison.actual_s)
    assert comparison.score(1 / comparison.num_units).rank_correlation < by_duration


def _compared(train, held_out):
    """`held_out` predicted as each was submitted, by a regression that has seen `train`."""
    jobs = [*train, *held_out]
    _, looks = walk(jobs, [(job.submit_time, i) for i, job in enumerate(jobs)])
    naive = [dict.fromkeys(validation.NAMES, 1.0) for _ in held_out]
    return compare(
        looks[: len(train)],
        [job.duration_s for job in train],
        looks[len(train) :],
        [job.duration_s for job in held_out],
        naive,
    )


def test_large_histories_hold_out_the_last_fifth():
    jobs = [past_job(i, 1 + i % 7, end=T0 + 50 * i, name="ab"[i % 2] * 9) for i in range(600)]
    found = validate(jobs)
    assert (found.held_out, found.num_held_out) == ("last-fifth", 120)


def test_the_choice_leans_to_the_rolling_estimate_within_one_standard_error():
    grid = {0.0: 0.5, 0.5: 0.9, 1.0: 0.88}
    alike = dict.fromkeys(grid, (1.0, 0.1))
    assert validation._choose(grid, alike, 50) == 1.0
    assert validation._choose(grid, alike, 5000) == 0.5
    assert validation._choose(grid, alike | {1.0: (1.05, 0.1)}, 50) == 1.0
    assert validation._choose(grid, alike | {1.0: (1.2, 0.1)}, 50) == 0.5
    assert validation._choose(grid, alike | {0.0: (0.1, 0.0)}, 50) == 1.0


def test_walking_forward_learns_from_what_has_ended_and_from_nothing_else():
    train = [past_job(i, 10, end=T0 + 20 * i) for i in range(20)]
    held_out = [
        past_job(100, 500, end=T0 + 1000, submit=T0 + 400),
        past_job(101, 60, end=T0 + 3060, submit=T0 + 999),
        past_job(102, 60, end=T0 + 4060, submit=T0 + 1001),
    ]
    found = _compared(train, held_out)
    rolled = found.predicted_s["rolling"].tolist()
    assert rolled[:2] == pytest.approx([10.0, 10.0])
    assert rolled[2] > 100  # the job of 500 s ended a second before
    assert found.actual_s.tolist() == [500.0, 60.0, 60.0]
    longer = [replace(job, end_time=job.end_time + 10**6) for job in held_out]
    again = _compared(train, longer)
    assert again.predicted_s["rolling"].tolist() == pytest.approx([10.0] * 3)
    assert again.predicted_s["regression"][:2].tolist() == (
        found.predicted_s["regression"][:2].tolist()
    )


def test_who_was_submitted_before_the_rest_had_ended_is_predicted_at_that_moment():
    """Held out are the last fifth to end; a long one of them began before all others."""
    jobs = [past_job(i, 10, end=T0 + 100 * i, name="short") for i in range(600)]
    early = past_job(900, 50_000, end=T0 + 59_950, submit=T0 - 10**6, name="short")
    found = validate([*jobs, early])
    assert found.num_held_out == 121
    assert found.scores["rolling"].log_error == pytest.approx(0, abs=1e-9)
    assert found.residuals["any"][-1] == pytest.approx(0, abs=0.1)
    rows = fit(select_jobs([*jobs, early], 2 * T0)[0]).kinds["gpu"].num_rows
    assert rows == 599  # when the early one was submitted, nothing had ended


def test_in_a_burst_nothing_is_known_so_that_there_is_no_regression():
    jobs = [
        past_job(i, 10 + i % 3, end=T0 + i, submit=T0 - 100, name="abc"[i % 3]) for i in range(60)
    ]
    fitted = fit(jobs)
    assert fitted.regressions == {}
    assert fitted.kinds["gpu"].lam == 1.0
    assert fitted.kinds["gpu"].num_rows == 0


def test_the_newest_jobs_teach_the_regression_of_a_long_history(monkeypatch):
    monkeypatch.setattr(fitting, "MAX_ROWS", 600)
    jobs = [past_job(i, 1 + i % 7, end=T0 + 50 * i, name="ab"[i % 2] * 9) for i in range(900)]
    fitted = fit(jobs)
    found = fitted.kinds["gpu"]
    assert (found.num_jobs, found.num_rows, found.validation.num_held_out) == (900, 600, 120)
    submitted = fitted.regressions["gpu"].background[:, FEATURES.index("idle_s")]
    assert not np.isnan(submitted).any()


def test_intervals_hold_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(1)
    durations = np.exp(rng.normal(5, 1, 3000)).astype(int) + 1
    jobs = [past_job(i, int(d), end=T0 + 10_000 * i) for i, d in enumerate(durations)]
    found = validate(jobs[:2000])
    comparison = _compared(jobs[:2000], jobs[2000:])
    ratio = np.log(comparison.actual_s / comparison.blend(found.lam)) / comparison.scales
    assert comparison.scales == pytest.approx(2.05 * np.ones(1000), abs=0.5)
    for level, residual in zip(QUANTILES, found.residuals["any"], strict=True):
        assert np.mean(ratio < residual) == pytest.approx(level, abs=0.08)
    assert found.residuals["similar-name"] == pytest.approx(found.residuals["any"], abs=0.2)
    assert list(found.residuals["any"]) == sorted(found.residuals["any"])


def test_a_wider_past_makes_a_wider_interval():
    steady = [past_job(i, 100, end=T0 + 200 * i) for i in range(5)]
    varied = [past_job(i, 10 * 4**i, end=T0 + 10**6 + i, user="bob") for i in range(5)]
    memory, _ = walk([*steady, *varied], [])
    looks = memory.look([of_past(steady[0]), of_past(varied[0])], 2 * T0)
    assert scale(looks[0]) == 1.0 + 1 / 5
    assert scale(looks[1]) == pytest.approx(1 + 1 / 5 + math.log(4) * math.sqrt(2))


@pytest.mark.parametrize("draw", ["normal", "laplace"])
@pytest.mark.parametrize("count", [10, 20, 30])
def test_the_outer_levels_hold_what_they_say_of_few_residuals_too(draw, count):
    rng = np.random.default_rng(count)
    held = []
    for _ in range(1500):
        rising = sorted(getattr(rng, draw)(size=count).tolist())
        low, high = (validation._quantile(rising, level) for level in (0.02, 0.98))
        held.append(
            np.mean(np.abs(getattr(rng, draw)(size=50) - (low + high) / 2) <= (high - low) / 2)
        )
    assert 0.93 < np.mean(held) < 0.98  # the extremes alone: 0.82 of 10, 0.91 of 20
