"""What Slurm has asked of each node, what came of it, and whether suspending is stopped.

One file, replaced whole, in a folder of its own: a kill at any moment leaves the one before or the
one after. Everybody may read it; it holds no secrets. Changes are made under a lock, which the
kernel drops when its process dies, and a node is worked on under a lock of its own, which the
command that switches it holds as well: killed, gsched leaves it locked until that has ended.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched.files import give_to_owner_of_folder, read_bounded, write_atomically
from gsched.model.power import VERBS, Verb
from gsched.secret_files import mend_not_ours, why_not_ours

FORMAT = 1
MAX_FAILURES = 10_000
"""So many failures are kept, the newest: more than a cluster has nodes."""
MAX_ERROR_CHARS = 300
LOCK_WAIT_S = 5.0
KNOWN_ON_S = 3600.0
"""A resume says no longer than this that its node is on: when Slurm asks for it again later, it has
meanwhile asked for a suspend that nobody has written down."""
_POLL_S = 0.02
_MOST_BYTES = 64 * 1024**2
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}", re.ASCII)


def is_node_name(name: str) -> bool:
    """Whether a node can have this name; no other one becomes a file's name or a word sent."""
    return _NODE.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class Order:
    """What was last asked of a node: `verb` by the call `number`, and what came of it."""

    verb: Verb
    """A node that is resumed though it may never have gone off is restarted."""
    number: int
    at: float
    pid: int
    outcome: str = ""
    """done, failed, refused; "" while it is under way, or where its process was killed."""
    ended_at: float | None = None
    tries: int = 0
    error: str = ""
    """Why it failed; of a resume that is done, why the node was not restarted before."""
    was_done: bool = False
    """A back-end had done it, and yet the node did not come up."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A node that was given up, for an administrator to look at."""

    node: str
    verb: Verb
    at: float
    tries: int
    error: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """Since when and why nothing is suspended."""

    at: float
    why: str


@dataclass(frozen=True, slots=True)
class State:
    """Everything that is kept."""

    next_number: int = 1
    stopped: Stopped | None = None
    orders: Mapping[str, Order] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    counted_from: float = 0.0
    """Failures before this, when an administrator let suspending go on, do not stop it again."""
    cleared_at: Mapping[str, float] = field(default_factory=dict)
    """When an administrator had the failures of a node forgotten."""
    all_cleared_at: float = 0.0
    """When those of all nodes were."""

    @property
    def failed_nodes(self) -> frozenset[str]:
        """Nodes that are left for an administrator: `gsched power clear` forgets it."""
        return frozenset(failure.node for failure in self.failures)

    def last_cleared(self, node: str) -> float:
        """When an administrator last had the failures of a node forgotten; 0 = never."""
        return max(self.all_cleared_at, self.cleared_at.get(node, 0.0))

    @property
    def not_off(self) -> frozenset[str]:
        """Nodes that were to go off last and have not, as far as is known."""
        orders = self.orders.items()
        return frozenset(n for n, o in orders if o.verb == "suspend" and o.outcome != "done")

    def may_be_on(self, node: str, at: float) -> bool:
        """Whether a node that Slurm takes for off may be on, for all that is known of it.

        Where the last resume did not bring it up, the next one goes the other way about it.
        """
        order = self.orders.get(node)
        if order is None:
            return True
        if order.verb == "suspend":
            return order.outcome != "done"
        if order.was_done:
            return order.verb == "resume"
        if order.verb == "resume" and not order.outcome:
            return False  # interrupted, or under way
        return order.outcome != "done" or bool(order.error) or at - order.at > KNOWN_ON_S


