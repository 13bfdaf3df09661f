"""Exit codes as Slurm shows them, and what they mean in words."""

from __future__ import annotations

import re
import signal as signals
from typing import NamedTuple

from gsched.errors import DataError
from gsched.model.units import UNSET

OUT_OF_MEMORY_SIGNAL = 125
"""Not a signal: the number with which Slurm marks what the kernel ended for want of memory."""

_CODE = re.compile(r"(\d{1,10}):(\d{1,10})", re.ASCII)
_SHELL_SIGNAL = 128  # a shell exits with 128 + n when signal n has ended its command
_SHELL_WORDS = {126: "the command cannot be executed", 127: "the command was not found"}


class ExitCode(NamedTuple):
    """What a program returned, and the signal that ended it (0: none); None: not known (yet).

    An out-of-memory kill can stand behind ``0:125``, and a failed step behind a job's ``0:0``.
    """

    status: int | None
    signal: int | None

    def __str__(self) -> str:
        return "" if self.status is None else f"{self.status}:{self.signal or 0}"

    @property
    def is_out_of_memory(self) -> bool:
        """Whether Slurm saw the kernel end the program for want of memory."""
        return self.signal == OUT_OF_MEMORY_SIGNAL

    @property
    def words(self) -> str:
        """For people: ``exit code 1``, ``killed by SIGKILL``, ``out of memory``; "" for no code."""
        if self.status is None:
            return ""
        if self.is_out_of_memory:
            return "out of memory"
        if self.signal:
            return f"killed by {_signal_name(self.signal)}"
        meaning = _SHELL_WORDS.get(self.status, "")
        if _SHELL_SIGNAL < self.status < 2 * _SHELL_SIGNAL:
            meaning = f"killed by {_signal_name(self.status - _SHELL_SIGNAL)}"
        return f"exit code {self.status}" + (f": {meaning}" if meaning else "")


def _signal_name(number: int) -> str:
    try:
        return signals.Signals(number).name
    except ValueError:
        return f"signal {number}"


def parse_exit_code(text: str) -> ExitCode:
    """``3:0`` of sacct, squeue or scontrol, DerivedExitCode too; Nones where Slurm shows none.

    Raises DataError.
    """
    if text in UNSET:
        return ExitCode(None, None)
    match = _CODE.fullmatch(text)
    if match is None:
        raise DataError(f"not an exit code: {text[:60]!r}", "Slurm writes CODE:SIGNAL, as in 1:0")
    return ExitCode(int(match[1]), int(match[2]))
