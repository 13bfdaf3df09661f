"""Who takes a signal, while the processes that are asked end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gsched.launch import forwarding, processes
from gsched.launch.forwarding import Taken, forward
from gsched.launch.processes import Tree, look_at
from gsched.testbed.wait import wait_for

TRAINING = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: None)\n"
    "print(os.getpid(), flush=True)\n"
    "time.sleep(600)\n"
)


class Family:
    """A shell, and the training that it has started and waits for."""

    def __init__(self, folder: Path) -> None:
        script = folder / "training.py"
        script.write_text(TRAINING)
        argv = ["/bin/sh", "-c", f"{sys.executable} -I {script}; exit $?"]
        self.shell = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.shell.stdout is not None
        self.training = int(self.shell.stdout.readline())

    def end_shell(self) -> None:
        """The shell is a zombie, and the training goes on."""
        self.shell.kill()
        os.waitid(os.P_PID, self.shell.pid, os.WEXITED | os.WNOWAIT)

    def end(self) -> None:
        os.kill(self.training, signal.SIGKILL)
        self.shell.kill()
        self.shell.communicate()


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    made = Family(tmp_path)
    yield made
    made.end()


def sent_by_slurm() -> Taken:
    return forward(signal.SIGTERM, by_slurm=True, without=(), signal_steps=lambda _: None)


def test_a_training_takes_what_its_shell_does_not(family: Family) -> None:
    assert family.training in sent_by_slurm().pids
    assert family.shell.pid not in sent_by_slurm().pids


@pytest.mark.parametrize("is_reaped", [False, True])
def test_a_training_whose_shell_dies_of_the_signal_while_they_are_asked(
    family: Family, is_reaped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TreeBefore(Tree):
        """What was seen before the shell died."""

        def __init__(self) -> None:
            super().__init__()
            family.end_shell()
            if is_reaped:
                family.shell.wait()

    monkeypatch.setattr(forwarding, "Tree", TreeBefore)
    assert family.training in sent_by_slurm().pids


def test_a_process_whose_parent_ends_while_all_are_read_has_its_next_parent(
    family: Family, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids = processes._pids

    def child_first() -> Iterator[int]:
        yield family.training
        family.end_shell()
        family.shell.wait()
        wait_for(lambda: parent_of(family.training) != family.shell.pid, "another parent")
        yield from (pid for pid in pids() if pid != family.training)

    monkeypatch.setattr(processes, "_pids", child_first)
    tree = Tree()
    assert tree.children(family.shell.pid) == []
    assert family.training in tree.children(parent_of(family.training))


def parent_of(pid: int) -> int:
    assert look_at(pid) is not None
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))