class Store:
    """The folder: ``state.json``, the lock of its changes, and one lock a node in ``nodes``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "state.json"
        self._glanced: tuple[tuple[int, int], State] | None = None

    def read(self) -> State:
        """What is there; nothing where nothing is.

        Raises DataError for a file that is none of ours, PermissionDeniedError, UnavailableError.
        """
        try:
            data = read_bounded(self.file, _MOST_BYTES)
        except FileNotFoundError:
            return State()
        except PermissionError as error:
            raise PermissionDeniedError(f"cannot read {self.file}: {error.strerror}") from None
        except OSError as error:
            raise UnavailableError(f"cannot read {self.file}: {error.strerror}") from None
        try:
            return _state(json.loads(data))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(
                f"{self.file} is damaged: {error}",
                f"mv {self.file} away; what was asked and what failed is forgotten then",
            ) from None

    def glance(self) -> State:
        """What `read` gives, read again only where the file looks like another one.

        One that was replaced twice within a tick of the clock may be missed for that long.
        """
        try:
            found = self.file.stat()
        except OSError:
            return self.read()
        stamp = (found.st_ino, found.st_mtime_ns)
        glanced = self._glanced
        if glanced is None or glanced[0] != stamp:
            glanced = self._glanced = (stamp, self.read())
        return glanced[1]

    def change(self, do: Callable[[State], State], wait_s: float = LOCK_WAIT_S) -> State:
        """Replace what is there by what `do` makes of it, which is returned.

        Raises what `read` does; TryAgainError where another process keeps the lock for longer than
        `wait_s`; ConfigError for a folder that others can change, PermissionDeniedError for one
        that is somebody else's.
        """
        with _locked(self.folder / "state.lock", wait_s):
            before = self.read()
            after = do(before)
            if after != before:
                self._write(after)
        return after

    @contextmanager
    def working_on(self, node: str, wait_s: float) -> Iterator[int]:
        """Be the one that switches this node, by a lock whose descriptor a command may hold too.

        Raises TryAgainError after `wait_s` seconds.
        """
        with _locked(self.folder / "nodes" / node, wait_s) as fd:
            yield fd

    def begin_anew(self, at: float) -> Path:
        """Put a damaged file aside and stop suspending; where the old one lies now."""
        with _locked(self.folder / "state.lock", LOCK_WAIT_S):
            aside = self.file.with_name(f"state.json.damaged-{at:.0f}")
            try:
                self.file.replace(aside)
            except OSError as error:
                raise UnavailableError(f"cannot move {self.file}: {error.strerror}") from None
            why = f"the state was damaged; it is kept as {aside.name}"
            self._write(State(stopped=Stopped(at, why)))
        return aside

    def _write(self, state: State) -> None:
        for left_by_a_kill in self.folder.glob(f".{self.file.name}.*"):  # the lock is ours
            left_by_a_kill.unlink(missing_ok=True)
        document = {"format": FORMAT, **asdict(state)}
        write_atomically(self.file, json.dumps(document).encode() + b"\n", mode=0o644)


def bounded_error(text: str) -> str:
    """One line of bounded length, as it is kept."""
    return " ".join(text.split())[:MAX_ERROR_CHARS]


def _state(document: Mapping[str, Any]) -> State:
    if document["format"] != FORMAT:
        raise ValueError(f"it has the format {document['format']}, not {FORMAT}")
    stopped = document["stopped"]
    return State(
        next_number=int(document["next_number"]),
        stopped=None if stopped is None else _record(Stopped, stopped),
        orders={name: _record(Order, order) for name, order in document["orders"].items()},
        failures=tuple(_record(Failure, failure) for failure in document["failures"]),
        counted_from=float(document.get("counted_from", 0.0)),
        cleared_at={name: float(at) for name, at in document.get("cleared_at", {}).items()},
        all_cleared_at=float(document.get("all_cleared_at", 0.0)),
    )


_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,), "Verb": (str,), "int": (int,), "bool": (bool,), "float": (int, float),
    "float | None": (int, float, type(None)),
}  # fmt: skip


def _record(kind: Any, values: Mapping[str, Any]) -> Any:
    found: dict[str, Any] = {}
    for known in fields(kind):
        if known.name in values:
            value = values[known.name]
            if not isinstance(value, _TYPES[str(known.type)]):
                raise ValueError(f"{known.name} is {str(value)[:40]!r}")
            found[known.name] = value
    if found.get("verb", VERBS[0]) not in VERBS:
        raise ValueError(f"verb is {found['verb'][:40]!r}")
    return kind(**found)


@contextmanager
def _locked(path: Path, wait_s: float) -> Iterator[int]:
    fd = _open(path)
    try:
        give_up = time.monotonic() + wait_s
        while not _taken(fd):
            if time.monotonic() >= give_up:
                raise TryAgainError(
                    f"another gsched process keeps {path} locked for longer than {wait_s:g} s",
                    f"`fuser {path}` names it",
                )
            time.sleep(_POLL_S)
        try:
            yield fd
        finally:
            fcntl.flock(fd, fcntl.LOCK_UN)  # also where what a command left behind still holds it
    finally:
        os.close(fd)


def _taken(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make(folder: Path) -> None:
    """Where root makes one in SlurmUser's folder, it is SlurmUser's."""
    if folder.is_dir():
        return
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        give_to_owner_of_folder(fd, folder.parent)
    finally:
        os.close(fd)


def _open(path: Path) -> int:
    try:
        _make(path.parent)
        found = path.parent.stat()
        why = why_not_ours(found)
        if why and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionDeniedError(
                f"the folder {path.parent} is for root and its owner (uid {found.st_uid})",
                "run as root, or as SlurmUser",
            )
        if why:
            raise ConfigError(
                f"the folder {path.parent} cannot be trusted: {why}",
                mend_not_ours(path.parent, found),
            )
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(path, flags, 0o600)
    except PermissionError as error:
        raise PermissionDeniedError(
            f"cannot open {path}: {error.strerror}",
            "run as SlurmUser; the folder power.state_dir must be that user's",
        ) from None
    except OSError as error:
        raise UnavailableError(f"cannot open {path}: {error.strerror}") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise UnavailableError(f"{path} is no file")
        give_to_owner_of_folder(fd, path.parent)
    except (GschedError, OSError):
        os.close(fd)
        raise
    return fd
