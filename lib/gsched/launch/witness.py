"""A child outside the script: it tells whom a signal has reached, and outlives this process.

Where ProctrackType is no cgroup, Slurm sends the signals of a job's end to everything below the
batch process; else, and at `--signal=B:`, to that alone. A child in a session of its own, which
only notes what it is sent, tells which it was: nobody shall get a signal twice.

The script has a process group of its own, as it has without gsched (`kill 0` and `kill -- -$$` in
it mean itself). Where ProctrackType is pgid, Slurm then kills this process alone: the child sees to
it that neither the script nor the job's private folder stays.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import signal
import struct
from contextlib import suppress
from pathlib import Path
from typing import Self

from gsched.launch import private_folder
from gsched.launch.child_process import Children
from gsched.launch.signals import FORWARDED

_PARENT_DIED = signal.SIGALRM  # any would do: who gets it looks whether the parent is there
_SETTLE_MS = 100  # between the first and the last process that one scancel signals
_PR_SET_PDEATHSIG = 1  # see prctl(2)
_PID = struct.Struct("=i")


class Witness:
    """The child, from its start to the end of the `with` block."""

    def __init__(self, children: Children, folder: Path | None) -> None:
        """Fork it. The forwarded signals have to be blocked already. `folder`: the job's own."""
        self._children = children
        self._script = mmap.mmap(-1, _PID.size)
        self._pipe, theirs = os.pipe()
        self._seen: set[int] = set()
        parent = os.getpid()
        self.pid = os.fork()
        if self.pid == 0:
            _live(parent, theirs, self._script, folder)
        os.close(theirs)

    def guard(self, script: int) -> None:
        """Have it kill this process group when this process has been killed."""
        _PID.pack_into(self._script, 0, script)

    def saw(self, number: int) -> bool:
        """Whether it was sent a signal that this process has just been sent, and so all were."""
        poll = select.poll()
        poll.register(self._pipe, select.POLLIN)
        while number not in self._seen and poll.poll(_SETTLE_MS):
            seen = os.read(self._pipe, 4096)
            if not seen:  # it has been killed
                break
            self._seen.update(seen)
        was_seen = number in self._seen
        self._seen.discard(number)
        return was_seen

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._children.status_of(self.pid) is None:  # else the number may be another's by now
            os.kill(self.pid, signal.SIGKILL)


def _live(parent: int, pipe: int, script: mmap.mmap, folder: Path | None) -> None:
    """The child's life; it uses no processor time."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, _PARENT_DIED, 0, 0, 0)
        os.setsid()
        while os.getppid() == parent:
            number = signal.sigwait(FORWARDED)
            if os.getppid() == parent:
                os.write(pipe, bytes([number]))
        (group,) = _PID.unpack_from(script)
        if group:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        if folder is not None:
            private_folder.remove(folder)
    finally:
        os._exit(0)
