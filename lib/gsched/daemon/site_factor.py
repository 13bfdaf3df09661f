"""A rank's level as Slurm's SiteFactor: how far, in what steps, and when not at all.

SiteFactor is added to a job's priority as it stands (slurm.conf(5), PrioritySiteFactorPlugin;
scontrol(1), SiteFactor): only operators may set it, it survives holds and slurmctld restarts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsched.config.settings import DaemonSettings
from gsched.errors import ConfigError
from gsched.slurm.records import SlurmConfig

if TYPE_CHECKING:  # `gsched doctor` reads this module and needs no numpy
    from gsched.model.jobtable import BoolColumn, FloatColumn, IntColumn

_STEPS = 500
_MOVABLE = ("age", "fairshare", "jobsize", "assoc", "qos")
"""Weights that tell apart jobs of one partition; gsched may outweigh these, not the partition."""


@dataclass(frozen=True, slots=True)
class SiteFactorScale:
    """Priority points: at most ±`max_shift`, multiples of `quantum`, changes below `dead_band`
    not worth a write.
    """

    max_shift: int
    quantum: int
    dead_band: int

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

    Unset, jobs may be moved by as much as age, fair-share, size, association and QOS together
    make, but never by more than the partition's points, which all jobs have.
    """
    weights = config.weights()
    movable = max(1000, sum(weights.get(name, 0) for name in _MOVABLE))
    shift = settings.max_shift or min(movable, weights.get("partition", 0) or movable)
    quantum = settings.quantum or max(1, shift // _STEPS)
    if quantum > shift:
        raise ConfigError(
            f"quantum {quantum} in [daemon] is more than jobs may be moved ({shift} points)",
            "with it every job would keep its place: lower it, or raise max_shift",
        )
    return SiteFactorScale(shift, quantum, settings.dead_band or quantum)


def refuse_to_act(config: SlurmConfig, scale: SiteFactorScale) -> None:
    """Raise ConfigError when this Slurm's priorities cannot or must not be moved."""
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
