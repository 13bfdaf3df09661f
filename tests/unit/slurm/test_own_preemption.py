"""Whom Slurm itself pushes aside for whom: text of a real Slurm 22.05.8."""

from __future__ import annotations

from dataclasses import replace

from support.jobs import view

from gsched.model.job import JobView
from gsched.slurm.own_preemption import (
    NONE,
    OwnPreemption,
    ask,
    of_partitions,
    of_qos,
    own_way,
)
from gsched.slurm.records import SlurmConfig
from gsched.slurm.run import Completed

QOS = """normal||cluster|00:00:00
low||cancel|00:01:30
mid||cluster|01:01:40
high|low,mid|requeue|00:00:00
"""
PARTITIONS = (
    "PartitionName=gpu PriorityTier=1 GraceTime=0 PreemptMode=REQUEUE State=UP TRES=gres/gpu=8\n"
    "PartitionName=spare PriorityTier=1 GraceTime=0 PreemptMode=GANG,SUSPEND State=UP TRES=cpu=1\n"
    "PartitionName=safe PriorityTier=1 GraceTime=0 PreemptMode=OFF State=UP TRES=cpu=64\n"
    "PartitionName=urgent PriorityTier=10 GraceTime=0 PreemptMode=OFF State=UP TRES=cpu=64\n"
)


def of(qos: str = "normal", *partitions: str) -> JobView:
    return replace(view(1), qos=qos, partitions=partitions or ("gpu",))


def test_a_qos_preempts_those_that_it_names_where_they_are_requeued() -> None:
    own = of_qos(QOS, "GANG,REQUEUE")
    assert own.requeues(of("mid"), of("high"))
    assert not own.requeues(of("low"), of("high"))  # it is cancelled: no hand-over
    assert not own.requeues(of("normal"), of("high"))
    assert not own.requeues(of("mid"), of("low"))
    assert not of_qos(QOS, "OFF").requeues(of("mid"), of("high"))
    assert not of_qos(QOS, "SUSPEND,GANG").requeues(of("mid"), of("high"))


def test_a_partition_preempts_those_of_a_lower_tier_where_they_are_requeued() -> None:
    own = of_partitions(PARTITIONS)
    assert own.requeues(of("a", "gpu"), of("a", "urgent"))
    assert own.requeues(of("a", "gpu"), of("a", "gpu", "urgent"))
    assert not own.requeues(of("a", "spare"), of("a", "urgent"))
    assert not own.requeues(of("a", "safe"), of("a", "urgent"))
    assert not own.requeues(of("a", "gpu"), of("a", "spare"))
    assert not own.requeues(of("a", "urgent"), of("a", "gpu"))


def asked(kind: str) -> tuple[OwnPreemption, list[str]]:
    commands = []

    def run(*argv: str) -> Completed:
        commands.append(" ".join(argv[:3]))
        return Completed(argv, 0, PARTITIONS if argv[0] == "scontrol" else QOS, "")

    return ask(run, SlurmConfig({"PreemptType": kind, "PreemptMode": "REQUEUE"})), commands


def test_only_what_is_needed_is_asked() -> None:
    own, commands = asked("preempt/qos")
    assert (own, commands) == (of_qos(QOS, "REQUEUE"), ["sacctmgr -n -P"])
    own, commands = asked("preempt/partition_prio")
    assert (own, commands) == (of_partitions(PARTITIONS), ["scontrol -o show"])
    for none in ("preempt/none", "(null)", ""):
        assert asked(none) == (NONE, [])
    assert not NONE.requeues(of("mid"), of("high"))


def test_slurms_own_preemption_is_told_where_it_requeues() -> None:
    qos = {"PreemptType": "preempt/qos", "PreemptMode": "REQUEUE"}
    assert "preempt/qos, REQUEUE), and does not tell" in own_way(SlurmConfig(qos))
    for flags in (
        {"SlurmctldParameters": "preempt_send_user_signal"},
        {"PreemptParameters": "youngest_first,send_user_signal"},
    ):
        assert "and tells jobs by their own --signal" in own_way(SlurmConfig(qos | flags))
    for other in (
        {},
        {"PreemptType": "preempt/none", "PreemptMode": "OFF"},
        {"PreemptType": "preempt/partition_prio", "PreemptMode": "GANG,SUSPEND"},
    ):
        assert own_way(SlurmConfig(other)) == ""
