"""`gsched power suspend`, `resume` and `resume-failed` as programs, for slurm.conf.

It takes a path and no words behind it.
"""

from __future__ import annotations

import sys

from gsched_cli.errors import guarded
from gsched_cli.main import run
from gsched_cli.output import open_closed_streams, speak_locale


def suspend() -> int:
    """SuspendProgram."""
    return _power("suspend", "--by-slurm")


def resume() -> int:
    """ResumeProgram."""
    return _power("resume", "--by-slurm")


def resume_failed() -> int:
    """ResumeFailProgram."""
    return _power("resume-failed")


def _power(*words: str) -> int:
    open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        speak_locale(stream)
    return guarded(lambda: run(["power", *words, *sys.argv[1:]]))
