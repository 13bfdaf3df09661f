"""The configuration files of a testbed."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

from gsched.testbed import conf
from gsched.testbed.layout import Layout
from gsched.testbed.ports import Ports
from gsched.testbed.spec import TestbedSpec

ROOT = Path("/var/tmp/bed")
LAYOUT = Layout(ROOT)
PORTS = Ports(20_480)


def rendered(spec: TestbedSpec, job_variables: dict[str, str] | None = None) -> list[str]:
    return conf.slurm_conf(spec, LAYOUT, PORTS, "root", job_variables or {}).splitlines()


def values(lines: list[str]) -> dict[str, str]:
    pairs = [line.partition("=")[::2] for line in lines]
    assert len(dict(pairs)) == len(pairs), "Slurm complains about a key that is set twice"
    return dict(pairs)


def test_nodes_ports_and_gpus_are_declared_together() -> None:
    lines = rendered(TestbedSpec(ROOT, num_nodes=12, gpus_per_node=4, gpu_type="h100"))
    assert [line for line in lines if line.startswith("NodeName=")] == [
        "NodeName=gn[01-12] NodeHostname=localhost NodeAddr=127.0.0.1 Port=[20483-20494] "
        "CPUs=64 RealMemory=512000 Gres=gpu:h100:4 State=UNKNOWN"
    ]
    assert values(lines)["SlurmctldPort"] == "20480"


def test_one_node_is_no_range_and_no_gpus_are_no_gres() -> None:
    spec = TestbedSpec(ROOT, num_nodes=1, gpus_per_node=0)
    lines = rendered(spec)
    assert any(line.startswith("NodeName=gn01 ") and " Port=20483 " in line for line in lines)
    assert not any("Gres" in line for line in lines)
    assert conf.gres_conf(spec, LAYOUT) == ""


def test_gpus_are_files_since_slurm_counts_no_others() -> None:
    assert conf.gres_conf(TestbedSpec(ROOT), LAYOUT) == (
        "Name=gpu Type=a100 File=/var/tmp/bed/dev/gpu[0-7]\n"
    )
    assert conf.gres_conf(TestbedSpec(ROOT, gpus_per_node=1), LAYOUT) == (
        "Name=gpu Type=a100 File=/var/tmp/bed/dev/gpu0\n"
    )


def test_each_kind_of_accounting_sets_its_own_keys() -> None:
    filetxt = values(rendered(TestbedSpec(ROOT)))
    assert filetxt["JobCompLoc"] == "/var/tmp/bed/jobcomp/jobcomp.txt"
    assert "AccountingStorageType" not in filetxt
    slurmdbd = values(rendered(TestbedSpec(ROOT, accounting="slurmdbd")))
    assert slurmdbd["AccountingStoragePort"] == "20481"
    assert slurmdbd["AccountingStoragePass"] == "/var/tmp/bed/munge/munge.sock"
    assert slurmdbd["AccountingStorageTRES"] == "gres/gpu,gres/gpu:a100"
    assert slurmdbd["AccountingStorageEnforce"] == "associations,limits,qos"
    assert "JobCompLoc" not in slurmdbd
    assert values(rendered(TestbedSpec(ROOT, accounting="none")))["JobCompType"] == "jobcomp/none"


def test_the_partition_gives_every_job_a_base_priority_unless_asked_otherwise() -> None:
    default = values(rendered(TestbedSpec(ROOT)))
    assert default["PriorityWeightPartition"] == "1000000"
    assert default["PriorityWeightFairshare"] == "10000"
    own = values(rendered(TestbedSpec(ROOT, priority_weights={"qos": 3})))
    assert own["PriorityWeightQOS"] == "3"
    assert "PriorityWeightPartition" not in own


def test_an_extra_line_replaces_a_key_but_adds_to_nodes_and_partitions() -> None:
    extra = ("killwait=30", "PartitionName=low Nodes=ALL", "Licenses=a:2")
    lines = rendered(TestbedSpec(ROOT, extra_conf=extra))
    assert [line for line in lines if line.lower().startswith("killwait")] == ["killwait=30"]
    assert sum(line.startswith("PartitionName=") for line in lines) == 2
    assert lines[-1] == "Licenses=a:2"


def test_specified_times_and_scheduler_arrive() -> None:
    spec = TestbedSpec(ROOT, scheduler="sched/builtin", cred_expire_s=33, suspend_time_s=44)
    found = values(rendered(spec))
    assert found["SchedulerType"] == "sched/builtin"
    assert found["AuthInfo"] == "socket=/var/tmp/bed/munge/munge.sock,cred_expire=33"
    assert found["SuspendTime"] == "44"


def test_the_task_prolog_is_there_only_for_variables_and_quotes_them() -> None:
    assert not any("TaskProlog" in line for line in rendered(TestbedSpec(ROOT)))
    variables = {"NAME": "it's $HOME"}
    assert "TaskProlog=/var/tmp/bed/etc/task_prolog" in rendered(TestbedSpec(ROOT), variables)
    script = conf.task_prolog(variables)
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said == "export NAME=it's $HOME\n"


def test_slurmdbds_file_holds_the_password_and_both_ports() -> None:
    text = conf.slurmdbd_conf(LAYOUT, PORTS, "backup", "s3cret")
    assert {"DbdPort=20481", "StoragePort=20482", "StoragePass=s3cret", "SlurmUser=backup"} <= set(
        text.splitlines()
    )


def test_gsched_is_configured_for_the_testbed() -> None:
    with_file = tomllib.loads(conf.gsched_toml(TestbedSpec(ROOT), LAYOUT))
    assert with_file == {
        "state_dir": "/var/tmp/bed/gsched",
        "slurm": {"jobcomp_file": "/var/tmp/bed/jobcomp/jobcomp.txt"},
    }
    without = tomllib.loads(conf.gsched_toml(TestbedSpec(ROOT, accounting="slurmdbd"), LAYOUT))
    assert without == {"state_dir": "/var/tmp/bed/gsched"}


def test_a_power_program_calls_this_python_with_the_host_list(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.log.mkdir()
    python = tmp_path / "a python"
    python.write_text('#!/bin/sh\necho "$PYTHONPATH|$*"\n')
    python.chmod(0o755)
    program = conf.power_program("resume", layout, str(python), Path("/some lib"))
    subprocess.run(["sh", "-c", program, "node_resume", "gn[01-02]"], check=True)
    assert (layout.log / "power.out").read_text() == (
        f"/some lib|-m gsched.testbed.node_power resume {tmp_path} gn[01-02]\n"
    )
