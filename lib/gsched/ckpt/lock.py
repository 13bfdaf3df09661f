"""One training run at a time in a folder of checkpoints: a lock on FOLDER/.lock.

Rank 0's trainer takes it, and its writer gets the same open file, so the kernel lets go of it when
the last of the two has ended. The file's content tells who that is; it stays.

A job that Slurm has started again takes it from its own earlier attempt, should that not let go: a
writer that hangs, or a node that Slurm has lost and that trains on. It puts a file of its own in
the place of the one that is locked, and the attempt before commits nothing more: `is_ours`.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path

from gsched.ckpt import layout, manifest
from gsched.ckpt.manifest import Job
from gsched.ckpt.patience import Patience
from gsched.errors import DataError, TryAgainError

TRAINING_WAIT_S = 30.0
"""For a run that trains still, as far as is known: its end may not have been noticed yet."""

OTHER_HOST_WAIT_S = 120.0
"""The same, of another host: a file server waits for one that has died (NFS: 90 s)."""

FINISHING_WAIT_S = 1800.0
"""For a writer that brings the last snapshot of a run that has ended to the disk."""

STILL_LIMIT_S = 120.0
"""For such a writer of an earlier attempt of the same job that writes nothing: it hangs."""

_SILENT_S = 1.0
"""Nothing is said of a shorter wait."""

_POLL_S = 0.2
_LOOK_S = 5.0
"""Between two looks at what a writer that is waited for has written."""

_MAX_BYTES = 4096
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,255}")
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_READ = os.O_RDONLY | _SAFELY


class Stage(StrEnum):
    """What the holder does."""

    TRAINING = "training"
    FINISHING = "finishing"
    """The trainer has ended, and its writer has not."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds it: a process, its host, and its Slurm job ("" outside of one).

    `restart` is how often Slurm had restarted the job.
    """

    host: str
    pid: int
    job: str = ""
    restart: int = 0
    stage: Stage = Stage.TRAINING

    @classmethod
    def this_process(cls, job: Job | None = None) -> Holder:
        """The trainer that asks."""
        name, restart = (job.id, job.restart) if job else ("", 0)
        return cls(socket.gethostname(), os.getpid(), name, restart)

    def succeeds(self, other: Holder) -> bool:
        """Whether `other` is of an earlier attempt of this one's job, which Slurm has ended."""
        return bool(self.job) and self.job == other.job and self.restart > other.restart

    @property
    def words(self) -> str:
        """``host n1, process 71, job 4711``."""
        job = f", job {self.job}" if self.job else ""
        return f"host {self.host}, process {self.pid}{job}"


