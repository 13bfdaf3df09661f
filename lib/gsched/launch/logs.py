"""Each attempt's output in a file of its own, beside the one that Slurm writes.

Others may write that folder too: no link is followed, no FIFO waited for, and nothing is written to
a file that is another user's.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from gsched.launch.job import Job, printable
from gsched.launch.say import say


def divert(job: Job) -> Path | None:
    """From now on standard output and error go to `<Slurm's file>.attempt-N`; gives that of output.

    Slurm's own file gets one line that says so. Where Slurm's output is no file (/dev/null, a
    pipe), or the new one cannot be made, all stays as it is and a line says that.
    """
    targets: dict[Path, list[int]] = {}
    for fd in (1, 2):
        path = _file_behind(fd)
        if path is not None:
            targets.setdefault(Path(f"{path}.attempt-{job.attempt}"), []).append(fd)
    if not targets:
        say("no log of this attempt alone: Slurm's output is no file")
        return None
    opened: list[tuple[int, list[int]]] = []
    for path, fds in targets.items():
        try:
            opened.append((_own_log(path), fds))
        except OSError as error:
            say(f"no log of this attempt alone: {printable(str(path))}: {error.strerror}")
            for fd, _ in opened:
                os.close(fd)
            return None
    names = " and ".join(printable(str(path)) for path in targets)
    say(f"{job.words()}: its output goes to {names}")
    for new, fds in opened:
        for fd in fds:
            os.dup2(new, fd)
        os.close(new)
    return next(iter(targets))


def _own_log(path: Path) -> int:
    """It, open to append to. Raises OSError where somebody else has put something there."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(path, flags, 0o666)
    status = os.fstat(fd)
    is_file = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
    if not is_file or status.st_uid != os.geteuid():
        os.close(fd)
        raise PermissionError(errno.EPERM, "it is no file of this user's own")
    os.set_blocking(fd, True)
    return fd


def _file_behind(fd: int) -> Path | None:
    """The file that a descriptor writes to; None for what is none, or has lost its name."""
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        path = Path(f"/proc/self/fd/{fd}").readlink()
        return path if path.samefile(f"/proc/self/fd/{fd}") else None
    except OSError:
        return None
