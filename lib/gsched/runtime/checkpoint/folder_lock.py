"""One run at a time in a folder, and who of its ranks is there: locks that all ranks hold."""

from __future__ import annotations

import logging
from pathlib import Path

from gsched.ckpt import lock, presence
from gsched.ckpt.lock import FolderLock, Holder
from gsched.ckpt.manifest import Job
from gsched.errors import GschedError, TryAgainError
from gsched.runtime.checkpoint.ranks import Ranks

_log = logging.getLogger("gsched.checkpoint")


def hold(folder: Path, run: str, job: Job | None, ranks: Ranks) -> FolderLock | None:
    """A rank's lock, where the file system has locks: rank 0's is that of the folder.

    All ranks wait for a run that is ending. Raises TryAgainError on all of them where another run
    uses the folder. `run` is the token of this one.
    """
    held, problem = None, []
    if ranks.rank == 0:
        try:
            held = lock.take(folder, Holder.this_process(job), _log.warning)
        except GschedError as e:
            problem = [e.message, e.hint]
    problem = ranks.from_first(problem)
    if problem:
        raise TryAgainError(*problem)
    return held if ranks.rank == 0 else presence.hold(folder, run, ranks.rank)
