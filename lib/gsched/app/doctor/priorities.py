"""Whether this Slurm's priorities can be moved by SiteFactor, and far enough."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.config.settings import DaemonSettings
from gsched.daemon.site_factor import (
    SiteFactorScale,
    movable_points,
    refuse_to_act,
    scale_for,
)
from gsched.errors import ConfigError
from gsched.slurm.parse_config import parse_partition_numbers
from gsched.slurm.records import SlurmConfig


def check(walk: Walk) -> Iterator[Finding]:
    """What would make the daemon refuse to act, and partitions whose jobs could not be moved."""
    config = walk.config
    try:
        scale = scale_for(config, walk.settings.daemon)
    except ConfigError as error:
        code = "quantum" if error.message.startswith("quantum") else "dead-band"
        yield Finding("fail", code, "priorities", error.message, error.hint)
        return
    try:
        refuse_to_act(config, scale)
    except ConfigError as error:
        yield Finding("fail", _code(config), "priorities", error.message, error.hint)
        return
    weights = ", ".join(f"{name} {value}" for name, value in config.weights().items() if value)
    found = f"jobs can be moved by ±{scale.max_shift} points (weights: {weights})"
    yield Finding("ok", "priorities", "priorities", found)
    yield from _small_range(config, walk.settings.daemon, scale)
    yield from _starvation_range(config, walk.settings.daemon, scale)
    yield from _low_partitions(walk, scale)


def _small_range(
    config: SlurmConfig, settings: DaemonSettings, scale: SiteFactorScale
) -> Iterator[Finding]:
    """The range that gsched takes by itself is never more than the partition's points."""
    without = SlurmConfig({**config.values, "PriorityWeightPartition": "0"})
    wanted = scale_for(without, settings).max_shift
    if scale.max_shift < wanted:
        yield Finding(
            "warn",
            "partition-weight",
            "priorities",
            f"jobs can be moved by ±{scale.max_shift} points only, PriorityWeightPartition: age, "
            f"fair-share and the like make up to {wanted}, and outweigh what gsched orders, "
            "starvation_bound_s included",
            f"set PriorityWeightPartition to {10 * wanted} or so in slurm.conf (it lifts all jobs "
            "alike)",
        )


def _starvation_range(
    config: SlurmConfig, settings: DaemonSettings, scale: SiteFactorScale
) -> Iterator[Finding]:
    """A starving job gets up to twice max_shift; another one has up to nine tenths of it, and all
    of Slurm's own points.
    """
    movable = movable_points(config)
    if settings.max_shift and settings.starvation_bound_s and 10 * movable > 11 * scale.max_shift:
        yield Finding(
            "warn",
            "starvation-range",
            "priorities",
            f"Slurm's own factors make up to {movable} points, and max_shift is {scale.max_shift}: "
            "they can keep a job that waits longer than starvation_bound_s behind others",
            f"set max_shift to {movable} or take it out of [daemon], or live with it: `gsched why` "
            "tells of each job for which it is too little",
        )


def _code(config: SlurmConfig) -> str:
    if config.get("PriorityType") != "priority/multifactor":
        return "priority-type"
    if config.get("PrioritySiteFactorPlugin"):
        return "site-factor-plugin"
    return "partition-weight" if any(config.weights().values()) else "weights-zero"


def _low_partitions(walk: Walk, scale: SiteFactorScale) -> Iterator[Finding]:
    """Slurm gives each partition its share of PriorityWeightPartition, by PriorityJobFactor."""
    factors = parse_partition_numbers(walk.partitions_text, "PriorityJobFactor")
    weight, most = walk.config.weights().get("partition", 0), max(factors.values(), default=0)
    ours = walk.settings.daemon.partitions or tuple(factors)
    low = [
        name
        for name in ours
        if name in factors and most and weight * factors[name] < scale.max_shift * most
    ]
    if low:
        yield Finding(
            "warn",
            "partition-factor",
            "priorities",
            f"PriorityJobFactor leaves jobs of {', '.join(low)} less than {scale.max_shift} of the "
            f"{weight} points of PriorityWeightPartition: many would lie at the lowest priority",
            "raise PriorityJobFactor of these partitions in slurm.conf, set max_shift in [daemon] "
            "lower, or leave them out by [daemon] partitions",
        )
