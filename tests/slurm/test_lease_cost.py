"""What a lease costs a job on a real Slurm: not its age; and what Slurm takes by itself."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.jobs import view
from support.site import Site, fresh_site

from gsched.app.daemon_model import NoPredictor
from gsched.config.settings import DaemonSettings
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import scale_for
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.round import RoundRunner
from gsched.policy.fifo import Fifo
from gsched.slurm.client import CommandClient
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

AGE, MAX_AGE_S = 36_000, 60
AGING = (f"PriorityMaxAge={MAX_AGE_S // 60}", "PreemptType=preempt/qos", "PreemptMode=REQUEUE")
QUANTUM = 100


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    weights = {"partition": 1_000_000, "age": AGE}
    with (
        fresh_site(
            num_nodes=1,
            accounting="slurmdbd",  # without it Slurm counts no age
            priority_weights=weights,
            extra_conf=AGING,
            cred_expire_s=5,
        ) as made,
        pytest.MonkeyPatch.context() as patched,
    ):
        for name, value in made.bed.env().items():
            patched.setenv(name, value)
        made.configure(
            "daemon", policy='"ltgf"', leases="true", max_shift="50000", quantum=str(QUANTUM),
            burst_interval_s="0.1",
        )  # fmt: skip
        yield made


def submit(site: Site, *options: str) -> int:
    """A job for the whole node, until it is cancelled."""
    words = ("sbatch", "--parsable", "--gres=gpu:8", "-o", "/dev/null", *options)
    return int(site.slurm(*words, "--wrap", "while :; do sleep 0.2; done", user="games"))


def told(site: Site, job: int) -> dict[str, Any]:
    """What the daemon says of a job, after a round."""
    site.ok("daemon", "once", "--act")
    return site.json("show", str(job))["gsched"] or {}


def test_age_that_a_requeue_has_cost_is_paid_back(site: Site) -> None:
    first = submit(site)
    wait_for(lambda: site.states()[first] == "RUNNING", "the first job to run")
    job, began = submit(site, "--comment=gs1{ckpt}"), time.time()
    told(site, job)
    wait_for(lambda: time.time() > began + 8, "the job to age", timeout_s=12)
    site.slurm("scancel", str(first))
    wait_for(lambda: site.states()[job] == "RUNNING", "the job to run")
    waited_s = time.time() - began
    assert told(site, job)["lease"]["state"] == "granted"
    other = submit(site)
    site.slurm("scontrol", "requeue", str(job))
    wait_for(lambda: site.states()[other] == "RUNNING", "the other job to run")
    rival = submit(site)
    told(site, job)
    wait_for(lambda: {job, rival} <= site.factors().keys(), "both to be eligible", timeout_s=90)
    answer = told(site, job)
    gave_way = answer["lease"]
    assert gave_way["state"] == "requeued"
    params = answer["reason"]["params"]
    assert 8 <= params["repaid_wait_s"] <= waited_s + 1
    whole = AGE * params["repaid_wait_s"] / MAX_AGE_S
    assert params["repaid_points"] == whole // QUANTUM * QUANTUM
    factors = site.factors()
    # the two are at the ends of the order, and it is on top of its own
    assert factors[job] == pytest.approx(-factors[rival] + params["repaid_points"], abs=QUANTUM)
    assert "of waiting before its requeue" in site.ok("why", str(job))
    assert "gave way" in site.ok("why", str(job))
    site.bed.cancel_jobs()


def test_whom_gpus_are_freed_for_is_first_by_slurms_own_priority(
    site: Site, tmp_path: Path
) -> None:
    """Though another job is before it in the policy's order, and older."""
    first = submit(site)
    wait_for(lambda: site.states()[first] == "RUNNING", "the first job to run")
    older, began = submit(site), time.time()
    wait_for(lambda: time.time() > began + 5, "the job to age", timeout_s=9)
    chosen = submit(site)
    wait_for(lambda: {older, chosen} <= site.factors().keys(), "both to be listed")
    client, settings = CommandClient(), DaemonSettings(max_shift=20_000, burst_interval_s=0.01)
    config = client.config()
    url = f"sqlite:///{tmp_path / 'history.db'}"
    History.create(url)
    with History.open(url) as history:
        backend = SlurmBackend(
            client,
            config.cluster,
            scale_for(config, settings),
            settings,
            lambda rows: [row.submit_time for row in rows],
            lambda: int(time.time()),
            RequestBook(history.request_store()),
            bf_interval_s=0.01,
        )
        numbers = itertools.count()
        runner = RoundRunner(
            backend, Fifo(), history.journal(), NoPredictor(), lambda: int(time.time()),
            lambda: f"round-{next(numbers)}",
        )  # fmt: skip
        runner.run(acting=True)
        assert site.by_priority()[0] == older
        backend.freed_for = lambda: [str(chosen)]
        runner.run(acting=True)
        assert site.by_priority()[0] == chosen
        assert backend.behind == frozenset()
    site.slurm("scancel", str(first))
    wait_for(lambda: site.states()[chosen] == "RUNNING", "it to have the GPUs")
    assert site.states()[older] == "PENDING"
    site.bed.cancel_jobs()


def test_whom_slurm_itself_preempts(site: Site) -> None:
    client = CommandClient()
    config = client.config()
    normal = replace(view(1), qos="normal")
    assert not client.own_preemption(config).requeues(normal, normal)
    site.slurm("sacctmgr", "-i", "add", "qos", "high", "set", "preempt=normal")
    high = replace(view(2), qos="high")
    own = client.own_preemption(config)
    assert own.requeues(normal, high)
    assert not own.requeues(high, normal)
    site.slurm("sacctmgr", "-i", "modify", "qos", "normal", "set", "preemptmode=cancel")
    assert not client.own_preemption(config).requeues(normal, high)
