"""Which checkpoint an evaluation job looks at: the same one at each of its attempts."""

from __future__ import annotations

import os
from pathlib import Path

from gsched.ckpt.catalogue import newest_valid
from gsched.errors import NoneValidError
from gsched.launch.job import Job, printable
from gsched.launch.job_notes import JobNote
from gsched.launch.say import say

VARIABLE = "GSCHED_EVAL_CHECKPOINT"


def note_of(job: Job, here: Path) -> JobNote:
    """What an attempt has chosen, in the job's own folder."""
    return JobNote.of(here, "evaluates", job)


def chosen(folder: Path, job: Job | None, here: Path) -> Path:
    """The newest valid checkpoint of `folder`, or what an earlier attempt of this job has chosen.

    Raises NoneValidError where none is valid, and what `newest_valid` raises where it cannot look.
    """
    note = None if job is None else note_of(job, here)
    earlier = None if note is None else note.read()
    if earlier:
        path = Path(os.fsdecode(earlier))
        if path.exists():
            return path
        say(f"{printable(str(path))}, which an earlier attempt evaluated, has gone: chooses anew")
    newest = newest_valid(here / folder).checkpoint
    if newest is None:
        raise NoneValidError(f"no valid checkpoint in {printable(str(here / folder))}")
    path = newest.path.absolute()
    if note is not None and not note.write(os.fsencode(path)):
        say("a requeued attempt chooses a checkpoint anew")
    return path
