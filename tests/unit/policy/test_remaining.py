"""How much longer a job needs its GPUs: by the history, by its limit, by its own word."""

from __future__ import annotations

import random
from dataclasses import replace
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jobs import T0, view

from gsched.model.job import (
    UNLIMITED_S,
    Allocation,
    Capability,
    Exclusion,
    JobState,
    Prediction,
    PredictionKind,
    Wants,
)
from gsched.policy.remaining import LEVELS, remaining, run_so_far_s

NOW = T0 + 100_000
HOUR = 3600
NO_CHECKPOINT = (Exclusion(Capability.PREEMPT, "no-checkpoint", ""),)


def waits(duration_s=None, quantiles=(), caution=1.0, **options):
    job = view(gpus=2, **options)
    if duration_s is None:
        return job
    made = Prediction(
        PredictionKind.DURATION, duration_s, quantiles, "similar-name", "m", 9, T0, caution
    )
    return replace(job, predictions=(made,))


def runs(job, for_s, before_s=0.0, restarts=0):
    return replace(
        job,
        state=JobState.RUNNING,
        allocation=Allocation(("n1",), (2,), NOW - for_s),
        attained_gpu_s=2 * (for_s + before_s),
        restarts=restarts,
    )


def requeued(job, after_s, restarts=1):
    return replace(job, attained_gpu_s=2.0 * after_s, restarts=restarts)


def tells(job, left, per_s, as_of=NOW, source="heartbeat", quantiles=()):
    def prediction(kind, mean, quantiles=()):
        return Prediction(kind, mean, quantiles, source, source, 0, as_of)

    kept = tuple(p for p in job.predictions if p.kind is PredictionKind.DURATION)
    speed = prediction(PredictionKind.SPEED, per_s, quantiles)
    return replace(job, predictions=(*kept, speed, prediction(PredictionKind.ITERATIONS, left)))


def test_an_exact_prediction_leaves_what_has_not_been_run():
    job = waits(HOUR)
    found = remaining(job, NOW)
    assert (found.mean_s, found.safe_s, found.source) == (HOUR, HOUR, "history")
    found = remaining(runs(job, 1000), NOW)
    assert found.mean_s == pytest.approx(2600)
    assert found.safe_s == pytest.approx(2600)
    assert found.probability_within(2601) >= 0.98
    assert found.probability_within(2500) < LEVELS[0]


def test_a_normal_error_of_the_prediction_is_covered_as_often_as_was_asked():
    """Drawn: the true run time is an hour, what is predicted of it is normal around that."""
    draw = random.Random(7)
    for quantile in (0.5, 0.75, 0.9):
        held, drawn = 0, 4000
        for _ in range(drawn):
            predicted = HOUR * max(0.1, draw.gauss(1.0, 0.4))
            held += remaining(waits(predicted), NOW, quantile, 0.4).safe_s >= HOUR
        assert held / drawn == pytest.approx(quantile, abs=0.02)


