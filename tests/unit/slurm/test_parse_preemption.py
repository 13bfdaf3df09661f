"""What may be preempted, and how: text of a real Slurm 22.05.8."""

from __future__ import annotations

import pytest

from gsched.errors import DataError
from gsched.slurm.parse_preemption import (
    Preemptable,
    parse_preemptable_partitions,
    parse_preemptable_qos,
)

QOS = """normal||cluster|00:00:00
low||cancel|00:01:30
mid||cluster|01:01:40
high|low,mid|requeue|00:00:00
"""
PARTITIONS = (
    "PartitionName=gpu AllowGroups=ALL GraceTime=0 PreemptMode=REQUEUE State=UP "
    "TRES=cpu=64,mem=500G,node=1,billing=64,gres/gpu=8,gres/gpu:a100=8\n"
    "PartitionName=cpu AllowGroups=ALL GraceTime=17 PreemptMode=GANG,SUSPEND State=UP "
    "TRES=cpu=64,mem=500G,node=1,billing=64\n"
    "PartitionName=safe AllowGroups=ALL GraceTime=0 PreemptMode=OFF State=UP TRES=cpu=64\n"
)


def test_qos_that_another_one_names():
    low, mid = parse_preemptable_qos(QOS, "GANG,REQUEUE")
    assert low == Preemptable("low", "cancel", 90, has_gpus=True)
    assert mid == Preemptable("mid", "requeue", 3700, has_gpus=True)
    (low,) = parse_preemptable_qos(QOS, "OFF")
    assert low.name == "low"


def test_text_that_is_none():
    with pytest.raises(DataError):
        parse_preemptable_qos("normal||cluster\n", "REQUEUE")
    assert parse_preemptable_qos("", "REQUEUE") == ()


def test_partitions_but_those_that_are_exempt():
    gpu, cpu = parse_preemptable_partitions(PARTITIONS)
    assert gpu == Preemptable("gpu", "requeue", 0, has_gpus=True)
    assert cpu == Preemptable("cpu", "suspend", 17, has_gpus=False)
