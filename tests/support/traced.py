"""A real process under strace(1): what it asked of the disk, with errors or SIGKILL where wanted.

Needs no cooperation of the program: whatever reaches the kernel is seen, and nothing else counts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from support.power_cut import (
    Create,
    FailedSync,
    MakeFolder,
    Operation,
    Remove,
    Rename,
    SyncFile,
    SyncFolder,
    Told,
    Write,
)

DISK_CALLS = (
    "openat,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,truncate,fallocate,lseek,"
    "fsync,fdatasync,sync_file_range,syncfs,rename,renameat,renameat2,mkdir,mkdirat,unlink,"
    "unlinkat,rmdir,link,linkat,symlink,symlinkat,mknodat,copy_file_range,sendfile,splice,mmap"
)
SEND_CALLS = "sendto,sendmsg"
MOST_BYTES = 1 << 20
"""Longest data of one call that strace writes down whole."""

_LINE = re.compile(r"(?P<pid>\d+) +(?P<when>\d+\.\d+) (?P<rest>.*)")
_CALL = re.compile(
    r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)(?P<more>.*)", re.DOTALL
)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_PLACE = re.compile(r"^(?:-?\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>")


def strace(log: Path, *inject: str) -> list[str]:
    """The words to put before a command: its calls go to `log`; `inject` as strace wants it.

    Such as ``fsync:error=EIO:when=2`` or ``rename:signal=KILL:when=1``.
    """
    words = ["strace", "-f", "-ttt", "-y", "-xx", "-s", str(MOST_BYTES), "-o", str(log)]
    words += ["-e", f"trace={DISK_CALLS},{SEND_CALLS}", "-e", "signal=none"]
    for fault in inject:
        words += ["-e", f"inject={fault}"]
    return words


@dataclass(frozen=True)
class Call:
    """One system call that has returned."""

    when: float
    """Epoch seconds at its entry."""
    pid: int
    name: str
    arguments: str
    result: int

    @property
    def texts(self) -> list[bytes]:
        """The strings among the arguments (paths and data)."""
        found = []
        for text, cut in _TEXT.findall(self.arguments):
            assert not cut, "strace has cut a string"
            found.append(_bytes(text))
        return found

    @property
    def place(self) -> str:
        """The path of the descriptor that is the first argument; "" without one."""
        found = _PLACE.match(self.arguments)
        return _bytes(found[1]).decode() if found else ""


def calls(log: Path) -> list[Call]:
    """What a log of strace holds, as the calls returned."""
    found: list[Call] = []
    begun: dict[str, tuple[float, str]] = {}
    for line in log.read_text().splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        pid, when, rest = match["pid"], float(match["when"]), match["rest"]
        if rest.endswith("<unfinished ...>"):
            begun[pid] = (when, rest.removesuffix("<unfinished ...>"))
            continue
        if resumed := _RESUMED.fullmatch(rest):
            when, start = begun.pop(pid)
            rest = start + resumed[2]
        if call := _CALL.fullmatch(rest):
            found.append(
                Call(
                    when,
                    int(pid),
                    call["name"],
                    call["arguments"],
                    int(call["result"]),
                )
            )
    return found


class Reading:
    """Turns calls into operations of the power-cut model, for all that lies below `root`."""

    def __init__(self, root: Path, start: Iterable[str] = ()) -> None:
        """`start` are the files that were there before."""
        self._root = f"{root}/"
        self._known = set(start)
        self._positions: dict[str, int] = {}

    def operations(self, made: Iterable[Call]) -> list[tuple[float, Operation]]:
        """When each operation was asked for, and which it was.

        Of the calls that failed only an fsync(2) has changed anything.
        """
        found = []
        for call in made:
            if call.result >= 0:
                found += [(call.when, operation) for operation in self._operation(call)]
            elif call.name in ("fsync", "fdatasync"):
                path = self._below(call.place.encode())
                if path in self._known:
                    found.append((call.when, FailedSync(path)))
        return found

    def _operation(self, call: Call) -> list[Operation]:
        match call.name:
            case "openat" | "creat":
                return self._open(call)
            case "write" | "pwrite64":
                return self._write(call)
            case "lseek":
                fd = call.arguments.split("<")[0]
                self._positions[fd] = call.result
                return []
            case "fsync" | "fdatasync":
                return self._sync(call)
            case "rename" | "renameat" | "renameat2":
                old, new = (self._below(text) for text in call.texts)
                return self._renamed(old, new)
            case "mkdir" | "mkdirat":
                path = self._below(call.texts[0])
                return [] if path is None else [MakeFolder(path)]
            case "unlink" | "unlinkat" | "rmdir":
                path = self._below(_joined(call))
                self._known.discard(path or "")
                return [] if path is None else [Remove(path)]
            case "mmap":
                ours = "MAP_SHARED" in call.arguments and "PROT_WRITE" in call.arguments
                assert not (ours and self._root.encode().hex() in _hex(call.arguments)), call
                return []
            case "sendto" | "sendmsg":
                return []
            case _:
                touched = [self._below(text) for text in [*call.texts, call.place.encode()]]
                assert not any(touched), f"the model does not know {call.name}"
                return []

    def _open(self, call: Call) -> list[Operation]:
        path = self._below(_joined(call))
        if path is None:
            return []
        if "O_DIRECTORY" not in call.arguments:
            self._positions[str(call.result)] = 0
        if "O_CREAT" not in call.arguments or path in self._known:
            assert "O_TRUNC" not in call.arguments, f"{path}: the model knows no truncation"
            assert "O_APPEND" not in call.arguments, f"{path}: the model knows no appending"
            return []
        self._known.add(path)
        return [Create(path)]

    def _write(self, call: Call) -> list[Operation]:
        path = self._below(call.place.encode())
        if path is None or not call.result:
            return []
        data = call.texts[0][: call.result]
        if call.name == "pwrite64":
            return [Write(path, int(call.arguments.rsplit(",", 1)[1], 0), data)]
        key = call.arguments.split("<")[0]
        offset = self._positions[key]
        self._positions[key] = offset + call.result
        return [Write(path, offset, data)]

    def _sync(self, call: Call) -> list[Operation]:
        path = self._below(call.place.encode())
        if path is None:
            return []
        return [SyncFile(path) if path in self._known else SyncFolder(path)]

    def _renamed(self, old: str | None, new: str | None) -> list[Operation]:
        if old is None and new is None:
            return []
        assert old is not None, "nothing comes from outside"
        assert new is not None, "nothing leaves"
        for path in list(self._known):
            if path == old or path.startswith(f"{old}/"):
                self._known.discard(path)
                self._known.add(new + path[len(old) :])
        return [Rename(old, new)]

    def _below(self, path: bytes) -> str | None:
        """`path` relative to the root ("" for the root itself); None when it lies elsewhere."""
        text = f"{path.decode()}/"
        return text.removeprefix(self._root).rstrip("/") if text.startswith(self._root) else None


def merged(
    logs: Iterable[Sequence[tuple[float, Operation]]], told: Iterable[tuple[float, Told]] = ()
) -> list[Operation]:
    """The operations of several processes, and what they told, in the order of time."""
    everything: list[tuple[float, Operation]] = [*told]
    for log in logs:
        everything += log
    return [operation for _, operation in sorted(everything, key=lambda pair: pair[0])]


def _joined(call: Call) -> bytes:
    """The path of an \\*at call, which may be relative to a descriptor."""
    return os.fsencode(Path(call.place) / os.fsdecode(call.texts[0]))


def _bytes(text: str) -> bytes:
    return bytes.fromhex(text.replace("\\x", ""))


def _hex(text: str) -> str:
    return text.replace("\\x", "")
