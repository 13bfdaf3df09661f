"""From a predicted GPU-time to priority points: log-scaled, bounded, monotone, one summand of many.

The whole way, as the daemon goes it: policy, starvation bound, scale.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from support.jobs import T0, snapshot, view

from gsched.config.settings import DaemonSettings
from gsched.daemon.site_factor import SiteFactorScale, movable_points, scale_for
from gsched.engine.starvation import POLICY_TOP, lift_starving
from gsched.policy.qssf import Qssf
from gsched.slurm.records import SlurmConfig

WEEK_S = 7 * 86400
SPAN_OCTAVES = 8

scales = st.builds(
    lambda shift, steps: SiteFactorScale(shift, max(1, shift // steps), max(1, shift // steps)),
    st.integers(100, 10**6),
    st.sampled_from([50, 500]),
)
jobs = st.lists(
    st.tuples(st.integers(1, 64), st.floats(1.0, 1e7)), min_size=1, max_size=25
)  # GPUs, predicted seconds


def points(chosen: list[tuple[int, float]], scale: SiteFactorScale, memory=None) -> list[int]:
    """The SiteFactor of each job, in their order."""
    views = [view(n, gpus=gpus, duration_s=s) for n, (gpus, s) in enumerate(chosen)]
    state = snapshot(views)
    decision = Qssf(span_octaves=SPAN_OCTAVES).decide(state, memory or {}, T0)
    order = lift_starving(decision, state, T0 + 60, WEEK_S).order
    return [int(scale.values(np.array([order[v.key].level]))[0]) for v in views]


def octave(scale: SiteFactorScale) -> float:
    """Points of a doubling."""
    return POLICY_TOP * scale.max_shift / SPAN_OCTAVES


@given(chosen=jobs, scale=scales)
def test_more_predicted_gpu_time_never_gives_more_points(
    chosen: list[tuple[int, float]], scale: SiteFactorScale
) -> None:
    by_service = sorted(chosen, key=lambda job: job[0] * job[1])
    values = points(by_service, scale)
    assert values == sorted(values, reverse=True)


@given(chosen=jobs, scale=scales)
def test_no_job_is_moved_further_than_the_range(
    chosen: list[tuple[int, float]], scale: SiteFactorScale
) -> None:
    most = POLICY_TOP * scale.max_shift + scale.quantum / 2
    assert max(map(abs, points(chosen, scale))) <= most


@given(chosen=jobs, scale=scales, factor=st.floats(1.0, 200.0), which=st.integers(0, 24))
def test_a_factor_is_worth_the_same_points_whatever_it_multiplies(
    chosen: list[tuple[int, float]], scale: SiteFactorScale, factor: float, which: int
) -> None:
    """Log-scaled: 10 s against 20 s is as 10 h against 20 h, within the range."""
    gpus, seconds = chosen[which % len(chosen)]
    one, larger, *_ = points([(gpus, seconds), (gpus, seconds * factor), *chosen], scale)
    end = POLICY_TOP * scale.max_shift - scale.quantum
    assume(abs(one) < end and abs(larger) < end)
    assert one - larger == pytest.approx(octave(scale) * math.log2(factor), abs=scale.quantum)


@given(chosen=jobs, scale=scales, unit=st.sampled_from([1 / 64, 0.5, 2.0, 64.0]))
def test_only_ratios_count(
    chosen: list[tuple[int, float]], scale: SiteFactorScale, unit: float
) -> None:
    """A cluster of jobs all so many times as long has the same order values."""
    scaled = [(gpus, seconds * unit) for gpus, seconds in chosen]
    assert points(scaled, scale) == points(chosen, scale)


WEIGHTS = {
    "PriorityWeightAge": 1000,
    "PriorityWeightFairShare": 10_000,
    "PriorityWeightQOS": 5000,
    "PriorityWeightJobSize": 500,
}


def test_the_sum_of_slurms_other_factors_outweighs_any_factor_below_470() -> None:
    """By default: with all of these points a job passes one with none of far less GPU-time."""
    told = {"PriorityType": "priority/multifactor", "PriorityWeightPartition": "1000000"}
    config = SlurmConfig(told | {name: str(weight) for name, weight in WEIGHTS.items()})
    scale = scale_for(config, DaemonSettings())
    others = movable_points(config)
    assert others == scale.max_shift == sum(WEIGHTS.values())
    outweighed = 2 ** (others / octave(scale))
    assert outweighed == pytest.approx(2 ** (SPAN_OCTAVES / POLICY_TOP))
    assert 470 < outweighed < 480
    reference = {"version": 1, "reference": {"gpu": 1600.0}}
    for factor, passes in ((256, True), (460, True), (490, False)):
        short, long = points([(1, 100.0), (1, 100.0 * factor)], scale, reference)
        assert (long + others > short) is passes


@pytest.mark.parametrize("name", sorted(WEIGHTS))
def test_each_of_them_alone_outweighs_some_factor(name: str) -> None:
    told = {"PriorityType": "priority/multifactor", "PriorityWeightPartition": "1000000"}
    config = SlurmConfig(told | {key: str(weight) for key, weight in WEIGHTS.items()})
    scale = scale_for(config, DaemonSettings())
    weight = WEIGHTS[name]
    even = 2 ** (weight / octave(scale))
    reference = {"version": 1, "reference": {"gpu": 1000.0}}
    rounding = 2 ** (2 * scale.quantum / octave(scale))
    for factor, passes in ((even / rounding, True), (even * rounding, False)):
        short, long = points([(1, 1000.0), (1, 1000.0 * factor)], scale, reference)
        assert (long + weight > short) is passes
