"""What one attempt of a job leaves to the next: a small file in a folder that others may write too.

No link is followed, nobody is waited for (FIFOs), and what is not this user's alone, or is of
another job, is not believed. At a job's first start there is none: job ids come again.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gsched.errors import GschedError
from gsched.files import write_atomically
from gsched.launch.job import Job, printable
from gsched.launch.say import say

_MAX_BYTES = 8192  # a path of Linux has at most 4096
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class JobNote:
    """A note of this job's, of one kind. Its first line is the job's id, so that one of another
    job's, put here by somebody else, says nothing.
    """

    path: Path
    job: Job

    @classmethod
    def of(cls, folder: Path, kind: str, job: Job) -> JobNote:
        """That of a kind in a folder."""
        return cls(folder / f".gsched-{kind}-{job.job_id}", job)

    def read(self) -> bytes | None:
        """What an earlier attempt has left; None where none has, empty where what is there cannot
        be believed.
        """
        if not self.job.restarts:
            return None
        try:
            data = _read_own(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            say(f"{printable(str(self.path))} is left aside: {error.strerror}")
            return b""
        job_id, _, text = data.partition(b"\n")
        return text if job_id == self.job.job_id.encode() else b""

    def write(self, text: bytes) -> bool:
        """Leave it to the next attempt, in the place of whatever is there; whether it could be."""
        try:
            write_atomically(self.path, self.job.job_id.encode() + b"\n" + text, 0o600)
        except GschedError as error:
            say(printable(error.message))
            return False
        return True

    def forget(self) -> None:
        """The job has ended."""
        with suppress(OSError):
            self.path.unlink()


def _read_own(path: Path) -> bytes:
    fd = os.open(path, _OPEN)
    try:
        status = os.fstat(fd)
        if why := _why_not_own(status, path.parent):
            raise PermissionError(errno.EPERM, why)
        return os.read(fd, _MAX_BYTES)
    finally:
        os.close(fd)


def _why_not_own(status: os.stat_result, folder: Path) -> str:
    """Why a file is not as `write` leaves it; "" where it is."""
    if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
        return "it is no file of its own"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "others may write it"
    is_given_away = os.geteuid() == 0 and status.st_uid == folder.stat().st_uid
    if status.st_uid != os.geteuid() and not is_given_away:
        return f"it belongs to another user (uid {status.st_uid})"
    return ""
