"""One daemon a cluster, one writer at a time, and the halt mark; all in the state folder.

The locks are flock(2)s on files that only the folder's owner can open (any reader of a file can
lock it): the kernel drops them when the process dies, however it dies. Who leads is told to
everybody in ``leader.json``, which counts as long as the process that it names lives.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from gsched.errors import ConfigError, PermissionDeniedError, TryAgainError, UnavailableError
from gsched.files import give_to_owner_of_folder, read_bounded, write_atomically
from gsched.secret_files import mend_not_ours, why_not_ours

_POLL_S = 0.05
_MOST_BYTES = 1024


class StateDir:
    """The daemon's folder: ``leader.json``, ``halt``, and the locks leader, writer and model."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._halt = path / "halt"
        self._told = path / "leader.json"

    @contextmanager
    def leading(self, told: Mapping[str, object]) -> Iterator[None]:
        """Be the daemon of this cluster; `told` is what `leader` answers beside the pid.

        Raises TryAgainError when another one is.
        """
        with _locked(self.path / "leader.lock") as fd:
            if fd is None:
                pid = (self.leader() or {}).get("pid", "unknown")
                raise TryAgainError(
                    f"another gsched daemon is running (pid {pid})",
                    "one daemon a cluster: `gsched daemon status` shows it",
                )
            me = {"pid": os.getpid(), "born": _born(os.getpid()), **told}
            write_atomically(self._told, json.dumps(me).encode(), mode=0o644)
            try:
                yield
            finally:
                self._told.unlink(missing_ok=True)

    def leader(self) -> dict[str, Any] | None:
        """The daemon that runs (``pid`` and what it told), None when none does.

        Takes no lock. Raises PermissionDeniedError when the folder is closed to the caller.
        """
        try:
            found = json.loads(_read(self._told) or "null")
        except (ValueError, UnavailableError):
            return None
        if not isinstance(found, dict) or not isinstance(found.get("pid"), int):
            return None
        born = found.pop("born", None)
        return found if born is not None and _born(found["pid"]) == born else None

    @contextmanager
    def writing(self, wait_s: float = 0.0) -> Iterator[None]:
        """Be the one who writes to Slurm now. Raises TryAgainError when somebody else does.

        A round takes a second or so; waits up to `wait_s` seconds for another one's to end.
        """
        with self._alone("writer.lock", wait_s, "is writing to Slurm"):
            yield

    @contextmanager
    def changing_model(self, wait_s: float = 30.0) -> Iterator[None]:
        """Be the one who puts a run-time model in use now, as in `writing`: that copies a file."""
        with self._alone("model.lock", wait_s, "is putting a model in use"):
            yield

    @contextmanager
    def _alone(self, name: str, wait_s: float, doing: str) -> Iterator[None]:
        give_up = time.monotonic() + wait_s
        path = self.path / name
        while True:
            with _locked(path) as fd:
                if fd is not None:
                    with suppress(OSError):  # only tells others whom to look for
                        os.ftruncate(fd, 0)
                        os.pwrite(fd, str(os.getpid()).encode(), 0)
                    yield
                    return
            if time.monotonic() >= give_up:
                pid = (_read(path) or "").strip()
                raise TryAgainError(
                    f"another gsched process (pid {pid or 'unknown'}) {doing}",
                    f"try again soon; if it is stuck, `kill -9 {pid}` loses nothing" if pid else "",
                )
            time.sleep(_POLL_S)

    def halt(self, text: str) -> None:
        """Make every daemon on this folder observe only, until `lift_halt`."""
        write_atomically(self._halt, text.encode(), mode=0o644)

    def halted(self) -> str | None:
        """Why acting is halted, None when it is not. Raises PermissionDeniedError as `leader`.

        Whatever lies there halts, though it cannot be read.
        """
        try:
            text = _read(self._halt)
        except UnavailableError as error:
            return error.message
        return None if text is None else text.strip(" \t\r\n\0") or "no reason given"

    def lift_halt(self) -> bool:
        """Let daemons act again; False when nothing was halted."""
        try:
            self._halt.unlink()
        except FileNotFoundError:
            return False
        except OSError as e:
            raise PermissionDeniedError(f"cannot remove {self._halt}: {e.strerror}") from e
        return True


@contextmanager
def _locked(path: Path) -> Iterator[int | None]:
    """The lock's file descriptor, held for the block; None when somebody else has it."""
    try:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        _refuse_folder_of_others(path.parent)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except PermissionError as e:
        raise PermissionDeniedError(
            f"cannot open {path}: {e.strerror}",
            "run as the user that owns gsched's state folder, or set state_dir in gsched.toml",
        ) from e
    except OSError as e:
        raise UnavailableError(f"cannot open {path}: {e.strerror}") from e
    try:
        _own(fd, path)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield None
        else:
            yield fd
    finally:
        os.close(fd)


def _refuse_folder_of_others(folder: Path) -> None:
    """What lies in the folder decides what is written to Slurm. Raises ConfigError."""
    found = folder.stat()
    if why := why_not_ours(found):
        raise ConfigError(
            f"the state folder {folder} cannot be trusted: {why}", mend_not_ours(folder, found)
        )


def _own(fd: int, path: Path) -> None:
    """Let the folder's owner own the lock; never a file that has another name elsewhere."""
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise UnavailableError(
            f"{path} is no file of its own (a link to another one?)", f"look at it, then rm {path}"
        )
    give_to_owner_of_folder(fd, path.parent)


def _read(path: Path) -> str | None:
    try:
        return read_bounded(path, _MOST_BYTES).decode(errors="replace")
    except FileNotFoundError:
        return None
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot read {path}: {e.strerror}") from e
    except OSError as e:
        raise UnavailableError(f"cannot read {path}: {e.strerror}") from e


def _born(pid: int) -> int | None:
    """When a process started, in clock ticks since boot (proc(5)); None when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])
