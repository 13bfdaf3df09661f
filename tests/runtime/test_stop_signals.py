"""Signals: the newest snapshot is flushed at once, then the newer one, then the run ends."""

from __future__ import annotations

import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.trainee import run

from gsched.ckpt import layout
from gsched.runtime.checkpoint import Checkpointer, SignalAction
from gsched.runtime.data import shield_worker
from gsched.testbed.wait import wait_for

STEPS = 15


def send(number: int, at: int) -> Callable[[Checkpointer], None]:
    """A signal to this process within the step after `at` finished ones."""

    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == at:
            os.kill(os.getpid(), number)

    return at_step


def manifest_of(folder: Path, step: int) -> dict[str, Any]:
    return json.loads((folder / layout.step_name(step) / layout.MANIFEST_NAME).read_text())


def has(folder: Path, step: int) -> bool:
    return (folder / layout.step_name(step)).exists()


def test_terminated_twice_it_ends_as_the_undisturbed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "mark"
    monkeypatch.setenv("GSCHED_STOPPED_MARK", str(mark))
    undisturbed = run(tmp_path / "undisturbed", STEPS)
    assert not mark.exists()
    folder = tmp_path / "stopped"
    for step in (4, 8):
        with pytest.raises(SystemExit) as stopped:
            run(folder, STEPS, at_step=send(signal.SIGTERM, step), snapshot_every=1)
        assert stopped.value.code == 128 + signal.SIGTERM
        assert manifest_of(folder, step + 1)["reason"] == "signal"
        mark.unlink()  # for the job's batch process, which has to know that this is not the end
    assert run(folder, STEPS) == undisturbed
    assert not mark.exists()


def test_the_newest_snapshot_is_flushed_before_the_step_ends(tmp_path: Path) -> None:
    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for(lambda: has(tmp_path, 3), "the flush of step 3")

    with pytest.raises(SystemExit):
        run(tmp_path, STEPS, at_step=at_step, snapshot_every=1)
    assert manifest_of(tmp_path, 3)["reason"] == "signal"
    assert has(tmp_path, 4)


def test_it_is_flushed_while_the_main_thread_is_within_a_long_c_call(tmp_path: Path) -> None:
    libc = ctypes.CDLL(None)
    mutex = ctypes.create_string_buffer(64)
    libc.pthread_mutex_init(mutex, None)
    handled: list[int] = []

    call = Path(f"/proc/self/task/{threading.get_native_id()}/syscall")

    def is_locking() -> bool:
        return hex(ctypes.addressof(mutex)) in call.read_text().split()

    def kill_and_wait() -> None:
        try:
            wait_for(is_locking, "the long call")
            os.kill(os.getpid(), signal.SIGTERM)
            wait_for(lambda: has(tmp_path, 2), "the flush of step 2")
            handled.append(ckpts[0]._signals.stop_signal)  # Python's handler has not run yet
        finally:
            libc.pthread_mutex_unlock(mutex)

    ckpts: list[Checkpointer] = []

    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == 2:
            ckpts.append(ckpt)
            libc.pthread_mutex_lock(mutex)
            threading.Thread(target=kill_and_wait).start()
            libc.pthread_mutex_lock(mutex)  # a call that no signal interrupts

    with pytest.raises(SystemExit):
        run(tmp_path, STEPS, at_step=at_step, snapshot_every=1)
    assert handled == [0]
    assert has(tmp_path, 3)


def test_a_second_signal_changes_nothing(tmp_path: Path) -> None:
    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == 3:
            for _ in range(3):
                os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit) as stopped:
        run(tmp_path, STEPS, at_step=at_step, snapshot_every=1)
    assert stopped.value.code == 143
    assert has(tmp_path, 4)
    assert not [entry for entry in tmp_path.iterdir() if entry.name.startswith(".partial")]


def test_where_the_grace_is_too_short_the_flushed_one_counts(tmp_path: Path) -> None:
    undisturbed = run(tmp_path / "undisturbed", STEPS)
    folder = tmp_path / "stopped"
    with pytest.raises(SystemExit):
        run(folder, STEPS, at_step=send(signal.SIGTERM, 6), snapshot_every=1, grace_s=0)
    assert has(folder, 6)
    assert not has(folder, 7)
    assert run(folder, STEPS) == undisturbed


def test_usr1_saves_and_goes_on(tmp_path: Path) -> None:
    undisturbed = run(tmp_path / "undisturbed", STEPS)
    saved = run(
        tmp_path / "saved", STEPS, at_step=send(signal.SIGUSR1, 5), keep=9, snapshot_every=1
    )
    assert saved == undisturbed
    assert manifest_of(tmp_path / "saved", 6)["reason"] == "signal"
    assert manifest_of(tmp_path / "saved", STEPS)["reason"] == "end"


