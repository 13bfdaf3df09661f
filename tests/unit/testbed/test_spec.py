"""What a testbed may be, and how it is written down."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gsched.errors import DataError, UsageError
from gsched.testbed.spec import MAX_ROOT_CHARS, TestbedSpec

ROOT = Path("/var/tmp/bed")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("root", Path("relative"), "not an absolute path"),
        ("root", Path("/var/tmp/a b"), "plain characters"),
        ("root", Path("/var/tmp/a#b"), "plain characters"),
        ("root", Path("/var/tmp/a\nb"), "plain characters"),
        ("root", Path("/var/tmp/../etc"), "plain characters"),
        ("root", Path("/" + "x" * MAX_ROOT_CHARS), f"longer than {MAX_ROOT_CHARS}"),
        ("cluster", "two words", "cluster name"),
        ("cluster", "", "cluster name"),
        ("gpu_type", "a100\nName=x", "GPU type"),
        ("num_nodes", 0, "number of nodes"),
        ("num_nodes", 501, "number of nodes"),
        ("gpus_per_node", -1, "GPUs per node"),
        ("base_port", 80, "first port"),
        ("base_port", 65_533, "first port"),
        ("cred_expire_s", 0, "cred_expire_s"),
        ("suspend_time_s", -1, "suspend_time_s"),
        ("accounting", "mysql", "filetxt, slurmdbd, none"),
        ("scheduler", "backfill", "sched/backfill, sched/builtin"),
        ("priority_weights", {"luck": 1}, "luck"),
        ("priority_weights", {"age": -1}, "age"),
        ("extra_conf", ("KillWait=5\nSlurmUser=games",), "KEY=VALUE"),
        ("extra_conf", ("KillWait",), "KEY=VALUE"),
    ],
)
def test_what_slurm_could_not_work_with_is_refused(field: str, value: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        TestbedSpec(**{"root": ROOT, field: value})


def test_names_are_as_wide_as_the_number_of_nodes_needs() -> None:
    assert TestbedSpec(ROOT, num_nodes=1).node_names == ("gn01",)
    assert TestbedSpec(ROOT, num_nodes=100).node_names[::99] == ("gn001", "gn100")


def test_ports_are_three_and_one_a_node() -> None:
    assert TestbedSpec(ROOT, num_nodes=7).num_ports == 10


def test_a_specification_survives_being_written_down() -> None:
    spec = TestbedSpec(
        ROOT, num_nodes=3, base_port=4000, priority_weights={"qos": 5}, extra_conf=("KillWait=9",)
    )
    assert TestbedSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_record_of_another_release_is_not_guessed_at() -> None:
    with pytest.raises(DataError, match="colour"):
        TestbedSpec.from_json({**TestbedSpec(ROOT).to_json(), "colour": "green"})
