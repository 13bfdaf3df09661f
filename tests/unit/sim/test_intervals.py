"""Intervals over runs and over days, and paired differences."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import stats
from support.sim_jobs import sim_jobs
from support.sim_results import queued, sim_result

from gsched.resampling import once
from gsched.sim.intervals import METRICS, differences, estimates
from gsched.sim.metrics import Metrics, summarise

SEEDS = range(5)


@cache
def runs(factor: float) -> list[Metrics]:
    return [summarise(queued(300, seed, factor)) for seed in SEEDS]


def test_over_runs_it_is_students_t() -> None:
    means = [run.all_jobs.jct_s.mean for run in runs(1.0)]
    told = estimates(runs(1.0))["jct_mean_s"]
    wanted = stats.ttest_1samp(means, 0).confidence_interval(0.95)
    assert told.value == pytest.approx(np.mean(means))
    assert (told.low, told.high) == pytest.approx(tuple(wanted))


def test_differences_are_run_by_run() -> None:
    """Paired, the chance that both had in common is gone: the interval is far narrower."""
    policy, base = runs(0.5), runs(1.0)
    told = differences(policy, base)["jct_mean_s"]
    ours = [run.all_jobs.jct_s.mean for run in policy]
    theirs = [run.all_jobs.jct_s.mean for run in base]
    wanted = stats.ttest_rel(ours, theirs).confidence_interval(0.95)
    assert (told.low, told.high) == pytest.approx(tuple(wanted))
    assert told.excludes_zero
    apart = stats.ttest_ind(ours, theirs).confidence_interval(0.95)
    assert told.high - told.low < (apart.high - apart.low) / 2


def test_two_runs_have_a_mean_and_no_interval() -> None:
    two = runs(1.0)[:2]
    told = estimates(two)["queueing_mean_s"]
    assert told.value == np.mean([run.all_jobs.queueing_s.mean for run in two])
    assert (told.low, told.high) == (None, None)


def test_the_same_policy_does_not_differ_from_itself() -> None:
    for base in (runs(1.0), runs(1.0)[:1]):
        found = differences(base, base)
        assert set(found) == set(METRICS)
        known = [told for told in found.values() if told.value is not None]
        assert all(told.value == 0 and not told.excludes_zero for told in known)


def test_over_days_the_same_days_are_drawn_for_both() -> None:
    """Every job waits half as long: the difference is as sure as the days are alike."""
    policy, base = summarise(queued(4000, 1, 0.5)), summarise(queued(4000, 1, 1.0))
    told = differences([policy], [base])["queueing_mean_s"]
    assert told.value == pytest.approx(-base.all_jobs.queueing_s.mean / 2)
    assert told.low < told.value < told.high < 0
    own = estimates([base])["queueing_mean_s"]
    assert told.high - told.low == pytest.approx((own.high - own.low) / 2, rel=1e-6)


def test_a_day_is_drawn_as_a_whole() -> None:
    """All of one day's jobs wait 1,000 s: a resample has that day 0, 1, 2, … times of 7."""
    submit = [day * 86_400 + k for day in range(7) for k in range(10)]
    start = [second + 1000 * (second < 86_400) for second in submit]
    jobs = sim_jobs(submit, [10] * 70, origin=0)
    told = estimates([summarise(sim_result(jobs, start, np.add(start, 10)))])["queueing_mean_s"]
    assert told.value == pytest.approx(1000 / 7)
    assert told.low == 0
    assert (told.high * 7 / 1000) % 1 == pytest.approx(0, abs=1e-9)
    assert told.high * 7 / 1000 >= 3


def test_of_few_days_no_interval_is_told() -> None:
    told = estimates([summarise(queued(200, 1, days=5))])["jct_mean_s"]
    assert told.value is not None
    assert (told.low, told.high) == (None, None)


def test_what_is_no_mean_of_jobs_has_no_interval_over_days() -> None:
    told = estimates([summarise(queued(500, 1))])
    assert told["makespan_s"].value is not None
    assert told["makespan_s"].low is None


def test_simulations_of_other_jobs_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="other jobs"):
        differences([summarise(queued(300, 1))], [summarise(queued(300, 1, days=10))])


def test_as_many_runs_are_needed_of_both() -> None:
    with pytest.raises(ValueError, match="zip"):
        differences(runs(1.0), runs(1.0)[:3])


