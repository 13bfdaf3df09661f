"""Bringing a signal to those processes of the job that catch it, each once.

A process whose default would be to die of it never gets it. One that catches it is left to see to
what it has started itself (torchrun, mpirun, python), but for shells: they run a trap only when
their foreground command has ended, so what they have started is looked at as well. One that only
blocks it gets it where nobody below takes it: it may wait for it (a thread of its own, signalfd).

srun is no ordinary process: it passes USR1 and USR2 on to its tasks, shows its state at INT, and at
TERM, HUP and QUIT has the whole step killed at once. Slurm itself brings these to the step. Other
signals are not for steps, as without gsched.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field

from gsched.launch.processes import Process, Tree, look_at
from gsched.launch.shell_traps import Trap, trap_of

_SRUN = "srun"
_SRUN_PASSES_ON = frozenset({signal.SIGUSR1, signal.SIGUSR2})
_SLURM_PASSES_ON = frozenset({signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM})
_BLOCKED_FOR_GOOD_S = 0.02  # a process that is being started blocks all signals for a moment


@dataclass(slots=True)
class Taken:
    """Who has taken a signal: process ids, and whether some are tasks behind an srun."""

    pids: list[int] = field(default_factory=list)
    steps: bool = False
    names: set[str] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.pids) or self.steps

    def words(self) -> str:
        """Programs that have it, for a person."""
        return ", ".join(sorted(self.names))


def forward(
    number: int,
    *,
    by_slurm: bool,
    without: Collection[int],
    signal_steps: Callable[[int], None],
) -> Taken:
    """Bring a signal to all below this process but `without` and their descendants.

    With `by_slurm` Slurm has sent it to all of them already, and it is only found out who takes it.
    `signal_steps` has Slurm send it to the job's steps, where Slurm does not by itself.
    """
    return _Walk(number, by_slurm, without, signal_steps).run()


class _Walk:
    """One walk through the processes, parents first."""

    def __init__(
        self,
        number: int,
        by_slurm: bool,
        without: Collection[int],
        signal_steps: Callable[[int], None],
    ) -> None:
        self._number = number
        self._by_slurm = by_slurm
        self._without = without
        self._signal_steps = signal_steps
        self._tree = Tree()
        self._taken = Taken()
        self._is_behind_srun = False

    def run(self) -> Taken:
        self._below(os.getpid())
        if self._is_behind_srun:
            self._signal_steps(self._number)
            self._taken.steps = True
            self._taken.names.add(_SRUN)
        return self._taken

    def _below(self, pid: int) -> bool:
        """Whether any descendant has taken it."""
        takers = [child for child in self._tree.children(pid) if self._visit(child)]
        return bool(takers)

    def _visit(self, pid: int) -> bool:
        """Whether the process or one below it has taken it."""
        if pid in self._without:
            return False
        process = look_at(pid)
        if process is None or process.is_zombie:
            # Slurm's TERM reaches all at once: a shell may have died of it since the tree was read,
            # and its training saves
            return self._below(pid)
        if process.program == _SRUN:
            if self._number in _SRUN_PASSES_ON:
                return self._give(process)
            if self._number in _SLURM_PASSES_ON:
                self._is_behind_srun = True
            return self._number in _SLURM_PASSES_ON
        trap = self._trap(process)
        if trap is Trap.SET:
            given = self._give(process)
            return (process.is_shell and self._below(pid)) or given
        if trap is Trap.PERHAPS:  # of which the shell may end: not where its training is told
            return self._below(pid) or self._give(process)
        # one that blocks it may wait for it, but may as well only put it off, as unshare(1) does
        return self._below(pid) or (self._waits(process) and self._give(process))

    def _give(self, process: Process) -> bool:
        with suppress(OSError):  # gone, or a setuid program's
            if not self._by_slurm:
                os.kill(process.pid, self._number)
            self._taken.pids.append(process.pid)
            self._taken.names.add(process.program)
            return True
        return False

    def _trap(self, process: Process) -> Trap:
        if not process.catches(self._number):
            return Trap.NONE
        return trap_of(process, self._number) if process.is_shell else Trap.SET

    def _waits(self, process: Process) -> bool:
        if process.is_shell or not process.blocks(self._number):
            return False
        time.sleep(_BLOCKED_FOR_GOOD_S)
        again = look_at(process.pid)
        return again is not None and again.program == process.program and again.blocks(self._number)