def test_other_signals_can_be_chosen_and_earlier_handlers_are_called_and_put_back(
    tmp_path: Path,
) -> None:
    seen: list[int] = []

    def mine(number: int, _frame: object) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGUSR2, mine)
    try:
        with pytest.raises(SystemExit) as stopped:
            run(
                tmp_path,
                STEPS,
                at_step=send(signal.SIGUSR2, 1),
                signals={signal.SIGUSR2: SignalAction.STOP},
            )
        assert stopped.value.code == 128 + signal.SIGUSR2
        assert signal.getsignal(signal.SIGUSR2) is mine
        assert seen == [signal.SIGUSR2]
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    assert signal.set_wakeup_fd(-1) == -1


def test_with_chain_signals_off_earlier_handlers_are_not_called(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.fail("called"))
    try:
        with pytest.raises(SystemExit):
            run(tmp_path, 5, at_step=send(signal.SIGTERM, 1), chain_signals=False)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_child_of_the_training_can_be_terminated(tmp_path: Path) -> None:
    codes: list[int | None] = []

    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == 1:
            child = multiprocessing.get_context("fork").Process(target=signal.pause)
            child.start()
            child.terminate()
            child.join(30)
            codes.append(child.exitcode)

    run(tmp_path, 3, at_step=at_step)
    assert codes == [-signal.SIGTERM]


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return [int(c) for t in tasks for c in (t / "children").read_text().split()]


def is_worker(pid: int) -> bool:
    """A fork of this process, not a program of its own as the writer is."""
    return Path(f"/proc/{pid}/cmdline").read_bytes() == Path("/proc/self/cmdline").read_bytes()


def is_shielded(pid: int) -> bool:
    return has_signal(pid, "SigBlk", signal.SIGTERM)


def has_signal(pid: int, which: str, number: int) -> bool:
    """Whether a signal is in one of a process' masks, such as SigBlk, see proc(5)."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line for line in status.splitlines() if line.startswith(f"{which}:"))
    return bool(int(mask.split()[1], 16) >> (number - 1) & 1)


def test_signals_to_the_whole_step_leave_the_loaders_workers_alive(tmp_path: Path) -> None:
    """As Slurm does: every process of the step is signalled."""
    undisturbed = run(tmp_path / "undisturbed", STEPS, workers=2)
    others = set(children_of(os.getpid()))  # such as servers of other tests

    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == 2:
            step = set(children_of(os.getpid())) - others
            workers = [pid for pid in step if is_worker(pid)]
            assert len(workers) == 2
            wait_for(lambda: all(map(is_shielded, workers)), "the workers' shields")
            for number in (signal.SIGUSR1, signal.SIGTERM):
                for pid in (*step, os.getpid()):
                    os.kill(pid, number)

    with pytest.raises(SystemExit) as stopped:
        run(tmp_path / "stopped", STEPS, workers=2, at_step=at_step, snapshot_every=1)
    assert stopped.value.code == 143
    assert has(tmp_path / "stopped", 3)
    assert run(tmp_path / "stopped", STEPS, workers=2) == undisturbed


def shielded() -> None:
    shield_worker(0)
    signal.pause()


def test_a_shielded_worker_still_obeys_its_own_trainer() -> None:
    worker = multiprocessing.get_context("fork").Process(target=shielded)
    worker.start()
    wait_for(lambda: is_shielded(worker.pid), "the worker's shield")
    os.kill(worker.pid, signal.SIGUSR1)
    subprocess.run(["kill", "-TERM", str(worker.pid)], check=True)  # somebody else's
    # another one that came before it was taken would be one with it
    wait_for(lambda: not has_signal(worker.pid, "ShdPnd", signal.SIGTERM), "the signal to be taken")
    worker.terminate()
    worker.join(30)
    assert worker.exitcode == 0


ORPHANED = """
import os, signal, sys
from pathlib import Path
from gsched.testbed.wait import wait_for
from support.trainee import run

parent = os.getppid()

def at_step(ckpt):
    if ckpt.step == 3:
        os.kill(parent, signal.SIGKILL)
        wait_for(lambda: os.getppid() != parent, "its end")

try:
    run(Path(sys.argv[1]), 1000, at_step=at_step, snapshot_every=1)
except SystemExit as end:
    Path(sys.argv[1], "ended").write_text(str(end.code))
"""


def test_when_slurms_daemon_of_the_step_is_gone_it_saves_and_ends(tmp_path: Path) -> None:
    daemon = tmp_path / "slurmstepd"  # the kernel takes the name from the file
    daemon.symlink_to("/bin/sh")
    folder = tmp_path / "run"
    argv = [daemon, "-c", '"$0" -c "$1" "$2" & wait', sys.executable, ORPHANED, folder]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    with (tmp_path / "log").open("w") as log:
        subprocess.run(argv, env=environment, stdout=log, stderr=log, check=False, timeout=100)
    wait_for((folder / "ended").exists, "the orphan's end")
    assert (folder / "ended").read_text() == "143"
    assert manifest_of(folder, 4)["reason"] == "signal"
    assert "slurmstepd is gone" in (tmp_path / "log").read_text()
