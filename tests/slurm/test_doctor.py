"""doctor on a real Slurm: a sound site, and the faults that only a live one can have."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator

import pytest
from support.site import GSCHED, Site, fresh_site

from gsched.app.doctor import Finding
from gsched.daemon.locks import StateDir
from gsched.testbed import processes
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History

pytestmark = pytest.mark.slurm

SOUND = (
    "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_continue",
    "SlurmctldParameters=preempt_send_user_signal,power_save_interval=1",
    "KillWait=30",
)
BASIC = "PriorityType=priority/basic"
TO_LIVE_WITH = {"jobcomp-file"}


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with fresh_site(num_nodes=1, extra_conf=(*SOUND, BASIC)) as site:
        site.configure("predict", estimator='"constant"')
        site.configure("jobscript", python=f'"{sys.executable}"')
        yield site


def complaints(site: Site, **environ: str) -> dict[str, Finding]:
    answer = site.gsched("doctor", "--json", env=environ)
    found = [Finding(**f) for f in json.loads(answer.stdout)]
    fails = any(f.level == "fail" for f in found)
    assert answer.returncode == (78 if fails else 0), answer.stderr
    return {f.code: f for f in found if f.level != "ok"}


def edit_conf(site: Site, before: str, after: str) -> None:
    path = site.bed.layout.slurm_conf
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))


def test_priorities_that_know_no_factors(site: Site) -> None:
    found = complaints(site)
    assert found.keys() == TO_LIVE_WITH | {"priority-type"}
    finding = found["priority-type"]
    assert "set PriorityType=priority/multifactor in slurm.conf" in finding.mend
    assert site.gsched("daemon", "once", "--act").returncode == 78
    edit_conf(site, BASIC, "PriorityType=priority/multifactor")
    site.bed.restart_slurmctld()
    site.ok("daemon", "once", "--act")
    assert complaints(site).keys() == TO_LIVE_WITH


def test_what_a_reconfigure_mends(site: Site) -> None:
    edit_conf(site, ",bf_continue", "")
    site.slurm("scontrol", "reconfigure")
    finding = complaints(site)["backfill-continue"]
    assert "add bf_continue to SchedulerParameters in slurm.conf" in finding.mend
    edit_conf(site, "bf_interval=1", "bf_interval=1,bf_continue")
    site.slurm("scontrol", "reconfigure")
    with socket.create_server(("127.0.0.1", 0)) as gone:
        address = f"127.0.0.1:{gone.getsockname()[1]}"
    found = complaints(site, GSCHED_DAEMON_QUERY_ADDRESS=address)
    assert found.keys() == TO_LIVE_WITH | {"query-unreachable"}
    assert f"no daemon answers at {address}" in found["query-unreachable"].found


def test_a_daemon_that_is_stopped_and_one_too_many(site: Site) -> None:
    other = site.bed.spec.root / "other"
    History.create(f"sqlite:///{other}/history.db")
    environ = {"GSCHED_STATE_DIR": str(other)}
    log = site.bed.spec.root / "other.log"
    run = [GSCHED, "daemon", "run", "--interval", "0.1"]
    with (
        Background(site.bed, run, site.bed.spec.root / "daemon.log") as daemon,
        Background(site.bed, run, log, environ) as second,
    ):
        for folder in (site.state, other):
            wait_for(lambda folder=folder: (folder / "status.json").exists(), "a round")
        finding = complaints(site)["two-daemons"]
        assert str(other) in finding.found
        assert f"kill {second.process.pid}" in finding.mend
        second.stop()
        daemon.signal(signal.SIGSTOP)
        wait_for(lambda: "daemon-hung" in complaints(site), "the daemon to be found silent")
        found = complaints(site)
        daemon.signal(signal.SIGCONT)
        assert found.keys() == TO_LIVE_WITH | {"daemon-hung"}
        assert f"process {daemon.process.pid} lives" in found["daemon-hung"].found
    assert StateDir(site.state).leader() is None


def test_no_munge_and_no_slurmctld(site: Site) -> None:
    root = site.bed.spec.root
    munged = [p for p in processes.find(root) if p.program == "munged"]
    processes.kill(munged, root)
    finding = complaints(site)["munge-down"]
    assert (finding.level, "systemctl restart munge" in finding.mend) == ("fail", True)
    assert site.bed.run(munged[0].argv).returncode == 0
    wait_for(lambda: site.bed.run(["squeue", "-h"]).returncode == 0, "Slurm to answer")
    assert "munge-down" not in complaints(site)
    for process in processes.find(root):
        if process.program == "slurmctld":
            os.kill(process.pid, signal.SIGSTOP)
    found = complaints(site, GSCHED_SLURM_COMMAND_TIMEOUT_S="1")
    for process in processes.find(root):
        if process.program == "slurmctld":
            os.kill(process.pid, signal.SIGCONT)
    assert "slurmctld" in found["slurmctld-down"].mend
