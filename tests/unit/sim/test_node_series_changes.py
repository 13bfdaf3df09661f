"""Sleep over a series of node counts: what the policy is told, and a cluster that changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gsched.demand.forecaster import Outlook
from gsched.demand.series import DemandSeries
from gsched.model.decision import Reason
from gsched.model.demand_forecast import constant_forecast
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesSettings, PoolVerdict
from gsched.sim.node_series import SeriesRules, run_series

REACTIVE = CesSettings(
    sigma=0, wake_sigma=0, needs_forecast=False, hold_s=0, min_idle_s=0, max_sleep=0, period_s=60
)


def minutes(values) -> DemandSeries:
    return DemandSeries(0, 60, np.asarray(values, dtype=float))


def run(busy, total, policy: Ces, outlooks=None, **rules):
    told = SeriesRules(**({"since": 0, "until": 60 * len(busy), "warm_up_s": 0} | rules))
    series = minutes(busy)
    return run_series(series, minutes(total), series.coarser(600), outlooks or {}, policy, told)


class Listener(Ces):
    """Changes nothing, and keeps what it was shown."""

    def __init__(self, **other: object) -> None:
        super().__init__(replace(CesSettings(), **other))
        self.seen: dict[int, object] = {}

    def size(self, look, memory, now, wake_failures=0):
        self.seen[now] = look
        return PoolVerdict(look.pool, 0, 0, Reason("test")), memory


def test_the_policy_is_told_the_outlook_of_the_last_step_that_has_ended():
    """Outlooks differ from step to step: one of a later step would be seen."""
    listener = Listener()
    outlooks = {
        600 * n: Outlook(constant_forecast(n, 600 * n, 600, 6, "test"), Reason("test"))
        for n in range(1, 5)
    }
    run([4.0] * 40, [10.0] * 40, listener, outlooks)
    told = {now: look.demand.forecast for now, look in listener.seen.items()}
    assert told[540] is None
    assert [told[now].made_at for now in (600, 1140, 1200, 2340)] == [600, 600, 1200, 1800]
    assert all(forecast is None or forecast.made_at <= now for now, forecast in told.items())


def test_the_policy_is_told_the_peaks_of_as_long_a_past_as_it_compares():
    busy = [float(minute // 10) for minute in range(60)]
    listener = Listener(past_window_s=1800)
    run(busy, [10.0] * 60, listener)
    assert listener.seen[3599 // 60 * 60].demand.past == (1, 2, 3, 4)
    assert listener.seen[3600].demand.past == (2, 3, 4, 5)


def test_figures_end_with_the_time_that_counts():
    told = run([4.0] * 20, [10.0] * 20, Ces(REACTIVE), until=600)
    assert told.days == pytest.approx(10 / 1440)


def test_unmet_demand_of_instant_wake_ups_is_that_of_before_them():
    told = run([4.0, 4, 6, 6], [10.0] * 4, Ces(REACTIVE), is_instant=True)
    assert told.unmet_node_minutes_a_day * told.days == pytest.approx(2)
    assert told.most_unmet_nodes == 2


def test_utilisation_counts_only_demand_that_was_met():
    """Six of ten sleep; six are wanted, four met, for four minutes."""
    told = run([4.0, 4, 6, 6, 6, 6, 6], [10.0] * 7, Ces(REACTIVE), wake_lead_s=180)
    shares = [4 / 10, 4 / 4, 4 / 4, 4 / 6, 4 / 6, 4 / 6, 6 / 6]
    assert told.mean_step_utilisation_pct == pytest.approx(100 * np.mean(shares))


def test_a_cluster_that_shrinks_below_what_wakes_has_no_fewer_nodes_asleep_than_none():
    """Eight wake when seven of ten are taken away: none is asleep, and one of three runs."""
    told = run([0.0, 0, 8, 8] + [1.0] * 10, [10.0] * 4 + [3.0] * 10, Ces(REACTIVE))
    assert told.asleep_node_hours >= 0
    assert told.asleep_node_hours + told.powered_node_hours == pytest.approx(70 / 60)
    assert told.unmet_node_minutes_a_day * told.days == pytest.approx(8 + 8 + 1 * 4)


steps = st.lists(st.tuples(st.integers(0, 12), st.integers(1, 12)), min_size=1, max_size=60)


@settings(max_examples=60)
@given(steps, st.integers(0, 4), st.integers(0, 300), st.integers(0, 400))
@example([(0, 10), (0, 10), (8, 10), (8, 10), *[(1, 3)] * 10], 0, 0, 300)
def test_nodes_are_neither_lost_nor_made_when_the_cluster_changes(drawn, sigma, min_idle_s, lead_s):
    policy = Ces(replace(REACTIVE, sigma=sigma, wake_sigma=sigma, min_idle_s=min_idle_s))
    kept: list[object] = []

    class Watched(Ces):
        def size(self, look, memory, now, wake_failures=0):
            kept.append(look)
            return policy.size(look, memory, now, wake_failures)

    busy, total = ([float(each[k]) for each in drawn] for k in (0, 1))
    told = run(busy, total, Watched(policy.settings), wake_lead_s=lead_s)
    assert told.asleep_node_hours + told.powered_node_hours == pytest.approx(sum(total) / 60)
    for look, nodes in zip(kept, total, strict=True):
        counts = (look.running, look.idle, look.waking, look.asleep)
        assert min(counts) >= 0
        assert sum(counts) == nodes
    met = told.utilisation_pct / 100 * told.powered_node_hours * 60
    unmet = told.unmet_node_minutes_a_day * told.days
    assert met + unmet == pytest.approx(sum(map(min, busy, total)), abs=0.01)
