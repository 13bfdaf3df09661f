"""A rank's level as Slurm's SiteFactor: how far, in what steps, and when not at all.

SiteFactor is added to a job's priority as it stands (slurm.conf(5), PrioritySiteFactorPlugin;
scontrol(1), SiteFactor): only operators may set it, it survives holds and slurmctld restarts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsched.config.settings import DaemonSettings
from gsched.errors import ConfigError
from gsched.slurm.records import SlurmConfig

if TYPE_CHECKING:  # `gsched doctor` reads this module and needs no numpy
    from gsched.model.jobtable import BoolColumn, FloatColumn, IntColumn

_STEPS = 500
_MOVABLE = ("age", "fairshare", "jobsize", "assoc", "qos")
"""Weights that tell apart jobs of one partition, as those of TRES do; gsched may outweigh these,
not the partition."""

_SLURMS_HIGHEST = 2**31 - 3
"""The highest SiteFactor that scontrol(1) takes."""


@dataclass(frozen=True, slots=True)
class SiteFactorScale:
    """Priority points: at most ±`max_shift`, multiples of `quantum`, changes below `dead_band`
    not worth a write. A starving job alone may be lifted further, up to `highest`.
    """

    max_shift: int
    quantum: int
    dead_band: int

    @property
    def highest(self) -> int:
        """The most that a starving job gets: above one at the top of the range whose other factors
        are all at their most, while its own are at their least.
        """
        return min(2 * self.max_shift, _SLURMS_HIGHEST)

    def up(self, value: int) -> int:
        """The least multiple of the quantum that is no less."""
        return -(-value // self.quantum) * self.quantum

    def values(self, levels: FloatColumn) -> IntColumn:
        """SiteFactors for levels in [-1, 1]; monotone, 0 for the median job."""
        steps = (levels * self.max_shift / self.quantum).round()
        return steps.astype("int64") * self.quantum

    def floor(self, others: IntColumn) -> IntColumn:
        """The least values for jobs whose `others` points are these: Slurm cuts sums off at 1."""
        return -((others - 1) // self.quantum) * self.quantum

    def worth_writing(self, current: IntColumn, target: IntColumn) -> BoolColumn:
        """Which of `target` differ enough from `current`."""
        width = abs(target - current)
        return (width > 0) & (width >= self.dead_band)


def scale_for(config: SlurmConfig, settings: DaemonSettings) -> SiteFactorScale:
    """The scale from the admin's settings, or from the site's priority weights where unset.

    Unset, jobs may be moved by as much as age, fair-share, size, association, QOS and TRES together
    make, but never by more than the partition's points, which all jobs have. Raises ConfigError for
    steps with which no job would ever be moved.
    """
    movable = movable_points(config)
    shift = settings.max_shift or min(movable, config.weights().get("partition", 0) or movable)
    quantum = settings.quantum or max(1, shift // _STEPS)
    if quantum > shift:
        raise ConfigError(
            f"quantum {quantum} in [daemon] is more than jobs may be moved ({shift} points)",
            "with it every job would keep its place: lower it, or raise max_shift",
        )
    dead_band = settings.dead_band or quantum
    most = 9 * shift // 10  # for a policy, while there is a starvation bound
    if settings.dead_band > max(most, quantum):
        raise ConfigError(
            f"dead_band {dead_band} in [daemon] is more than a policy moves jobs ({most} points)",
            "with it no job would ever be moved: lower it, or raise max_shift",
        )
    return SiteFactorScale(shift, quantum, dead_band)


def movable_points(config: SlurmConfig) -> int:
    """The most by which Slurm's own factors tell apart two jobs of a partition, nice left aside."""
    weights = config.weights()
    tres = sum(map(int, re.findall(r"=(\d+)", config.get("PriorityWeightTRES"))))
    return max(1000, sum(weights.get(name, 0) for name in _MOVABLE) + tres)


def refuse_to_act(config: SlurmConfig, scale: SiteFactorScale) -> None:
    """Raise ConfigError when this Slurm's priorities cannot or must not be moved.

    The partition's points bound how far jobs are moved down; starving jobs are lifted further up,
    which brings no job nearer to Slurm's lowest priority.
    """
    kind = config.get("PriorityType")
    if kind != "priority/multifactor":
        raise ConfigError(
            f"PriorityType is {kind or 'not set'}: there is no SiteFactor to order jobs by",
            "set PriorityType=priority/multifactor in slurm.conf, or run the daemon with --observe",
        )
    plugin = config.get("PrioritySiteFactorPlugin")
    if plugin:
        raise ConfigError(
            f"another plugin sets SiteFactor on this cluster (PrioritySiteFactorPlugin={plugin})",
            "remove it from slurm.conf, or run the daemon with --observe",
        )
    weights = config.weights()
    base = weights.get("partition", 0)  # the one factor that every job has from the start
    if base < scale.max_shift:
        raise ConfigError(
            f"PriorityWeightPartition is {base}, but gsched would move jobs by {scale.max_shift} "
            "points: many would lie at Slurm's lowest priority of 1, in no order",
            f"set PriorityWeightPartition to {10 * scale.max_shift} or so in slurm.conf (it lifts "
            "all jobs alike), or max_shift in [daemon] below it",
        )
