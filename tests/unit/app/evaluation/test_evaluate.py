"""Figures of a walk that was made by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.jobs import T0, past_job

from gsched.app.evaluation.evaluate import judge, kind_figures
from gsched.app.evaluation.inputs import PastFromFiles
from gsched.app.evaluation.statistics import MIN_WEEK, WEEK_S
from gsched.app.evaluation.tables import lines
from gsched.predict.rolling import QUANTILES
from gsched.predict.walk import CONTENDERS, Walk, WalkOptions

WEEKS, A_WEEK = 8, 40
LOW, HIGH = QUANTILES.index(0.1), QUANTILES.index(0.9)


def made():
    """40 jobs a week, each of 100 s times its place; in week 3 half of them miss their interval.

    The model tells the truth, the rolling estimate the reverse, all others the same for all. The
    last job is alone in its week, and nothing was told of the first.
    """
    jobs = [
        past_job(
            w * A_WEEK + k,
            100 * (k + 1),
            end=T0 + w * WEEK_S + 1000 * k + 100 * (k + 1),
            submit=T0 + w * WEEK_S + 1000 * k,
            gpus=1,
            time_limit_s=10_000,
        )
        for w in range(WEEKS)
        for k in range(A_WEEK)
    ]
    jobs.append(past_job(999, 100, end=T0 + WEEKS * WEEK_S + 200, submit=T0 + WEEKS * WEEK_S))
    actual = np.array([float(job.duration_s) for job in jobs])
    predicted = {name: np.full(len(jobs), 1000.0) for name in CONTENDERS}
    predicted["model"] = actual.copy()
    predicted["rolling"] = 5000.0 - actual
    quantiles = np.outer(actual, np.linspace(0.4, 1.6, len(QUANTILES)))
    week_3 = np.arange(3 * A_WEEK, 4 * A_WEEK)
    quantiles[week_3[::2]] *= 10  # the whole interval lies above what came true
    quantiles[0] = np.nan
    mean_s = predicted["model"].copy()
    mean_s[5:15] *= 2
    sources = ["user" if row % 4 == 0 else "similar-name" for row in range(len(jobs))]
    return Walk(jobs, predicted, mean_s, quantiles, sources, [])


@pytest.fixture(scope="module")
def found():
    walked = made()
    return kind_figures("gpu", walked, np.arange(len(walked.jobs)))


def test_contenders(found):
    by_name = {figures.name: figures for figures in found.contenders}
    assert list(by_name) == list(CONTENDERS)
    assert by_name["model"].rank_correlation.value == pytest.approx(1)
    assert by_name["rolling"].rank_correlation.value == pytest.approx(-1)
    assert by_name["rolling"].model_gain.value == pytest.approx(2)
    assert by_name["mean"].rank_correlation.value == 0
    assert by_name["model"].off_by == pytest.approx(1)
    assert by_name["mean"].short_share == pytest.approx(30 * WEEKS / 321)


def test_coverage_and_its_worst_week(found):
    shown = found.coverage[0]
    assert shown.nominal == 0.8
    assert shown.jobs == 320  # of the first job nothing was told
    assert shown.covered.value == pytest.approx(300 / 320)
    begin, jobs, covered = shown.worst_week
    assert (begin, jobs, covered) == (T0 + 3 * WEEK_S, A_WEEK, 0.5)
    assert shown.covered.low < 300 / 320 < shown.covered.high
    assert [coverage.nominal for coverage in found.coverage] == [0.8, 0.96, 0.5]


def test_who_outruns_the_interval_is_outside_it_and_one_job_is_no_worst_week():
    walked = made()
    too_long = [*range(5 * A_WEEK, 6 * A_WEEK, 4), len(walked.jobs) - 1]  # the last one is alone
    walked.quantiles_s[too_long] /= 10  # the whole interval lies below what came true
    found = kind_figures("gpu", walked, np.arange(len(walked.jobs)))
    for coverage in found.coverage[:2]:
        assert coverage.covered.value == pytest.approx((300 - len(too_long)) / 320)
        assert coverage.worst_week == (T0 + 3 * WEEK_S, A_WEEK, 0.5)


def test_a_job_that_slurm_ended_late_counts_as_ended_at_its_limit():
    """Half of the jobs ran into their limit; the quantiles from the median on lie at it."""
    walked = made()
    late = [
        replace(job, end_time=job.end_time + 7, time_limit_s=job.duration_s) if k % 2 else job
        for k, job in enumerate(walked.jobs)
    ]
    quantiles = np.outer(walked.actual_s, [0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0])
    found = kind_figures(
        "gpu", replace(walked, jobs=late, quantiles_s=quantiles), np.arange(len(late))
    )
    assert [coverage.covered.value for coverage in found.coverage] == [1.0] * 3
    assert {share for level, share in found.calibration if level >= 0.5} == {1.0}
    assert {week.covered for week in found.weeks} == {1.0}
    beyond = [replace(job, time_limit_s=None) for job in late]
    found = kind_figures(
        "gpu", replace(walked, jobs=beyond, quantiles_s=quantiles), np.arange(len(late))
    )
    assert found.coverage[0].covered.value == pytest.approx(161 / 321)


def test_a_log_that_is_short_against_its_limits_is_told():
    def said(count, limit_s):
        jobs = [
            past_job(k, 60, end=T0 + 1000 * k + 60, submit=T0 + 1000 * k, time_limit_s=limit_s)
            for k in range(count)
        ]
        found = judge(PastFromFiles(jobs, waits_known=True), "log", WalkOptions(min_jobs=10**6))
        return found, "\n".join(lines(found))

    found, text = said(20, 5000)
    assert (found.span.length_s, found.span.long_limit_s, found.early_jobs) == (19_060, 5000, 5)
    assert "lasts 5:17:40" in text
    assert "5 of the 20 jobs were submitted before the log had lasted as long" in text
    assert "too narrow until the history outlasts the limits" in text
    document = found.document()
    assert (document["history_s"], document["long_limit_s"]) == (19_060, 5000)
    assert document["early_jobs"] == 5
    found, text = said(20, None)
    assert (found.span.long_limit_s, found.early_jobs) == (None, 0)
    assert "outlasts" not in text


def test_calibration_counts_who_had_ended(found):
    told = dict(found.calibration)
    assert told[0.02] == pytest.approx(20 / 320)  # those whose interval lies above the truth
    assert told[0.98] == pytest.approx(1.0)
    assert told[0.5] == pytest.approx(1.0)  # 1.0 × the truth: had ended by then


def test_what_a_log_lacks_is_said():
    jobs = [
        replace(past_job(k, 60, end=T0 + 100 * k, name="", user="vc"), tenant="vc")
        for k in range(5)
    ]
    evaluation = judge(PastFromFiles(jobs, waits_known=False), "log", WalkOptions())
    assert evaluation.told == {"users": 0.0, "names": 0.0, "limits": 0.0}
    said = "\n".join(lines(evaluation))
    for lacks in ("no users: accounts", "no job names", "no time limits", "began to wait"):
        assert lacks in said
    assert not evaluation.fits
    assert [rule.rule for rule in evaluation.kinds[0].rules] == ["site-default"]
    assert evaluation.kinds[0].coverage == []


def test_rules_add_up_to_all(found):
    assert {rule.rule: rule.jobs for rule in found.rules} == {"similar-name": 240, "user": 81}
    assert found.rules[0].rule == "similar-name"
    for rule in found.rules:
        assert rule.log_error == pytest.approx(0)
        assert rule.rolling_log_error > 0.5


def test_weeks(found):
    assert [week.jobs for week in found.weeks] == [*[A_WEEK] * WEEKS, 1]
    assert [week.begin - T0 for week in found.weeks] == [w * WEEK_S for w in range(WEEKS + 1)]
    assert found.weeks[3].covered == 0.5
    assert found.weeks[0].rolling_rank_correlation == pytest.approx(-1)
    assert found.worst_week.jobs >= MIN_WEEK  # not the week of a single job, which has no order
    assert found.weeks[-1].rank_correlation == 0.0


def test_what_caution_does_to_the_order(found):
    assert found.caution_jobs == 10
    assert 0.9 < found.cautious_rank_correlation < 1.0
