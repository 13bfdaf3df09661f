"""Where Slurm itself would requeue the one job for the other, gsched leaves it to Slurm."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.site import Site, fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

EXEMPT_S = 60
"""So long Slurm leaves a job alone: in it lies the end of a lease."""
JOB = "trap 'echo told >>{told}' USR1; while :; do sleep 0.2 & wait $!; done"
CONF = (
    "PreemptType=preempt/qos",
    "PreemptMode=REQUEUE",
    f"PreemptExemptTime=00:{EXEMPT_S // 60:02}:00",
)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=1, accounting="slurmdbd", extra_conf=CONF, cred_expire_s=5) as made:
        manage = ("sacctmgr", "-i")
        made.slurm(*manage, "add", "user", "games", "account=lab2")
        made.slurm(*manage, "add", "qos", "high", "set", "preempt=normal")
        made.slurm(*manage, "modify", "user", "games", "set", "qos=normal,high")
        made.configure("daemon", policy='"ltgf"', leases="true", burst_interval_s="0.1")
        made.configure("daemon.knobs", lease_s="15.0", grace_s="5.0")
        made.configure("fairness.quotas", lab1="4.0", lab2="4.0")
        yield made


def submit(site: Site, account: str, qos: str, told: Path, *options: str) -> int:
    """A job for the whole node, which writes down each USR1, until it is cancelled."""
    words = ("sbatch", "--parsable", "--gres=gpu:8", "-o", "/dev/null", *options)
    of = (f"--account={account}", f"--qos={qos}")
    return int(site.slurm(*words, *of, "--wrap", JOB.format(told=told), user="games"))


def one_round(site: Site) -> str:
    """By a daemon whose leases may be as short as one hand-over; what it says."""
    words = (sys.executable, "-m", "support.leased_daemon", "daemon", "once", "--act")
    env = {**os.environ, **site.bed.env(), "GSCHED_CONFIG": str(site.config)}
    env |= {"PYTHONPATH": str(Path(__file__).parents[1]), "LEASED_HAND_OVERS": "1"}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    return done.stderr


@pytest.mark.parametrize(("qos", "is_slurms"), [("high", True), ("normal", False)])
def test_a_lease_is_left_to_slurm_where_it_preempts_by_itself(
    site: Site, qos: str, is_slurms: bool
) -> None:
    """The control is the same without a QOS that preempts: gsched tells the job to save."""
    work = site.bed.spec.root / f"work-{qos}"
    work.mkdir()
    work.chmod(0o777)
    told = work / "told"
    holder = submit(site, "lab1", "normal", told, "--comment=gs1{ckpt}")
    wait_for(lambda: site.states()[holder] == "RUNNING", "the first job to run")
    one_round(site)
    owed = submit(site, "lab2", qos, work / "other")
    said = []

    def has_changed_hands() -> bool:
        said.append(one_round(site))
        return site.states()[owed] == "RUNNING"

    wait_for(has_changed_hands, "the GPUs to change hands", timeout_s=3 * EXEMPT_S)
    assert site.states()[holder] == "PENDING"
    assert any(f"Slurm preempts it by itself for {owed}" in text for text in said) is is_slurms
    assert told.exists() is not is_slurms
    site.bed.cancel_jobs()
