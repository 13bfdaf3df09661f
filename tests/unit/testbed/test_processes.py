"""Which processes belong to a testbed, and which are never touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.errors import UnavailableError
from gsched.testbed import processes
from gsched.testbed.layout import Layout, Owner
from gsched.testbed.processes import MARK
from gsched.testbed.wait import wait_for

SLEEP = ["sleep", "600"]


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    running: list[subprocess.Popen[bytes]] = []
    yield running
    for process in running:
        process.kill()
        process.wait()


def start(
    running: list[subprocess.Popen[bytes]], argv: list[str], **variables: str
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(argv, env={"PATH": os.environ["PATH"], **variables})
    running.append(process)
    return process


def found_pids(root: Path) -> set[int]:
    return {process.pid for process in processes.find(root)}


def test_marked_processes_and_those_of_jobs_are_found_and_no_others(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    conf = str(Layout(tmp_path).slurm_conf)
    marked = start(started, SLEEP, **{MARK: str(tmp_path)})
    of_a_job = start(started, SLEEP, SLURM_CONF=conf, SLURMD_NODENAME="gn01")
    start(started, SLEEP, SLURM_CONF=conf)  # a shell that exported it
    start(started, SLEEP, SLURM_CONF="/etc/slurm/slurm.conf", SLURMD_NODENAME="real-node")
    start(started, SLEEP, **{MARK: f"{tmp_path}-other"})
    start(started, SLEEP, ANOTHER=f"{MARK}={tmp_path}")
    log = tmp_path / "slurmctld.log"
    log.touch()
    start(started, ["tail", "-f", str(log)])  # somebody looks at it
    assert found_pids(tmp_path) == {marked.pid, of_a_job.pid}


def test_a_daemon_that_lost_its_environment_is_known_by_where_it_works(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """As slurmstepd of Slurm 24.11, which writes its title over its environment."""
    log = Layout(tmp_path).log
    log.mkdir()
    program = tmp_path / "slurmstepd-wlm"
    program.write_bytes(Path("/usr/bin/sleep").read_bytes())
    program.chmod(0o755)
    daemon, elsewhere, visitor = (
        subprocess.Popen([argv0, "600"], env={}, cwd=folder)
        for argv0, folder in ((program, log), (program, tmp_path), ("/usr/bin/sleep", log))
    )
    started += [daemon, elsewhere, visitor]
    assert found_pids(tmp_path) == {daemon.pid}


def test_children_without_the_mark_belong_to_it_as_well(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    parent = start(
        started, ["sh", "-c", "env -i PATH=$PATH sleep 601 & wait"], **{MARK: str(tmp_path)}
    )
    wait_for(
        lambda: any("601" in p.argv for p in processes.find(tmp_path)), "the child without a mark"
    )
    everything = processes.find(tmp_path)
    processes.end(everything, tmp_path, grace_s=5)
    assert parent.wait() == -signal.SIGTERM
    assert processes.find(tmp_path) == []


def test_the_caller_and_its_ancestors_are_spared(tmp_path: Path) -> None:
    """A gsched that runs inside a testbed may stop it without ending itself."""
    script = (
        "from pathlib import Path; from gsched.testbed import processes;"
        f"print([p.pid for p in processes.find(Path('{tmp_path}'))])"
    )
    variables = {**os.environ, MARK: str(tmp_path)}
    argv = ["sh", "-c", '"$@"; :', "sh", sys.executable, "-c", script]
    answer = subprocess.run(argv, env=variables, capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


def test_who_ignores_sigterm_is_killed(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    stubborn = "trap '' TERM; echo ready; exec sleep 600"
    process = subprocess.Popen(
        ["sh", "-c", stubborn], env={**os.environ, MARK: str(tmp_path)}, stdout=subprocess.PIPE
    )
    started.append(process)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    with process.stdout:
        processes.end(processes.find(tmp_path), tmp_path, grace_s=0.1)
    assert process.wait() == -signal.SIGKILL


def test_a_pid_that_was_reused_is_not_signalled(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    process = start(started, SLEEP)
    seen = processes.inspect(process.pid)
    assert seen is not None
    earlier = processes.Process(seen.pid, seen.start_ticks - 1, 1, "slurmd", ("slurmd",))
    processes.send([earlier], signal.SIGKILL, tmp_path)
    processes.kill([earlier], tmp_path)
    assert process.poll() is None


def test_a_program_is_named_without_debians_suffix_and_whatever_it_calls_itself(
    tmp_path: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    copy = tmp_path / "a) S 1 (b-wlm"
    copy.write_bytes(Path("/usr/bin/sleep").read_bytes())
    copy.chmod(0o755)
    process = start(started, [str(copy), "600"])
    seen = processes.inspect(process.pid)
    assert seen is not None
    assert (seen.program, seen.parent) == ("a) S 1 (b", os.getpid())


def test_an_owner_lives_while_the_very_process_does() -> None:
    process = subprocess.Popen(["sleep", "600"])
    seen = processes.inspect(process.pid)
    assert seen is not None
    owner = Owner(seen.pid, seen.start_ticks)
    assert processes.is_alive(owner)
    assert not processes.is_alive(Owner(seen.pid, seen.start_ticks + 1))
    process.kill()
    wait_for(lambda: not processes.is_alive(owner), "the zombie to count as ended")
    assert processes.inspect(process.pid) is None
    process.wait()
    assert not processes.is_alive(owner)
    assert processes.is_alive(processes.this_process())


def test_a_daemon_gets_nothing_of_the_callers_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "x")
    output = tmp_path / "out"
    environment = processes.daemon_environment(Layout(tmp_path), os.environ["PATH"])
    assert processes.finish_start(processes.start_daemon(["env"], environment, output)) == 0
    lines = output.read_text().splitlines()
    assert f"{MARK}={tmp_path}" in lines
    assert not any(line.startswith("SECRET_TOKEN") for line in lines)


def test_a_start_that_hangs_is_given_up(tmp_path: Path) -> None:
    hanging = processes.start_daemon(SLEEP, os.environ, tmp_path / "out")
    assert processes.finish_start(hanging, timeout_s=0.1) == 124
    assert hanging.returncode == -signal.SIGKILL


def test_waiting_in_vain_says_what_for() -> None:
    with pytest.raises(UnavailableError, match=r"waited 0\.1 s in vain for the moon"):
        wait_for(lambda: 0, "the moon", timeout_s=0.1)
    assert wait_for(lambda: "here", "anything") == "here"