class FolderLock:
    """It, held. `fd` is the open file, to be given to the writer."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def close(self) -> None:
        """This process needs it no more."""
        os.close(self.fd)


def take(
    folder: Path,
    holder: Holder,
    tell: Callable[[str], None],
    *,
    stopwatch: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> FolderLock | None:
    """Keep other runs out of the folder; None, said in words, where its file system has no locks.

    Waits for one that is ending, and says so; takes it from an earlier attempt of the same job that
    does not end. Raises TryAgainError where another run stays.
    """
    path = folder / layout.LOCK_NAME
    began, has_told = stopwatch(), False
    progress = _Progress(folder, stopwatch)
    while True:
        try:
            fd = _locked(path)
        except OSError as e:
            tell(f"{path} cannot be locked ({e.strerror}): nothing keeps another run out")
            return None
        if fd is not None:
            _put(fd, holder)
            return FolderLock(fd)
        other, waited_s = _read(path), stopwatch() - began
        if other is not None and _has_lost(other, holder, waited_s, progress):
            tell(
                f"an earlier attempt of this job ({other.words}) does not let go of {folder}, "
                f"{waited_s:.0f} s after Slurm has started this one: what it has not saved by now "
                "is not waited for"
            )
            return FolderLock(_put_in_place(path, holder))
        if waited_s >= _wait_s(other, holder):
            raise TryAgainError(
                f"{folder} is used by another training run ({_words(other)})",
                "give each run a folder of its own, as Checkpointer's argument or in "
                f"GSCHED_CHECKPOINT_DIR; if that one has ended with its host, remove {path}",
            )
        if waited_s >= _SILENT_S and not has_told:
            has_told = True
            is_finishing = other is not None and other.stage is Stage.FINISHING
            doing = "is still bringing a checkpoint to the disk" if is_finishing else "is at work"
            is_earlier = other is not None and holder.succeeds(other)
            run = "an earlier attempt of this job" if is_earlier else "another run"
            tell(f"{run} {doing} in {folder} ({_words(other)}): waiting for its end")
        sleep(_POLL_S)


def is_ours(fd: int, folder: Path) -> bool:
    """Whether nobody has taken the lock since; to be asked before a commit. Raises OSError.

    The file is opened anew, which asks the server, also on NFS.
    """
    try:
        other = os.open(folder / layout.LOCK_NAME, _READ)
    except FileNotFoundError:  # a person has removed it, and nobody has come since
        return True
    try:
        return os.path.samestat(os.fstat(fd), os.fstat(other))
    finally:
        os.close(other)


def note_finishing(fd: int) -> None:
    """By the writer: the trainer has ended, and this process still holds the lock."""
    with suppress(OSError):
        before = _decoded(os.pread(fd, _MAX_BYTES, 0)) or Holder.this_process()
        _put(fd, replace(before, pid=os.getpid(), stage=Stage.FINISHING))


def _locked(path: Path) -> int | None:
    """The file, open and locked; None while somebody else has it. OSError: there are no locks."""
    fd = _opened(path)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(fd), path.lstat()):  # else somebody has just removed it
            return fd
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        os.close(fd)
        raise
    os.close(fd)
    return None


def _opened(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o666)
    except PermissionError:  # another user has made it
        return os.open(path, _READ)


def _put_in_place(path: Path, holder: Holder) -> int:
    """A file of `holder`'s, open and locked, where another's was. Raises TryAgainError."""
    own = path.with_name(f"{layout.REMOVING_PREFIX}{path.name}-{secrets.token_hex(4)}")
    try:
        fd = os.open(own, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFELY, 0o666)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _put(fd, holder)
        own.rename(path)
    except OSError as e:
        raise TryAgainError(f"{path} cannot be replaced: {e.strerror}") from e
    return fd


class _Progress:
    """Whether anything is still written in a folder."""

    def __init__(self, folder: Path, stopwatch: Callable[[], float]) -> None:
        self._folder = folder
        self._stopwatch = stopwatch
        self._next_look = 0.0
        self._patience = Patience(STILL_LIMIT_S, stopwatch)
        self._seen: object = None

    def has_stopped(self) -> bool:
        """Whether nothing was for `STILL_LIMIT_S`, as far as this host can see."""
        if self._stopwatch() >= self._next_look:
            self._next_look = self._stopwatch() + _LOOK_S
            self._seen = _being_written(self._folder)
        return self._patience.is_over(self._seen)


def _being_written(folder: Path) -> list[tuple[str, int, int]]:
    """The files of checkpoints that are not committed yet: names, lengths, times."""
    found = []
    with suppress(OSError):
        partial = [p for p in folder.iterdir() if layout.parse_partial_name(p.name)]
        for path in (file for place in partial for file in place.iterdir()):
            status = path.stat(follow_symlinks=False)
            found.append((str(path), status.st_size, status.st_mtime_ns))
    return sorted(found)


def _has_lost(other: Holder, own: Holder, waited_s: float, progress: _Progress) -> bool:
    """Whether `other`, which holds the lock, is to have it no longer."""
    if not own.succeeds(other):
        return False
    if other.stage is Stage.TRAINING:
        return waited_s >= TRAINING_WAIT_S
    return waited_s >= FINISHING_WAIT_S or progress.has_stopped()


def _put(fd: int, holder: Holder) -> None:
    """Write who holds it; only a help for people."""
    with suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(asdict(holder)).encode() + b"\n", 0)


def _read(path: Path) -> Holder | None:
    """Who holds it; None where that cannot be known."""
    try:
        fd = os.open(path, _READ)
    except OSError:
        return None
    try:
        return _decoded(os.read(fd, _MAX_BYTES))
    except OSError:
        return None
    finally:
        os.close(fd)


def _decoded(data: bytes) -> Holder | None:
    """What a file says: anybody may have written it."""
    try:
        said = manifest.load_json_object(data, _MAX_BYTES)
        who = {key: said[key] for key in ("host", "pid", "job", "restart")}
        holder = Holder(**who, stage=Stage(said["stage"]))
    except (DataError, KeyError, ValueError):
        return None
    names = [holder.host, holder.job or "none"]
    is_sound = all(isinstance(name, str) and _NAME.fullmatch(name) for name in names)
    numbers = (holder.pid, holder.restart)
    return holder if is_sound and all(type(number) is int for number in numbers) else None


def _words(holder: Holder | None) -> str:
    return "which one is not known" if holder is None else holder.words


def _wait_s(other: Holder | None, own: Holder) -> float:
    """How long the other one may take to end."""
    if other is None:
        return OTHER_HOST_WAIT_S
    if other.stage is Stage.FINISHING:
        return FINISHING_WAIT_S
    if other.host != own.host:
        return OTHER_HOST_WAIT_S
    return 0.0 if other.pid == own.pid else TRAINING_WAIT_S