def test_a_figure_that_one_run_lacks_is_not_told() -> None:
    """An interrupted run has no makespan: a mean of the others would be of other runs."""
    cut = [*runs(1.0)[:4], replace(runs(1.0)[4], makespan_s=None)]
    assert estimates(cut)["makespan_s"].value is None
    assert differences(cut, runs(1.0))["makespan_s"].value is None


def test_the_same_result_gives_the_same_intervals() -> None:
    once, again = (estimates([summarise(queued(500, 3))]) for _ in range(2))
    assert once == again


def test_deadlines_have_intervals_over_days() -> None:
    result = queued(2000, 5)
    jobs = replace(result.jobs, deadline_s=result.jobs.submit_s + 3000)
    found = summarise(replace(result, jobs=jobs))
    told = estimates([found])["deadline_miss_share"]
    assert told.value == found.deadlines.miss_rate
    assert told.low < told.value < told.high


def test_chance_alone_is_seldom_shown_as_a_difference() -> None:
    """Two policies under which jobs wait by the same law: one interval of twenty excludes 0."""
    shown = 0
    for seed in range(40):
        base = queued(400, seed)
        random = np.random.default_rng(1000 + seed)
        wait_s = random.integers(0, 3600, len(base.jobs))
        start_s = base.jobs.submit_s + wait_s
        other = sim_result(base.jobs, start_s, start_s + base.run_s)
        told = differences([summarise(other)], [summarise(base)])["queueing_mean_s"]
        shown += told.excludes_zero
    assert 0 < shown <= 6


def test_all_days_together_give_the_figures_themselves() -> None:
    """Also where some jobs have not ended: shares are of those that have."""
    whole = queued(900, 4)
    end_s = np.where(np.arange(900) % 3 == 0, np.nan, whole.end_s)
    found = summarise(replace(whole, end_s=end_s, interrupted=True))
    assert found.all_jobs.finished == 600
    daily = found.daily.at(once(len(found.daily.days)))
    values = {name: told.value for name, told in estimates([found]).items()}
    assert set(daily) < set(METRICS)
    for name, value in daily.items():
        assert value[0] == pytest.approx(values[name], nan_ok=True) or values[name] is None


NAN = float("nan")


def with_ends(end_s: list[float]) -> Metrics:
    jobs = sim_jobs([0] * 4, [10, 20, 30, 5000])
    return summarise(sim_result(jobs, [0, 0, 30, 0], end_s))


def test_differences_are_over_the_jobs_that_ended_under_both() -> None:
    """The policy gave up the longest job, the baseline another: two ended under both."""
    base, policy = with_ends([10, 40, NAN, 5000]), with_ends([10, 30, 90, NAN])
    assert estimates([policy])["jct_mean_s"].value == pytest.approx(130 / 3)
    found = differences([policy], [base])
    assert (found["jct_mean_s"].value, found["jct_mean_s"].baseline) == (20 - 25, 25)
    assert found["jct_p99_s"].value == 30 - 40
    assert found["queueing_mean_s"].value == 0
    assert found["bounded_slowdown_mean"].value == pytest.approx((1 + 1.5) / 2 - (1 + 2) / 2)
    assert found["makespan_s"].value == 90 - 5000  # of the cluster: as it was


def test_over_runs_and_days_they_are_over_these_jobs_too() -> None:
    """Each gives up a third of the jobs, at a bound of run time: the long ones, or none of them."""

    def given_up(seed: int, factor: float, which: int) -> Metrics:
        result = queued(1200, seed, factor)
        return summarise(
            replace(result, end_s=np.where(np.arange(1200) % 3 == which, NAN, result.end_s))
        )

    base, policy = ([given_up(k, f, f == 1.0) for k in SEEDS] for f in (1.0, 0.5))
    both = np.arange(1200) % 3 == 2
    wanted = []
    for seed in SEEDS:
        one, half = queued(1200, seed, 1.0), queued(1200, seed, 0.5)
        wanted.append((half.end_s - one.end_s)[both].mean())
    told = differences(policy, base)["jct_mean_s"]
    assert told.value == pytest.approx(np.mean(wanted))
    assert told.low < told.value < told.high < 0
    by_days = differences(policy[:1], base[:1])["jct_mean_s"]
    assert by_days.value == pytest.approx(wanted[0])
    assert by_days.low < by_days.value < by_days.high < 0


def test_days_begin_at_midnight_utc() -> None:
    jobs = sim_jobs([0, 43_199, 43_200], [1, 1, 1], origin=10 * 86_400 + 43_200)
    found = summarise(sim_result(jobs, jobs.submit_s, jobs.submit_s + 1))
    assert found.daily.days == [10, 11]