def test_what_is_left_is_of_those_that_have_run_as_long():
    """Against jobs drawn from the predicted quantiles: exponential run times forget what was."""
    levels = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
    normal = NormalDist(1000, 100)
    quantiles = tuple((p, normal.inv_cdf(p)) for p in levels)
    job = waits(1000.0, quantiles)
    drawn = random.Random(3).choices(range(100_000), k=20_000)
    times = [normal.inv_cdf((n + 0.5) / 100_000) for n in drawn]
    for for_s in (0, 500, 950, 1050, 1150):
        left = sorted(t - for_s for t in times if t > for_s)
        found = remaining(runs(job, for_s), NOW)
        for level in (0.25, 0.5, 0.75, 0.9):
            assert found.at(level) == pytest.approx(left[int(level * len(left))], abs=25)
        assert found.probability_within(left[len(left) // 2]) == pytest.approx(0.5, abs=0.15)


@given(st.floats(0, 40), st.floats(0, 0.5), st.booleans())
def test_a_job_that_outruns_its_prediction_never_ends_at_once(factor, error, by_quantiles):
    quantiles = ((0.1, 500.0), (0.5, 1000.0), (0.9, 2000.0)) if by_quantiles else ()
    found = remaining(runs(waits(1000.0, quantiles), int(1000 * factor)), NOW, 0.9, error)
    assert found.mean_s >= 1
    assert list(found.at_levels_s) == sorted(found.at_levels_s)
    assert found.safe_s >= found.at(0.5)
    if factor > 2:  # as long again as a part of what it has run, and more the longer it runs
        assert found.at(0.5) > 0.02 * 1000 * factor
    levels = [found.probability_within(s) for s in range(0, 5000, 50)]
    assert levels == sorted(levels)
    assert levels[-1] <= LEVELS[-1]


def test_caution_makes_the_whole_distribution_longer():
    quantiles = ((0.5, 100.0), (0.9, 200.0))
    assert remaining(waits(1000.0, quantiles, caution=10.0), NOW).safe_s == pytest.approx(2000)


def test_the_time_limit_counts_where_nothing_else_is_known():
    found = remaining(waits(time_limit_s=HOUR), NOW)
    assert (found.mean_s, found.safe_s, found.source) == (HOUR, HOUR, "limit")
    assert found.probability_within(HOUR) == 1.0
    first_guess = replace(
        waits(time_limit_s=HOUR),
        predictions=(
            Prediction(PredictionKind.DURATION, HOUR, (), "time-limit", "cold-start", 0, T0),
        ),
    )
    assert remaining(first_guess, NOW).source == "limit"
    assert remaining(runs(first_guess, 600), NOW).safe_s == HOUR - 600
    assert remaining(waits(), NOW) is None
    assert remaining(waits(time_limit_s=UNLIMITED_S), NOW) is None
    assert remaining(waits(60.0, time_limit_s=UNLIMITED_S), NOW).most_s == float("inf")


def test_the_sites_guess_is_told_apart():
    guess = Prediction(PredictionKind.DURATION, HOUR, (), "site-default", "cold-start", 0, T0)
    assert remaining(replace(waits(), predictions=(guess,)), NOW).source == "default"


def test_the_time_limit_ends_what_is_predicted_to_run_longer():
    found = remaining(runs(waits(10 * HOUR, time_limit_s=2 * HOUR), HOUR), NOW, 0.9, 0.4)
    assert found.most_s == HOUR
    assert found.safe_s == HOUR
    assert found.probability_within(HOUR) == 1.0
    assert found.probability_within(HOUR - 1) < 0.5


def test_progress_outlives_an_interruption_only_where_it_is_saved():
    job = waits(HOUR)
    assert run_so_far_s(requeued(job, 1000), NOW) == 1000
    assert run_so_far_s(runs(job, 500, 1000), NOW) == 1500
    lost = replace(job, exclusions=NO_CHECKPOINT)
    assert run_so_far_s(requeued(lost, 1000), NOW) == 0
    assert run_so_far_s(runs(lost, 500, 1000), NOW) == 500
    asked = replace(lost, wants=Wants(checkpoint=True))  # left alone for another reason
    assert run_so_far_s(requeued(asked, 1000), NOW) == 1000
    untold = replace(runs(job, 500), attained_gpu_s=None)
    assert run_so_far_s(untold, NOW) == 500


def test_each_interruption_has_its_price_and_the_next_start_as_well():
    job = waits(HOUR)
    assert remaining(job, NOW, resume_s=60).safe_s == HOUR  # its first start is in the prediction
    assert remaining(requeued(job, 1000), NOW, resume_s=60).safe_s == pytest.approx(2600 + 60)
    again = runs(job, 500, 1000, restarts=1)  # of the 1500 s the restart has taken 60
    assert remaining(again, NOW, resume_s=60).safe_s == pytest.approx(2100 + 60)
    twice = requeued(job, 1500, restarts=2)
    assert remaining(twice, NOW, resume_s=60).safe_s == pytest.approx(2100 + 120)


def test_what_a_job_tells_is_believed_both_ways_only_where_it_harms_nobody():
    job = runs(waits(HOUR), 600)
    for left, mean_s in ((100, 50), (20_000, 10_000)):
        told = tells(job, left, 2.0)
        own = remaining(told, NOW, may_lower=True)
        assert (own.mean_s, own.source) == (pytest.approx(mean_s), "heartbeat")
    short, long = tells(job, 100, 2.0), tells(job, 20_000, 2.0)
    assert remaining(short, NOW).safe_s == remaining(job, NOW).safe_s
    assert remaining(long, NOW).mean_s == pytest.approx(10_000)


@given(
    st.floats(0, 1e9),
    st.floats(1e-9, 1e9),
    st.sampled_from([None, 60.0, 3600.0]),
    st.sampled_from([None, 600, 86400]),
    st.integers(0, 100_000),
)
def test_nothing_that_a_job_tells_makes_it_look_shorter_to_others(
    left, per_s, predicted, limit_s, run_s
):
    """At every level, whatever is forged; and where nothing is known it makes nothing known."""
    job = runs(waits(predicted, time_limit_s=limit_s), run_s)
    told = tells(job, left, per_s)
    honest, forged = remaining(job, NOW, 0.9, 0.2), remaining(told, NOW, 0.9, 0.2)
    if honest is None:
        assert forged is None
        return
    assert forged.mean_s >= honest.mean_s
    assert all(f >= h for f, h in zip(forged.at_levels_s, honest.at_levels_s, strict=True))
    assert all(
        forged.probability_within(s) <= honest.probability_within(s) + 1e-9
        for s in (10, 1000, 100_000)
    )


def test_a_profile_run_speaks_where_no_history_does_and_nowhere_else():
    unseen = waits(time_limit_s=24 * HOUR)
    profiled = tells(unseen, 7200, 1.0, source="profile")
    found = remaining(profiled, NOW)
    assert (found.mean_s, found.source) == (7200, "profile")
    assert 7200 < found.safe_s < 3 * HOUR
    known = tells(waits(10 * HOUR, time_limit_s=24 * HOUR), 7200, 1.0, source="profile")
    assert remaining(known, NOW).mean_s == 10 * HOUR


def test_iterations_pass_since_they_were_told_but_one_is_always_to_come():
    job = runs(waits(HOUR), 600)
    told = tells(job, 100, 0.5, as_of=NOW - 60)
    assert remaining(told, NOW, may_lower=True).mean_s == pytest.approx(140)
    silent = tells(job, 100, 0.5, as_of=NOW - 5000)
    assert remaining(silent, NOW, may_lower=True).mean_s == pytest.approx(2)
    stopped = tells(requeued(waits(HOUR), 600), 100, 0.5, as_of=NOW - 5000)
    assert remaining(stopped, NOW, resume_s=30, may_lower=True).mean_s == pytest.approx(230)


def test_slower_iterations_are_what_a_safe_remainder_goes_by():
    job = runs(waits(HOUR), 600)
    told = tells(job, 1000, 2.0, quantiles=((0.1, 1.0), (0.5, 2.0), (0.9, 4.0)))
    found = remaining(told, NOW, 0.9, may_lower=True)
    assert found.safe_s == pytest.approx(1000)
    assert found.mean_s == pytest.approx(500)
    assert found.at(0.1) == pytest.approx(250)
