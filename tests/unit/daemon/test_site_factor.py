"""Levels to priority points, and the clusters on which gsched refuses to act."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.config.settings import DaemonSettings
from gsched.daemon.site_factor import SiteFactorScale, refuse_to_act, scale_for
from gsched.errors import ConfigError
from gsched.slurm.records import SlurmConfig

GOOD = {
    "PriorityType": "priority/multifactor",
    "PriorityWeightAge": "1000",
    "PriorityWeightFairShare": "10000",
    "PriorityWeightPartition": "1000000",
    "PriorityWeightTRES": "(null)",
}

levels = st.floats(-1, 1)


def test_the_range_comes_from_what_tells_jobs_of_a_partition_apart() -> None:
    scale = scale_for(SlurmConfig(GOOD), DaemonSettings())
    assert scale == SiteFactorScale(max_shift=11_000, quantum=22, dead_band=22)


def test_the_admins_numbers_win() -> None:
    settings = DaemonSettings(max_shift=300, quantum=10, dead_band=20)
    assert scale_for(SlurmConfig(GOOD), settings) == SiteFactorScale(300, 10, 20)


@given(st.lists(levels, min_size=2), st.integers(1, 10**6), st.integers(1, 1000))
def test_values_are_centred_monotone_bounded_and_quantised(
    chosen: list[float], shift: int, quantum: int
) -> None:
    scale = SiteFactorScale(shift, quantum, quantum)
    column = np.sort(np.array(chosen))
    values = scale.values(column)
    assert (np.diff(values) >= 0).all()
    assert (scale.values(-column) == -values).all()
    assert (abs(values) <= shift + quantum / 2).all()
    assert (values % quantum == 0).all()
    assert scale.values(np.zeros(1)).tolist() == [0]


def test_small_differences_are_not_worth_a_write() -> None:
    scale = SiteFactorScale(1000, 10, 20)
    current = np.full(4, 100)
    assert scale.worth_writing(current, np.array([100, 110, 120, 80])).tolist() == [
        False, False, True, True,
    ]  # fmt: skip
    assert not SiteFactorScale(1000, 10, 0).worth_writing(current[:1], current[:1]).any()


@given(st.integers(1, 10**7), st.integers(1, 1000))
def test_the_floor_is_the_least_multiple_that_leaves_one_point(others: int, quantum: int) -> None:
    (least,) = SiteFactorScale(10**6, quantum, quantum).floor(np.array([others])).tolist()
    assert least % quantum == 0
    assert others + least >= 1 > others + least - quantum


def test_steps_wider_than_the_range_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"quantum 50 .*10 points"):
        scale_for(SlurmConfig(GOOD), DaemonSettings(max_shift=10, quantum=50))


def test_a_dead_band_wider_than_the_range_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"dead_band 91 .*90 points") as refused:
        scale_for(SlurmConfig(GOOD), DaemonSettings(max_shift=100, dead_band=91))
    assert "lower it" in refused.value.hint
    scale_for(SlurmConfig(GOOD), DaemonSettings(max_shift=100, dead_band=90))


def test_the_weights_of_tres_count() -> None:
    config = without("", PriorityWeightTRES="CPU=1000,GRES/gpu=4000")
    assert scale_for(config, DaemonSettings()).max_shift == 16_000


def without(key: str, **changes: str) -> SlurmConfig:
    return SlurmConfig({k: v for k, v in {**GOOD, **changes}.items() if k != key})


@pytest.mark.parametrize(
    ("config", "settings", "message"),
    [
        (without("PriorityType"), DaemonSettings(), "PriorityType is not set"),
        (without("", PriorityType="priority/basic"), DaemonSettings(), "priority/basic"),
        (without("", PrioritySiteFactorPlugin="site_factor/x"), DaemonSettings(), "site_factor/x"),
        (SlurmConfig({"PriorityType": "priority/multifactor"}), DaemonSettings(), "is 0"),
        (without("PriorityWeightPartition"), DaemonSettings(), "PriorityWeightPartition is 0"),
        (SlurmConfig(GOOD), DaemonSettings(max_shift=1_000_001), "lowest priority of 1"),
    ],
)
def test_acting_is_refused_where_priorities_cannot_be_moved(
    config: SlurmConfig, settings: DaemonSettings, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as refused:
        refuse_to_act(config, scale_for(config, settings))
    assert refused.value.hint


def test_a_sound_cluster_is_not_refused() -> None:
    config = without("", PrioritySiteFactorPlugin="(null)")
    refuse_to_act(config, scale_for(config, DaemonSettings()))
    refuse_to_act(config, scale_for(config, DaemonSettings(max_shift=1_000_000)))


def test_the_range_stays_within_what_every_job_has() -> None:
    config = without("", PriorityWeightPartition="5000")
    assert scale_for(config, DaemonSettings()).max_shift == 5000
    refuse_to_act(config, scale_for(config, DaemonSettings()))
