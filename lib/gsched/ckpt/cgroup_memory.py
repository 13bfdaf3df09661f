"""How much more memory this process may use before its cgroup, or the host, has none left.

Shared memory counts against the job's memory as any other, and going over the limit means to be
killed: so one asks before. Files' pages in the cache are not counted as used, the kernel takes them
back; those of shared memory are.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

SPARE_FRACTION = 0.03
SPARE_MIN_BYTES = 64 * 2**20
"""What is left free: this part of the limit, at least so much."""

_UNLIMITED_BYTES = 2**60
"""cgroup v1 says "no limit" by a number close to 2^63."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One limit, in bytes: `used` of `limit`, and who sets it."""

    name: str
    limit: int
    used: int

    @property
    def headroom(self) -> int:
        """What may still be used, with some to spare."""
        spare = max(SPARE_MIN_BYTES, int(self.limit * SPARE_FRACTION))
        return max(0, self.limit - self.used - spare)


def tightest(root: Path = Path("/")) -> Bound | None:
    """The limit with the least headroom for this process; None where none can be read.

    `root` is where /proc and /sys lie. A limit of any group above counts as well.
    """
    bounds = [*_version_2(root), *_version_1(root), *_host(root)]
    return min(bounds, key=lambda b: b.headroom, default=None)


def _version_2(root: Path) -> Iterator[Bound]:
    for folder in _folders(root, "", ("sys/fs/cgroup", "sys/fs/cgroup/unified")):
        limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
        if limit is not None and used is not None:
            cached = _cached(folder, ("inactive_file", "active_file"))
            yield Bound(f"cgroup {folder}", limit, used - cached)


def _version_1(root: Path) -> Iterator[Bound]:
    for folder in _folders(root, "memory", ("sys/fs/cgroup/memory",)):
        limit = _number(folder / "memory.limit_in_bytes")
        used = _number(folder / "memory.usage_in_bytes")
        if limit is not None and used is not None and limit < _UNLIMITED_BYTES:
            cached = _cached(folder, ("total_inactive_file", "total_active_file"))
            yield Bound(f"cgroup {folder}", limit, used - cached)


def _host(root: Path) -> Iterator[Bound]:
    table = _table(root / "proc/meminfo", ":")
    if "MemTotal" in table and "MemAvailable" in table:
        total, available = table["MemTotal"] * 1024, table["MemAvailable"] * 1024
        yield Bound("the memory of this host", total, total - available)


def _folders(root: Path, controller: str, mounts: tuple[str, ...]) -> Iterator[Path]:
    """The process's group in this hierarchy and all above it, wherever that is mounted.

    In a container the path that the kernel tells may not be there; then what is mounted counts.
    """
    path = _own_path(root, controller)
    if path is None:
        return
    for mount in mounts:
        top = root / mount
        group = top / path.relative_to("/")
        while group != top:
            yield group
            group = group.parent
        yield top


def _own_path(root: Path, controller: str) -> PurePosixPath | None:
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(errors="replace").splitlines():
            number, _, rest = line.partition(":")
            names, _, path = rest.partition(":")
            is_it = controller in names.split(",") if controller else number == "0" and not names
            if is_it and path.startswith("/") and ".." not in path.split("/"):
                return PurePosixPath(path)
    return None


def _cached(folder: Path, keys: tuple[str, ...]) -> int:
    table = _table(folder / "memory.stat", " ")
    return sum(table.get(key, 0) for key in keys)


def _table(path: Path, separator: str) -> dict[str, int]:
    """Lines of a name and a number; empty where the file is not there."""
    table = {}
    with suppress(OSError):
        for line in path.read_text(errors="replace").splitlines():
            name, _, rest = line.partition(separator)
            words = rest.split()
            if words and words[0].isdecimal():
                table[name] = int(words[0])
    return table


def _number(path: Path) -> int | None:
    """A file with one number; None for "max", or where it is not there."""
    with suppress(OSError):
        text = path.read_text(errors="replace").strip()
        if text.isdecimal():
            return int(text)
    return None
