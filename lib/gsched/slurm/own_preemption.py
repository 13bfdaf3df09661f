"""Whom Slurm itself pushes aside for whom, where a site has that configured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gsched.model.job import JobView
from gsched.slurm.parse_config import parse_partition_numbers
from gsched.slurm.parse_preemption import (
    QOS_FIELDS,
    parse_preemptable_partitions,
    parse_preemptable_qos,
    parse_preempted_by,
)
from gsched.slurm.records import SlurmConfig
from gsched.slurm.run import Run

_REQUEUE = "requeue"


@dataclass(frozen=True, slots=True)
class OwnPreemption:
    """`victims`: by QOS (preempt/qos) or partition (preempt/partition_prio), those whose jobs Slurm
    requeues as soon as a job of it needs their room. Empty where it requeues nobody.
    """

    by_qos: bool = False
    victims: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def requeues(self, victim: JobView, beneficiary: JobView) -> bool:
        """Whether Slurm requeues a running job for this waiting one."""
        mine = (beneficiary.qos,) if self.by_qos else beneficiary.partitions
        theirs = {victim.qos} if self.by_qos else set(victim.partitions)
        return any(theirs <= self.victims.get(name, frozenset()) for name in mine)


NONE = OwnPreemption()


def ask(run: Run, config: SlurmConfig) -> OwnPreemption:
    """As this cluster is configured now. Raises what the commands raise."""
    kind = config.get("PreemptType").rpartition("/")[2]
    if kind == "qos":
        argv = ("sacctmgr", "-n", "-P", "show", "qos", f"format={QOS_FIELDS}")
        return of_qos(run(*argv).check().stdout, config.get("PreemptMode"))
    if kind == "partition_prio":
        return of_partitions(run("scontrol", "-o", "show", "partition").check().stdout)
    return NONE


def of_qos(text: str, cluster_mode: str) -> OwnPreemption:
    """By ``sacctmgr show qos`` of QOS_FIELDS. Raises DataError for a line that is none."""
    requeued = {v.name for v in parse_preemptable_qos(text, cluster_mode) if v.mode == _REQUEUE}
    named = parse_preempted_by(text)
    return OwnPreemption(True, {qos: frozenset(whom & requeued) for qos, whom in named.items()})


def of_partitions(text: str) -> OwnPreemption:
    """By ``scontrol -o show partition``: those of a lower PriorityTier."""
    requeued = {v.name for v in parse_preemptable_partitions(text) if v.mode == _REQUEUE}
    tiers = parse_partition_numbers(text, "PriorityTier")
    lower = {
        name: frozenset(v for v in requeued if tiers.get(v, 1) < tier)
        for name, tier in tiers.items()
    }
    return OwnPreemption(False, lower)


def own_way(config: SlurmConfig) -> str:
    """How Slurm itself preempts jobs by requeueing them, in words; "" where it does not."""
    kind = config.get("PreemptType").rpartition("/")[2]
    if kind in {"", "none"} or "REQUEUE" not in config.get("PreemptMode").upper():
        return ""
    signals = "preempt_send_user_signal"
    told = signals in config.flags("SlurmctldParameters") or "send_user_signal" in config.flags(
        "PreemptParameters"
    )
    return (
        f"Slurm preempts here by itself (preempt/{kind}, REQUEUE), and "
        f"{'tells' if told else 'does not tell'} jobs by their own --signal"
    )
