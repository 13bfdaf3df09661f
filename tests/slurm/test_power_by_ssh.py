"""Slurm's power saving where a node is reached by SSH, and its host hangs: a real sshd, stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest
from support.power_site import PowerSite
from support.ssh_host import SshHost, running

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

NODE = "gn01"
BACKEND = """
[[power.backends]]
nodes = ["{node}"]
kind = "ssh"
host = "127.0.0.1"
port = {port}
user = "root"
key_file = "{key}"
known_hosts = "{known_hosts}"
"""
FORCED = """#!/bin/sh
# What the host does with `VERB NODE`. It hangs in the midst of it while a test wants it to: the
# session's sshd stands still and keeps the connection.
set -- $SSH_ORIGINAL_COMMAND
if [ -e {folder}/hangs ]; then
    echo $PPID $$ >>{folder}/hanging
    kill -STOP $PPID $$
fi
exec {folder}/switch "$1" "$2"
"""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHost]:
    with running(tmp_path_factory.mktemp("sshd")) as made:
        yield made


@pytest.fixture(scope="module")
def site(host: SshHost, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PowerSite]:
    folder = tmp_path_factory.mktemp("power")
    backend = BACKEND.format(node=NODE, port=host.port, key=host.key, known_hosts=host.known_hosts)
    made = PowerSite(folder, num_nodes=2, power="command_timeout_s = 2", backends=backend)
    host.forced(str(made.program("forced", FORCED.format(folder=folder))))
    try:
        with made.bed:
            yield made
    finally:
        end_hanging(made)


def end_hanging(site: PowerSite) -> None:
    """End the sessions that stand still, and let the next ones go on."""
    (site.folder / "hangs").unlink(missing_ok=True)
    hanging = site.folder / "hanging"
    for pid in hanging.read_text().split() if hanging.exists() else ():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    hanging.unlink(missing_ok=True)


def test_a_host_that_hangs_at_suspend_is_given_up_and_holds_up_no_other(
    site: PowerSite, host: SshHost
) -> None:
    host.process.send_signal(signal.SIGSTOP)
    try:
        site.order("gn[01-02]", "power_down_asap")
        wait_for(lambda: site.outcome(NODE) == ("suspend", "failed"), "the host to be given up")
    finally:
        host.process.send_signal(signal.SIGCONT)
    site.sleeps("gn02")
    site.sleeps(NODE)  # as Slurm believes
    assert site.slurmds() == {NODE}
    assert site.outcome("gn02") == ("suspend", "done")
    (error,) = site.failures(NODE)
    assert "127.0.0.1" in error
    assert site.calls(NODE) == []
    # the host answers again: a job gets the node, which must boot anew for Slurm to take it
    site.runs_on(NODE)
    assert site.calls(NODE) == ["restart"]
    site.gsched("power", "clear", NODE)


def test_a_host_that_hangs_in_the_midst_of_a_resume_is_tried_again(site: PowerSite) -> None:
    site.order(NODE, "power_down_asap")
    site.sleeps(NODE)
    assert site.slurmds().isdisjoint({NODE})
    before = site.calls(NODE)
    (site.folder / "hangs").touch()
    wait = site.bed.run_as("games", ["sbatch", "--parsable", "-w", NODE, "--wrap", "true"])
    assert wait.returncode == 0, wait.stderr
    wait_for((site.folder / "hanging").exists, "the first try to hang")
    (site.folder / "hangs").unlink()
    wait_for(lambda: site.is_up(NODE), f"{NODE} to wake")
    assert site.calls(NODE)[len(before) :] == ["resume"]
    found = {entry["node"]: entry for entry in site.status()["nodes"]}
    assert (found[NODE]["outcome"], found[NODE]["tries"]) == ("done", 2)
    site.bed.cancel_jobs()
    end_hanging(site)
