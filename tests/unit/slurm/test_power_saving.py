"""What slurm.conf and scontrol say of nodes that may sleep."""

from __future__ import annotations

from pathlib import Path

import pytest

from gsched.daemon.ces_sight import RESUME_FAILED, power_of
from gsched.slurm import parse_config
from gsched.slurm.power_saving import PowerSaving
from gsched.slurm.records import SlurmConfig

DATA = Path(__file__).parents[2] / "data" / "slurm"


def saving(**values: str) -> PowerSaving:
    return PowerSaving.of(SlurmConfig({"ClusterName": "alpha", **values}))


@pytest.mark.parametrize("release", ["22.05", "24.11"])
def test_the_configuration_of_a_real_slurm(release):
    text = (DATA / release / "config.txt").read_text()
    found = PowerSaving.of(parse_config.parse_config(text))
    assert found.suspend_time_s == 8_640_000 or found.suspend_time_s is None
    assert found.problem == ""
    assert found.excluded_nodes == frozenset()


def test_times_and_their_defaults():
    found = saving(SuspendTime="600 sec", SuspendTimeout="5 sec", ResumeTimeout="90 sec")
    assert (found.suspend_time_s, found.suspend_timeout_s, found.resume_timeout_s) == (600, 5, 90)
    for off in ("NONE", "INFINITE", "(null)"):
        assert saving(SuspendTime=off).suspend_time_s is None
    assert (saving().suspend_timeout_s, saving().resume_timeout_s) == (30, 60)


def test_nodes_partitions_and_states_that_slurm_never_suspends():
    found = saving(
        SuspendExcNodes="gn[01-03]:2,login,gn10:1",
        SuspendExcParts="debug, long:4",
        SuspendExcStates="MAINT,Drain",
    )
    assert found.excluded_nodes == {"gn01", "gn02", "gn03", "login", "gn10"}
    assert found.excluded_partitions == {"debug", "long"}
    assert found.excluded_states == {"maint", "drain"}
    assert "SuspendExcNodes is not understood" in saving(SuspendExcNodes="gn[1-").problem


@pytest.mark.parametrize("release", ["22.05", "24.11"])
def test_boots_and_idleness_of_real_nodes(release):
    facts = parse_config.parse_node_facts((DATA / release / "nodes.txt").read_text())
    assert facts[0].view.name == "gn01"
    assert facts[0].boot_time is not None
    assert facts[0].last_busy_time is not None
    assert facts[0].last_busy_time > facts[0].boot_time
    reasons = [each.reason for each in facts if "drain" in each.view.flags]
    assert all(reason == "fan" for reason in reasons)  # what looks like a key is none of it


def test_the_leaf_switches_of_a_topology():
    text = (
        "SwitchName=s0 Level=0 LinkSpeed=1 Nodes=gn[01-02] \n"
        "SwitchName=s1 Level=0 LinkSpeed=1 Nodes=gn03 \n"
        "SwitchName=top Level=1 LinkSpeed=1 Nodes=gn[01-03] Switches=s[0-1] \n"
    )
    assert parse_config.parse_topology(text) == {"gn01": "s0", "gn02": "s0", "gn03": "s1"}
    assert parse_config.parse_topology("No topology information available\n") == {}


def test_nodes_of_a_real_slurm_as_they_fall_sleep_wake_and_fail_to():
    text = (DATA / "22.05" / "nodes-power.txt").read_text()
    seen = [
        (each.view.state, power_of(frozenset(each.view.flags), each.view.state == "mixed").value)
        for each in parse_config.parse_node_facts(text)
    ]
    assert seen == [
        ("idle", "awake"),
        ("idle", "falling"),
        ("idle", "falling"),
        ("idle", "asleep"),
        ("mixed", "falling"),
        ("idle", "waking"),
        ("idle", "waking"),
        ("mixed", "waking"),
        ("mixed", "awake"),
        ("down", "asleep"),
    ]
    facts = parse_config.parse_node_facts(text)
    assert facts[-1].reason.startswith(RESUME_FAILED)
    assert [each.last_busy_time is None for each in facts] == [
        each.view.state == "down"
        or bool({"powered_down", "powering_up"} & set(each.view.flags))
        for each in facts
    ]  # fmt: skip
