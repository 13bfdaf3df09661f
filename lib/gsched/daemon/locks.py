"""One daemon a cluster, one writer at a time, and the halt mark; all in the state folder.

The locks are flock(2)s: the kernel drops them when the process dies, however it dies.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gsched.errors import GschedError, PermissionDeniedError, TryAgainError, UnavailableError
from gsched.files import write_atomically


class LockFile:
    """An exclusive lock on a file, whose text says who holds it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def try_acquire(self, holder: dict[str, object]) -> bool:
        """Take the lock without waiting; `holder` is written into the file."""
        fd = _open(self._path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(holder).encode(), 0)
        self._fd = fd
        return True

    def release(self) -> None:
        """Give the lock back; the file stays, emptied."""
        if self._fd is not None:
            os.ftruncate(self._fd, 0)
            os.close(self._fd)
            self._fd = None

    def holder(self) -> dict[str, object] | None:
        """Who holds the lock now, None when nobody does."""
        if not self._path.exists():
            return None
        fd = _open(self._path, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.pread(fd, 4096, 0).decode(errors="replace")
            try:
                found = json.loads(text)
            except ValueError:
                found = None
            return found if isinstance(found, dict) else {}
        finally:
            os.close(fd)
        return None


def _open(path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> int:
    try:
        if flags & os.O_CREAT:
            path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    except PermissionError as e:
        raise PermissionDeniedError(
            f"cannot open {path}: {e.strerror}",
            "run as the user that owns gsched's state folder, or set state_dir in gsched.toml",
        ) from e
    except OSError as e:
        raise UnavailableError(f"cannot open {path}: {e.strerror}") from e


class StateDir:
    """The daemon's folder: ``leader.lock``, ``writer.lock``, ``halt``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.leader = LockFile(path / "leader.lock")
        self._writer = LockFile(path / "writer.lock")
        self._halt = path / "halt"

    @contextmanager
    def leading(self, holder: dict[str, object]) -> Iterator[None]:
        """Be the daemon of this cluster. Raises TryAgainError when another one is."""
        if not self.leader.try_acquire(holder):
            other = self.leader.holder() or {}
            raise TryAgainError(
                f"another gsched daemon is running (pid {other.get('pid', 'unknown')})",
                "one daemon a cluster: `gsched daemon status` shows it",
            )
        try:
            yield
        finally:
            self.leader.release()

    @contextmanager
    def writing(self, wait_s: float = 0.0) -> Iterator[None]:
        """Be the one who writes to Slurm now. Raises TryAgainError when somebody else does.

        A round takes a second or so; waits up to `wait_s` seconds for another one's to end.
        """
        give_up = time.monotonic() + wait_s
        while not self._writer.try_acquire({"pid": os.getpid()}):
            if time.monotonic() >= give_up:
                raise TryAgainError("another gsched process is writing to Slurm", "try again soon")
            time.sleep(0.05)
        try:
            yield
        finally:
            self._writer.release()

    def halt(self, text: str) -> None:
        """Make every daemon on this folder observe only, until `lift_halt`."""
        write_atomically(self._halt, text.encode(), mode=0o644)

    def halted(self) -> str | None:
        """Why acting is halted, None when it is not."""
        try:
            return self._halt.read_text(errors="replace").strip() or "no reason given"
        except FileNotFoundError:
            return None
        except OSError as e:
            raise GschedError(f"cannot read {self._halt}: {e.strerror}") from e

    def lift_halt(self) -> bool:
        """Let daemons act again; False when nothing was halted."""
        try:
            self._halt.unlink()
        except FileNotFoundError:
            return False
        return True
