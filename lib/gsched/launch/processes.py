"""Processes below this one, as /proc shows them: who descends from whom, who takes which signal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "ksh93", "mksh", "yash", "busybox"})


@dataclass(frozen=True, slots=True)
class Process:
    """One process. The masks are the kernel's: bit N-1 stands for signal N."""

    pid: int
    program: str
    """File name of the program that it runs; the kernel's short name where that is hidden."""
    is_zombie: bool
    caught: int
    blocked: int
    ignored: int

    def catches(self, number: int) -> bool:
        """Whether a handler is called for the signal."""
        return bool(self.caught >> (number - 1) & 1)

    def ignores(self, number: int) -> bool:
        """Whether the signal does nothing to it, as under nohup."""
        return bool(self.ignored >> (number - 1) & 1)

    def blocks(self, number: int) -> bool:
        """Whether the signal is kept from it, for good or until it waits for it (sigwait)."""
        return bool(self.blocked >> (number - 1) & 1)

    @property
    def is_shell(self) -> bool:
        """Whether it is a shell, which runs a trap only after its foreground command."""
        return self.program in _SHELLS


class Tree:
    """All processes of this machine, by parent, at one moment.

    They are read one after the other. Whoever had a parent that ended meanwhile has its next one.
    """

    def __init__(self) -> None:
        self._children: dict[int, list[int]] = defaultdict(list)
        parents = {pid: parent for pid in _pids() if (parent := _parent(pid)) is not None}
        for pid, parent in parents.items():
            if parent and parent not in parents:
                parent = _parent(pid) or 0
            if parent:
                self._children[parent].append(pid)

    def children(self, pid: int) -> list[int]:
        """The children of a process, in the order of their numbers."""
        return sorted(self._children.get(pid, ()))

    def below(self, pid: int) -> Iterator[int]:
        """All descendants of a process, parents first."""
        for child in self.children(pid):
            yield child
            yield from self.below(child)


def look_at(pid: int) -> Process | None:
    """A process now; None when it has gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    try:
        return Process(
            pid=pid,
            program=_program(pid) or fields["Name"],
            is_zombie=fields["State"].startswith(("Z", "X")),
            caught=int(fields["SigCgt"], 16),
            blocked=int(fields["SigBlk"], 16),
            ignored=int(fields["SigIgn"], 16),
        )
    except (KeyError, ValueError):  # it was ending while it was read
        return None


def _pids() -> Iterator[int]:
    return (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal())


def _parent(pid: int) -> int | None:
    """0 for the first of all; None for one that has gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name.removesuffix(" (deleted)")
    except OSError:
        return ""
