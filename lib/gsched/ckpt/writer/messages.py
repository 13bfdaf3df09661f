"""What trainer and writer say to each other: one JSON object a packet, both ways.

Both are the same user's, on one host, of one release of gsched.
"""

from __future__ import annotations

import json
import socket
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gsched.ckpt.manifest import Job, Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.errors import UnavailableError

MAX_MESSAGE_BYTES = 65_536
MAX_SLOTS = 8
_CONTROL_BYTES = socket.CMSG_SPACE((MAX_SLOTS + 2) * array("i").itemsize)


@dataclass(frozen=True, slots=True)
class Hello:
    """The trainer's first message; the descriptors of the wake pipe and the slots come with it.

    `has_lock`: between them, that of the folder's lock.
    """

    target: RunTarget
    flush_signals: tuple[int, ...]
    has_lock: bool = False


@dataclass(frozen=True, slots=True)
class Persist:
    """Write the snapshot of `step` (it lies in a slot) to the disk."""

    step: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Flush:
    """Write the newest complete snapshot that all ranks hold, unless it is on the disk."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Close:
    """Finish what was asked, then end: the trainer needs no flush."""


@dataclass(frozen=True, slots=True)
class EndListening:
    """To a listening writer: take no more trainers, and answer when those that are there ended."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The writer has the slots."""

    pid: int


@dataclass(frozen=True, slots=True)
class Closed:
    """The writer has done all that it was asked before `Close`, and ends."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about the writer itself for the log: it died and was started anew."""

    message: str


Outcome = Committed | Failed | Notice
Message = Hello | Persist | Flush | Close | EndListening | Ready | Closed | Outcome

_KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Hello, Persist, Flush, Close, EndListening),
        *(Ready, Closed, Committed, Failed, Notice),
    )
}


def send(
    connection: socket.socket, message: Message, fds: Sequence[int] = (), flags: int = 0
) -> None:
    """Send one message, with descriptors. Raises OSError."""
    document = {"kind": type(message).__name__, **asdict(message)}
    packet = json.dumps(document, default=str).encode("utf-8", "surrogatepass")
    # socket.send_fds and recv_fds ignore their flags in Python 3.11
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", fds))] if fds else []
    connection.sendmsg([packet], rights, flags)


def receive(connection: socket.socket) -> tuple[Message, list[int]] | None:
    """The next message and its descriptors; None when the other side has hung up.

    Raises BlockingIOError when there is none yet, UnavailableError for what is no message.
    """
    try:
        packet, control, _, _ = connection.recvmsg(
            MAX_MESSAGE_BYTES, _CONTROL_BYTES, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError:
        return None
    if not packet:
        return None
    try:
        document = json.loads(packet)
        return _message(document), _descriptors(control)
    except (ValueError, KeyError, TypeError) as e:
        raise UnavailableError(f"the other side sent no message: {e}") from None


def _descriptors(control: Sequence[tuple[int, int, bytes]]) -> list[int]:
    fds = array("i")
    for level, kind, data in control:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return fds.tolist()


def _message(document: dict[str, Any]) -> Message:
    kind = _KINDS[document.pop("kind")]
    if "reason" in document:
        document["reason"] = Reason(document["reason"])
    if kind is not Hello:
        return kind(**document)  # type: ignore[no-any-return]
    target = document["target"]
    target["folder"] = Path(target["folder"])
    target["job"] = Job(**target["job"]) if target["job"] else None
    target["versions"] = tuple((name, version) for name, version in target["versions"])
    return Hello(RunTarget(**target), tuple(document["flush_signals"]), document["has_lock"])
