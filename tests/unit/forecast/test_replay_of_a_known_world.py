"""Replays of a queue whose run times follow a known law: forecasts must keep what they promise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from support.forecast_leaks import seers
from support.forecast_log import ReplayLog
from support.forecast_replay import replay, simulator, walked_quantiles
from support.forecast_scores import Judged, coverage, errors
from support.known_world import SPREAD, one_server, true_quantiles

LOG = one_server(1_000, seed=1)
ROWS = np.arange(100, 1_000, 4)


def replayed(quantiles_s: NDArray[np.float64]) -> Judged:
    return replay(LOG, ROWS, simulator(LOG, quantiles_s))


@pytest.fixture(scope="module")
def true() -> Judged:
    """Forecasts by the true law."""
    return replayed(true_quantiles(LOG))


@pytest.fixture(scope="module")
def narrow() -> Judged:
    """Forecasts by a law that takes run times for far less uncertain than they are."""
    return replayed(true_quantiles(LOG, spread=SPREAD / 4))


def test_with_the_true_law_so_many_starts_lie_inside_as_was_said(true: Judged) -> None:
    behind = true.among(true.queued)
    assert len(behind) > 150
    assert coverage(behind, behind.raw_low, behind.raw_high)["share"] == pytest.approx(0.8, abs=0.1)
    assert coverage(behind, behind.low, behind.high)["share"] == pytest.approx(0.8, abs=0.08)


def test_with_the_true_law_the_forecast_beats_every_naive_estimate(true: Judged) -> None:
    found = errors(true.among(true.queued))
    naive = ("queue-length", "site-wait", "user-wait", "time-limits")
    assert {name: found[name]["error_ratio"] < 0.9 for name in naive} == dict.fromkeys(naive, True)


def test_intervals_that_are_too_narrow_are_mended_by_earlier_forecasts(narrow: Judged) -> None:
    behind = narrow.among(narrow.queued & (narrow.learnt > 60))
    raw = coverage(behind, behind.raw_low, behind.raw_high)["share"]
    shown = coverage(behind, behind.low, behind.high)["share"]
    assert raw < 0.55
    assert shown == pytest.approx(0.8, abs=0.1)


def test_known_run_times_give_the_very_start(true: Judged) -> None:
    """But where one job ends in the second of the submission: it is not known yet that it does."""
    run_s = LOG.end - LOG.start
    exact = replayed(np.tile(run_s[:, None], (1, 7)))
    exact = exact.among(~np.isin(exact.as_of, LOG.end))
    assert len(exact) > len(ROWS) - 5
    assert np.abs(exact.expected["uncorrected"] - exact.start).max() <= 1
    assert np.abs(exact.raw_high - exact.raw_low).max() <= 1
    assert np.abs(true.expected["uncorrected"] - true.start).max() > 1_000


def test_the_whole_method_sees_no_future() -> None:
    """From the fits of the model to the corrected interval."""
    log = one_server(250, seed=5)
    longest = int((log.end - log.start)[150:].argmax()) + 150
    switch = float(log.start[longest] * 0.3 + log.end[longest] * 0.7)
    rows = np.arange(40, 250, 3)
    assert (log.submit[rows] < switch).sum() > 30

    def run(log: ReplayLog) -> Judged:
        return replay(log, rows, simulator(log, walked_quantiles(log)))

    assert seers(log, switch, run).tolist() == []
