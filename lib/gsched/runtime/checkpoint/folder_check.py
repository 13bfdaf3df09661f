"""Whether the folder of checkpoints can be made, and written: asked once, before training starts.

What is wrong is said in words for a person: "" where all is well.
"""

from __future__ import annotations

import logging
import os
import tempfile
from pathlib import Path

from gsched.ckpt.disk import RealDisk, make_folders
from gsched.errors import UnavailableError
from gsched.runtime.checkpoint.ranks import Ranks

_log = logging.getLogger("gsched.checkpoint")

_PROBE_BYTES = 4096
"""Enough for a file system that is full to say so."""


def prepare(folder: Path, ranks: Ranks) -> None:
    """Make it, with all ranks. UnavailableError where that fails.

    A warning where it cannot be written: that may be mended while training runs.
    """
    problem = ranks.from_first("" if ranks.rank else make_problem(folder))
    if problem:
        raise UnavailableError(problem, "give another folder, or see to its permissions")
    problems = [p for p in ranks.gather(write_problem(folder)) if p]
    if problems and ranks.rank == 0:
        _log.warning("no checkpoint can be saved: %s; each interval tries again", problems[0])


def make_problem(folder: Path) -> str:
    """Make the folder; what is wrong where it cannot be made."""
    try:
        make_folders(RealDisk(), folder)
    except OSError as e:
        return f"cannot make {folder}: {e.strerror}"
    return ""


def write_problem(folder: Path) -> str:
    """Write a little, durably, to a file without a name; what is wrong where that fails.

    Nothing is left behind, whenever this process is killed.
    """
    try:
        with tempfile.TemporaryFile(prefix=".probe-", dir=folder, buffering=0) as file:
            file.write(bytes(_PROBE_BYTES))
            os.fsync(file.fileno())
    except OSError as e:
        return f"{folder} cannot be written: {e.strerror}"
    return ""
