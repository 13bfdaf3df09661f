"""Sleep over a series of node counts, by hand: who sleeps, who wakes, what is missing meanwhile."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.demand.forecaster import Outlook
from gsched.demand.series import DemandSeries
from gsched.model.decision import Reason
from gsched.model.demand_forecast import constant_forecast
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesSettings
from gsched.sim.node_series import SeriesRules, run_series

REACTIVE = CesSettings(
    sigma=0, wake_sigma=0, needs_forecast=False, hold_s=0, min_idle_s=0, max_sleep=0, period_s=60
)
NO_WARM_UP = {"warm_up_s": 0}


def run(busy: list[float], policy: CesSettings, *, total: int = 10, outlooks=None, **rules):
    values = np.array(busy, dtype=np.float64)
    series = DemandSeries(0, 60, values)
    nodes = DemandSeries(0, 60, np.full(len(values), float(total)))
    told = SeriesRules(0, 60 * len(values), **(NO_WARM_UP | rules))
    return run_series(series, nodes, series.coarser(600), outlooks or {}, Ces(policy), told)


def test_reactive_sleep_by_hand():
    """Minutes: all ten awake; six sleep after the first; two are missing for three minutes."""
    told = run([4, 4, 6, 6, 6, 6, 6], REACTIVE, wake_lead_s=180)
    # powered: 10, 4, 4 (short 2, then wake 2), 6, 6, 6, 6; unmet: 2 in minutes 3 to 6
    assert told.asleep_node_hours == pytest.approx((6 + 6 + 4 + 4 + 4 + 4) / 60)
    minutes_a_day = 1440 / 7
    assert told.unmet_node_minutes_a_day == pytest.approx(8 * minutes_a_day)
    assert told.unmet_steps_pct == pytest.approx(100 * 4 / 7)
    assert told.wake_ups_a_day == pytest.approx(minutes_a_day)
    assert told.nodes_woken_a_day == pytest.approx(2 * minutes_a_day)
    assert told.sleeps_a_day == pytest.approx(minutes_a_day)
    met = 4 + 4 + 4 + 4 + 4 + 4 + 6
    assert told.utilisation_pct == pytest.approx(100 * met / (10 + 4 + 4 + 6 + 6 + 6 + 6))
    assert told.most_unmet_nodes == 2


def test_instant_changes_hold_for_the_step_on_which_they_were_decided():
    told = run([4, 4, 6, 6], REACTIVE, is_instant=True)
    assert told.mean_asleep == pytest.approx((6 + 6 + 4 + 4) / 4)
    assert told.mean_step_utilisation_pct == pytest.approx(100)
    assert told.before_pct == pytest.approx(50)


def test_nodes_sleep_when_they_have_been_idle_for_the_whole_timeout():
    """A dip of two minutes ends before the timeout, one of four does not."""
    policy = replace(REACTIVE, min_idle_s=180)
    assert run([8] * 5 + [2] * 2 + [8] * 5, policy).wake_ups_a_day == 0
    told = run([8] * 5 + [2] * 4 + [8] * 5, policy)
    assert told.nodes_woken_a_day == pytest.approx(6 * 1440 / 14)


def test_a_node_that_was_woken_for_nothing_stays_awake_for_the_timeout():
    """Two wake at the end of minute 10, are ready in minute 14, and may sleep after minute 44."""
    busy = [2] * 10 + [4] + [2] * 49
    told = run(busy, replace(REACTIVE, min_idle_s=1800), wake_lead_s=180)
    assert told.asleep_node_hours == pytest.approx((8 * 10 + 6 * 34 + 8 * 15) / 60)


def test_spare_nodes_keep_small_rises_from_being_noticed():
    busy = [5] * 20 + [7] * 20
    assert run(busy, replace(REACTIVE, sigma=2, wake_sigma=2)).unmet_node_minutes_a_day == 0
    assert run(busy, replace(REACTIVE, sigma=1, wake_sigma=1)).unmet_node_minutes_a_day > 0


def test_ces_sleeps_only_with_a_forecast_and_only_when_it_does_not_rise():
    policy = CesSettings(
        sigma=1, wake_sigma=1, xi_h=0, xi_p=0, hold_s=0, min_idle_s=0, max_sleep=0,
        future_window_s=1200,
    )  # fmt: skip
    busy = [8] * 20 + [4] * 100

    def outlooks(level: float):
        return {
            600 * n: Outlook(constant_forecast(level, 600 * n, 600, 6, "test"), Reason("test"))
            for n in range(1, 13)
        }

    assert run(busy, policy).mean_asleep == 0
    assert run(busy, policy, outlooks=outlooks(9)).mean_asleep == 0
    assert run(busy, policy, outlooks=outlooks(4)).mean_asleep > 3


def test_gaps_are_left_out_and_the_nodes_of_the_cluster_may_change():
    nan = float("nan")
    told = run([4, nan, nan, 4, 4, 4], REACTIVE)
    assert told.days == pytest.approx(4 / 1440)
    series = DemandSeries(0, 60, np.array([4.0] * 6))
    total = DemandSeries(0, 60, np.array([10.0, 10, 5, 5, 12, 12]))
    rules = SeriesRules(0, 360, warm_up_s=0)
    told = run_series(series, total, series.coarser(600), {}, Ces(REACTIVE), rules)
    assert told.asleep_node_hours == pytest.approx((0 + 6 + 1 + 1 + 1 + 8) / 60)
    with pytest.raises(ValueError, match="no step"):
        run([nan, nan], REACTIVE)


def test_what_comes_before_the_counted_time_warms_up():
    busy = [4.0] * 120
    series, total = (DemandSeries(0, 60, np.array(v)) for v in (busy, [10.0] * 120))
    rules = SeriesRules(3600, 7200, warm_up_s=3600)
    told = run_series(series, total, series.coarser(600), {}, Ces(REACTIVE), rules)
    assert told.mean_asleep == pytest.approx(6)
    assert told.sleeps_a_day == 0


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=80),
    st.integers(0, 4),
    st.integers(0, 600),
    st.integers(0, 300),
    st.integers(0, 6),
)
def test_nodes_are_neither_lost_nor_made(busy, sigma, min_idle_s, lead_s, max_wake):
    policy = replace(
        REACTIVE, sigma=sigma, wake_sigma=sigma, min_idle_s=min_idle_s, max_wake=max_wake
    )
    told = run([float(each) for each in busy], policy, wake_lead_s=lead_s)
    hours = len(busy) * 10 / 60
    assert told.asleep_node_hours + told.powered_node_hours == pytest.approx(hours)
    assert 0 <= told.mean_asleep <= 10
    unmet = told.unmet_node_minutes_a_day * told.days
    demand = sum(min(each, 10) for each in busy)
    assert 0 <= unmet <= demand
    met = told.utilisation_pct / 100 * told.powered_node_hours * 60
    assert met + unmet == pytest.approx(demand)
    lazy = run([float(each) for each in busy], replace(policy, sigma=10))
    assert lazy.mean_asleep == 0
    assert lazy.unmet_node_minutes_a_day == 0
