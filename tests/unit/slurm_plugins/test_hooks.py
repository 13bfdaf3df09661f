"""Slurm's hooks as programs: what they export and tell, and that no task fails for their sake."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.gpus import gpu, recording, samplers

from gsched.telemetry.attempts import MAX_BYTES, JobAttempt, Register, read_register
from gsched.telemetry.hooks import hook
from gsched.telemetry.user_folders import UserFolders
from gsched.testbed.wait import wait_for

ME = os.getuid()
NOBODY = 65534
JOB = {
    "PATH": os.environ["PATH"],
    "SLURM_JOB_ID": "7",
    "SLURM_JOB_UID": str(ME),
    "SLURM_JOB_NODELIST": "gn[01-02]",
    "SLURMD_NODENAME": "gn01",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
}
STEP = JOB | {
    "SLURM_STEP_ID": "4",
    "SLURM_STEP_NUM_TASKS": "3",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
}


@pytest.fixture(params=["dash", "bash"])
def shell(request: pytest.FixtureRequest) -> str:
    """/bin/sh is dash, or bash, by distribution."""
    return request.param


def run(name: str, environ: dict[str, str], shell: str = "sh") -> list[str]:
    """What a hook prints; it succeeds and complains of nothing."""
    program = hook(name)
    assert program is not None
    done = subprocess.run(
        [shell, program], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def told(folder: Path, job: str = "7") -> Register | None:
    with UserFolders(folder) as opened:
        return read_register(opened, ME, job)


def only(folder: Path, job: str = "7") -> JobAttempt:
    register = told(folder, job)
    assert register is not None
    assert register.num_unreadable == 0
    (attempt,) = register.attempts
    return attempt


def asked(folder: Path, environ: dict[str, str], **more: str) -> dict[str, str]:
    return environ | {"GSCHED_HEARTBEAT_DIR": str(folder)} | more


def test_a_job_that_has_not_asked_sees_nothing(shell):
    for environ in (JOB, STEP, {"PATH": os.environ["PATH"]}):
        assert run("task_prolog", environ, shell) == []
        assert run("task_epilog", environ, shell) == []


def test_an_attempt_is_told_from_its_beginning_to_its_end(tmp_path, shell):
    batch, step = asked(tmp_path, JOB), asked(tmp_path, STEP)
    run("task_prolog", batch, shell)
    run("task_prolog", step, shell)
    during = only(tmp_path)
    assert (during.num_steps, during.num_ended_steps, during.ended_time) == (1, 0, None)
    run("task_epilog", step, shell)
    run("task_epilog", batch, shell)
    attempt = only(tmp_path)
    assert (attempt.host, attempt.nodes, attempt.num_ended_steps) == ("gn01", "gn[01-02]", 1)
    assert attempt.started_time <= attempt.ended_time
    run("task_prolog", batch | {"SLURM_RESTART_COUNT": "1"}, shell)
    assert [a.restart for a in told(tmp_path).attempts] == [0, 1]


def test_a_task_of_an_array_is_told_by_its_place(tmp_path):
    run("task_prolog", asked(tmp_path, JOB, SLURM_ARRAY_JOB_ID="5", SLURM_ARRAY_TASK_ID="3"))
    assert only(tmp_path, "5_3").started_time


def test_one_task_speaks_for_a_step(tmp_path):
    run("task_prolog", asked(tmp_path, STEP, SLURM_PROCID="1"))
    assert told(tmp_path) is None


def test_the_shell_of_salloc_is_no_step(tmp_path):
    run("task_prolog", asked(tmp_path, STEP, SLURM_STEP_ID="4294967290"))
    assert only(tmp_path).num_steps == 0


@pytest.mark.parametrize(
    ("tasks", "node", "local"),
    [("2,1", "0", "2"), ("2,1", "1", "1"), ("4(x2),3", "1", "4"), ("4(x2),3", "2", "3"),
     ("8", "0", "8"), ("1(x300),2(x2)", "301", "2"), ("", "0", "1")],
)  # fmt: skip
def test_ranks_are_exported_where_they_were_asked_for(shell, tasks, node, local):
    environ = STEP | {"SLURM_PROCID": "2", "SLURM_STEP_TASKS_PER_NODE": tasks, "SLURM_NODEID": node}
    exported = run("task_prolog", environ | {"GSCHED_RANKS": "1"}, shell)
    assert set(exported) == {
        "export RANK=2", "export LOCAL_RANK=0", "export WORLD_SIZE=3",
        f"export LOCAL_WORLD_SIZE={local}", "export GSCHED_PROLOG_DONE=7.4",
        "export GSCHED_ATTEMPT=1",
    }  # fmt: skip
    assert not any("RANK" in line for line in run("task_prolog", JOB | {"GSCHED_RANKS": "1"}))


def test_the_attempt_is_counted_from_one(tmp_path):
    restarted = asked(tmp_path, STEP, SLURM_RESTART_COUNT="2")
    assert "export GSCHED_ATTEMPT=3" in run("task_prolog", restarted)
    assert not any("ATTEMPT" in x for x in run("task_prolog", restarted | {"GSCHED_ATTEMPT": "3"}))


def test_two_settings_that_name_the_hook_run_it_once(tmp_path):
    step = asked(tmp_path, STEP)
    exported = dict(line.removeprefix("export ").split("=") for line in run("task_prolog", step))
    assert run("task_prolog", step | exported) == []
    assert only(tmp_path).num_steps == 1
    assert run("task_prolog", step | exported | {"SLURM_STEP_ID": "5"})


def test_the_users_own_hooks_run_afterwards_and_may_fail(tmp_path):
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\necho print $SLURM_STEP_ID\nexit 5\n")
    own.chmod(0o755)
    for name in ("task_prolog", "task_epilog"):
        environ = asked(tmp_path, STEP, **{f"GSCHED_NEXT_{name.upper()}": str(own)})
        done = subprocess.run(
            [hook(name)], env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 5
        assert done.stdout.splitlines()[-1] == "print 4"


def test_outside_a_step_the_users_own_hooks_are_left_to_slurm(tmp_path):
    own = tmp_path / "own"
    own.write_text("#!/bin/sh\nexit 5\n")
    own.chmod(0o755)
    for name in ("task_prolog", "task_epilog"):
        run(name, asked(tmp_path, JOB, **{f"GSCHED_NEXT_{name.upper()}": str(own)}))


def test_hostile_values_are_not_told(tmp_path, shell):
    evil = '$(touch x)`id`"};{"'
    run("task_prolog", asked(tmp_path, JOB, SLURMD_NODENAME=evil, SLURM_JOB_NODELIST=evil), shell)
    assert (only(tmp_path).host, only(tmp_path).nodes) == (None, None)
    for name in ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "SLURM_STEP_NUM_TASKS"):
        run("task_prolog", asked(tmp_path, STEP, **{name: "1;x"}), shell)
    assert told(tmp_path).num_unreadable == 0


@pytest.mark.parametrize("broken", ["absent", "file", "closed"])
def test_a_heartbeat_folder_that_fails_fails_no_task(tmp_path, shell, broken):
    folder = tmp_path / "heartbeats"
    if broken == "file":
        folder.touch()
    elif broken == "closed":
        folder.mkdir()
        (folder / str(ME)).touch()
    assert run("task_prolog", asked(folder, STEP), shell)
    run("task_epilog", asked(folder, STEP), shell)


def test_a_place_that_somebody_else_has_taken_is_not_written_to(tmp_path, shell):
    victim = tmp_path / "victim"
    victim.mkdir()
    (tmp_path / str(ME)).symlink_to(victim)
    run("task_prolog", asked(tmp_path, JOB), shell)
    (tmp_path / str(ME)).unlink()
    (tmp_path / str(ME)).mkdir()
    os.chown(tmp_path / str(ME), NOBODY, -1)
    run("task_prolog", asked(tmp_path, JOB), shell)
    assert list((tmp_path / str(ME)).iterdir()) == []
    os.chown(tmp_path / str(ME), ME, -1)
    (victim / "precious").touch()
    (tmp_path / str(ME) / "7.attempts").symlink_to(victim / "precious")
    run("task_prolog", asked(tmp_path, JOB), shell)
    assert [p.stat().st_size for p in victim.iterdir()] == [0]


def test_a_fifo_is_not_waited_for(tmp_path):
    (tmp_path / str(ME)).mkdir()
    os.mkfifo(tmp_path / str(ME) / "7.attempts")
    run("task_prolog", asked(tmp_path, JOB))


def test_a_file_server_that_hangs_is_given_up(tmp_path, shell):
    """Which is hard to come by: here a program that the hook calls hangs."""
    hooks = tmp_path / "hooks"
    shutil.copytree(hook("task_prolog").parent, hooks)
    common = hooks / "attempts.sh"
    common.write_text(common.read_text().replace("date +%s", "exec sleep 600"))
    environ = asked(tmp_path, JOB)
    done = subprocess.run(
        [shell, hooks / "task_prolog"], env=environ, capture_output=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert told(tmp_path) is None


def test_a_hook_that_was_copied_without_its_file_fails_no_task(tmp_path, shell):
    alone = Path(shutil.copy(hook("task_prolog"), tmp_path))
    done = subprocess.run(
        [shell, alone], env=asked(tmp_path, STEP), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_register_that_has_grown_long_is_cut_when_an_attempt_begins(tmp_path):
    run("task_prolog", asked(tmp_path, JOB))
    place = tmp_path / str(ME) / "7.attempts"
    line = place.read_bytes()
    place.write_bytes(line * (MAX_BYTES // len(line) + 1))
    size = place.stat().st_size
    run("task_prolog", asked(tmp_path, STEP))
    assert place.stat().st_size == size
    run("task_prolog", asked(tmp_path, JOB, SLURM_RESTART_COUNT="1"))
    assert place.stat().st_size < MAX_BYTES / 2
    assert place.read_bytes().startswith(line)  # the first one that is kept is whole
    assert [a.restart for a in told(tmp_path).attempts] == [0, 1]
    assert told(tmp_path).num_unreadable == 0


# -- the sampler of GPUs ---------------------------------------------------------------------------


@pytest.fixture
def with_gpus(tmp_path: Path) -> dict[str, str]:
    return asked(
        tmp_path,
        STEP,
        SLURM_JOB_GPUS="0",
        GSCHED_PYTHON=sys.executable,
        GSCHED_GPU_RECORDING=str(recording(tmp_path / "recording", [gpu()])),
    )


@pytest.fixture
def no_leftovers(tmp_path: Path) -> Iterator[None]:
    """Whatever a failing test leaves is ended."""
    yield
    for pid in samplers(tmp_path):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.usefixtures("no_leftovers")
@pytest.mark.parametrize("first", ["0", "1"])
def test_a_nodes_first_task_starts_a_sampler_that_ends_with_it(tmp_path, with_gpus, first):
    """Another task than the step's first one tells nothing, and its prolog is over at once."""
    with_gpus["SLURM_PROCID"] = first
    as_slurm_does = (
        f"import os, subprocess\n"
        f"hook = subprocess.Popen([{str(hook('task_prolog'))!r}], process_group=0)\n"
        f"hook.wait()\n"
        f"try: os.killpg(hook.pid, 9)\n"
        f"except ProcessLookupError: pass\n"
        f"os.execvp('sleep', ['sleep', '600'])\n"
    )
    argv = [sys.executable, "-c", as_slurm_does]
    with subprocess.Popen(argv, env=with_gpus, stdout=subprocess.DEVNULL) as task:
        wait_for((tmp_path / str(ME) / "7.gpu.gn01").exists, "a sample")
        assert len(samplers(tmp_path)) == 1
        task.kill()
    wait_for(lambda: not samplers(tmp_path), "the sampler's end")


@pytest.mark.usefixtures("no_leftovers")
@pytest.mark.parametrize(
    "changes",
    [
        {"SLURM_LOCALID": "1"},
        {"SLURM_JOB_GPUS": ""},
        {"GSCHED_SAMPLED_NODE": "gn01"},
        {"GSCHED_PYTHON": ""},
        {"GSCHED_HEARTBEAT_DIR": ""},
    ],
    ids=str,
)
def test_otherwise_none_is_started(tmp_path, with_gpus, changes):
    run("task_prolog", with_gpus | changes)
    assert samplers(tmp_path) == []
