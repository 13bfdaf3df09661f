"""A folder of checkpoints for each training of a job, below the one that the job was given.

A script may train more than once: pretraining and fine-tuning, folds, two in the background. What
the batch process sets for the whole script is one folder, so that the trainings are told apart by
the folder that each names to its Checkpointer. The first that comes has the job's folder itself,
now and after each requeue; another one has ``training-NAME`` in it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import stat
import tempfile
from pathlib import Path
from urllib.parse import quote

from gsched.ckpt.disk import RealDisk, make_folders

_log = logging.getLogger("gsched.checkpoint")

FIRST = ".first-training"
"""The file with the folder's name that the first training has given."""

_OTHER = "training-"
_MAX_NAME_BYTES = 200
_MAX_READ_BYTES = 1 << 16
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def of_training(job_folder: Path, given: str) -> Path:
    """Where the training that names the folder `given` ("": none) has its checkpoints.

    The job's folder itself where nothing can be written there: to say so is another's part.
    """
    name = os.path.normpath(given) if given else ""
    try:
        make_folders(RealDisk(), job_folder)
        first = _claim(job_folder, name)
    except OSError:
        return job_folder
    return job_folder if first == name else job_folder / _folder_name(name)


def tell_start(folder: Path, step: int | None) -> None:
    """Log from which step a training goes on, and from where; `step` None: it begins.

    A name with the time in it is another one after each requeue: that begins anew each time, which
    a person should hear of.
    """
    if step is not None:
        _log.info("going on after step %s, from %s", f"{step:,}", folder)
    elif folder.name.startswith(_OTHER) and (folder.parent / FIRST).exists():
        _log.warning(
            "another training of this job has %s; this one begins, in %s: to go on after a "
            "requeue, it has to name the same folder each time",
            folder.parent,
            folder.name,
        )


def _claim(job_folder: Path, name: str) -> str:
    """The name of the first training; `name`, where nobody has come before.

    All ranks come with one name. A link is made or not made, so that nobody reads half of it.
    """
    if (first := _read(job_folder / FIRST)) is not None:
        return first
    fd, draft = tempfile.mkstemp(prefix=f"{FIRST}-", dir=job_folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(os.fsencode(name))
            file.flush()
            os.fsync(file.fileno())
        Path(job_folder / FIRST).hardlink_to(draft)
    except FileExistsError:
        first = _read(job_folder / FIRST)
        return name if first is None else first
    finally:
        Path(draft).unlink(missing_ok=True)
    return name


def _read(path: Path) -> str | None:
    """What the file says; None where there is none. OSError for what is no file of the user's."""
    try:
        fd = os.open(path, _OPEN)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(f"{path} is not this user's file")
        return os.fsdecode(file.read(_MAX_READ_BYTES))


def _folder_name(name: str) -> str:
    shown = quote(os.fsencode(name), safe="")
    if len(shown) > _MAX_NAME_BYTES:
        shown = hashlib.sha256(os.fsencode(name)).hexdigest()
    return f"{_OTHER}{shown}"
