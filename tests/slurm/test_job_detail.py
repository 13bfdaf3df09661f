"""One job in all detail, asked of a real Slurm by its owner, somebody else and root."""

from __future__ import annotations

import pytest

from gsched.slurm import detail
from gsched.slurm.client import CommandClient
from gsched.slurm.run import run
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

FORGED = "x UserId=root(0) Account=lab QOS=q ReqNodeList=a ExcNodeList=gn99 NodeList=b CoreSpec=* "
EVIL = FORGED + "\n   Nodes=gn99 CPU_IDs=0 Mem=1 GRES=gpu:a100:8(IDX:0-7) MinCPUsNode=1\nJobId=1 "


@pytest.fixture
def client(bed, monkeypatch):
    """A client in the environment of the shared testbed."""
    for name, value in bed.env().items():
        monkeypatch.setenv(name, value)
    return CommandClient(timeout_s=60)


def submit(bed, *words, command="sleep 600"):
    done = bed.run(["sbatch", "--parsable", *words], "games", stdin=f"#!/bin/sh\n{command}\n")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def running(client, raw_id):
    return wait_for(lambda: (d := client.job_detail(raw_id)) and d.node_list and d, "its start")


@pytest.mark.parametrize("name", ["train", EVIL])
@pytest.mark.parametrize("account", ["lab", EVIL])
def test_a_running_job_with_gpus_on_two_nodes(bed, client, name, account):
    """Without slurmdbd the account is the owner's own text as well."""
    words = ("-N2", "-w", "gn02,gn03", "--gpus-per-node=a100:2", "-x", "gn04", "-t", "10")
    job = running(client, submit(bed, "-J", name, "-A", account, f"--comment={EVIL}", *words))
    assert (job.name, job.comment) == (name, EVIL)
    assert (job.node_list, job.batch_host) == ("gn[02-03]", "gn02")
    assert (job.required_nodes, job.excluded_nodes) == ("gn[02-03]", "gn04")
    held = [(node.node, node.gpus, node.gpu_types, node.indexes) for node in job.node_gres]
    assert held == [("gn02", 2, (("a100", 2),), (0, 1)), ("gn03", 2, (("a100", 2),), (0, 1))]
    home = bed.layout.home("games")
    assert (job.work_dir, job.std_out) == (str(home), f"{home}/slurm-{job.raw_id}.out")
    assert job.std_err == job.std_out
    assert (job.exit_code, job.exit_signal, job.restarts) == (None, None, 0)


def test_a_job_that_has_failed(bed, client):
    raw_id = submit(bed, "-o", "/dev/null", "-J", "%x %j", command="exit 3")
    job = wait_for(
        lambda: (d := client.job_detail(raw_id)) and d.exit_code is not None and d, "end"
    )
    assert (job.exit_code, job.exit_signal, job.reason) == (3, 0, "NonZeroExitCode")
    assert job.node_gres == ()


def test_a_job_that_waits(bed, client):
    first = submit(bed, "-H")
    raw_id = submit(bed, "-d", f"afterok:{first}")
    job = client.job_detail(raw_id)
    assert job.dependency.startswith(f"afterok:{first}")
    assert (job.reason, job.node_list, job.node_gres) == ("Dependency", "", ())


def test_one_task_of_an_array(bed, client):
    """The array's own number is that of its last task, and asks Slurm for all of them."""
    array = submit(bed, "-a", "1-3", "-o", "%A_%2a.txt", "--gres=gpu:1", "-t", "10")
    rows = wait_for(
        lambda: len(rows := [r for r in client.queue().rows if r.node_list]) == 3 and rows, "tasks"
    )
    assert array in {row.raw_id for row in rows}
    for row in rows:
        job = client.job_detail(row.raw_id)
        assert job.std_out.endswith(f"/{array}_0{row.array_task}.txt")
        assert [node.gpus for node in job.node_gres] == [1]


def test_parts_of_a_het_job(bed, client):
    leader = submit(bed, "-w", "gn01", "-t", "5", ":", "-w", "gn02", "--gres=gpu:3", "-t", "5")
    parts = [running(client, raw_id) for raw_id in (leader, leader + 1)]
    assert [part.node_list for part in parts] == ["gn01", "gn02"]
    assert [sum(node.gpus for node in part.node_gres) for part in parts] == [0, 3]


def test_a_job_that_slurm_does_not_know(client):
    assert client.job_detail(424242) is None


def test_json_that_scontrol_does_not_give(bed, client):
    """As on a newer release without the plugin: an older scontrol refuses the option as well."""
    raw_id = submit(bed, "-H", "-J", EVIL)

    def ask(*argv):
        if argv[-1] == "--version":
            argv = ("echo", "slurm 26.05.5")
        asked.append(argv[-1])
        return run(argv, timeout_s=60)

    asked = []
    assert detail.job_detail(ask, raw_id) == client.job_detail(raw_id)
    assert asked[1:3] == ["--json=v0.0.44", "--json"]
