"""A model of what a power cut may leave on a disk, from a log of what was asked of it.

POSIX promises little: what was written is there after fsync(2) of the file, a name is there after
fsync of its folder, and a rename within a file system happens or does not. Whatever has not been
synced may be there, or not, or in part, in any combination. File systems keep more than that (a
journal keeps the order of names), so that what holds for every state here holds on all of them.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

SUBSETS_UP_TO = 6
"""Of so many unsynced names all combinations are tried; of more, the telling ones (`_subsets`)."""


@dataclass(frozen=True)
class Create:
    """A new empty file `path` (all paths are relative to the recorded folder)."""

    path: str


@dataclass(frozen=True)
class Write:
    """`data` at `offset` of a file."""

    path: str
    offset: int
    data: bytes = field(repr=False)


@dataclass(frozen=True)
class SyncFile:
    """fsync(2) of a file."""

    path: str


@dataclass(frozen=True)
class FailedSync:
    """fsync(2) of a file that failed: the kernel forgets what it could not write.

    A later fsync succeeds and saves nothing of it, though the program still reads it.
    """

    path: str


@dataclass(frozen=True)
class SyncFolder:
    """fsync(2) of a folder."""

    path: str


@dataclass(frozen=True)
class MakeFolder:
    """mkdir(2)."""

    path: str


@dataclass(frozen=True)
class Rename:
    """rename(2): replaces a file, or an empty folder, at `new`."""

    old: str
    new: str


@dataclass(frozen=True)
class Remove:
    """unlink(2) or rmdir(2)."""

    path: str


@dataclass(frozen=True)
class Told:
    """Not of the disk: what the recorded program has told its caller at this moment."""

    what: str
    step: int


Operation = (
    Create | Write | SyncFile | FailedSync | SyncFolder | MakeFolder | Rename | Remove | Told
)
Tree = Mapping[str, bytes | None]
"""Path to contents; None for a folder."""


@dataclass
class _File:
    durable: bytes = b""
    unsynced: list[tuple[int, bytes]] = field(default_factory=list)
    now: bytes = b""

    def write(self, offset: int, data: bytes) -> None:
        self.unsynced.append((offset, data))
        self.now = _written(self.now, offset, data)

    def sync(self) -> None:
        self.durable = self.contents("kept")
        self.unsynced.clear()

    def contents(self, fate: str) -> bytes:
        """What is left when what has not been synced has met `fate`, one of FATES."""
        data = self.durable
        last = len(self.unsynced) - 1
        for number, (offset, written) in enumerate(self.unsynced):
            if fate == "lost":
                break
            if fate == "torn" and number == last:
                written = written[: len(written) // 2]
            elif fate == "zeros":  # the new length is there, the data is not
                written = bytes(len(written))
            data = _written(data, offset, written)
        return data


FATES = ("lost", "kept", "torn", "zeros")


@dataclass
class _Folder:
    durable: dict[str, int] = field(default_factory=dict)
    now: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _NameChange:
    """Names that change together; durable once `synced_by`, a folder's number, is synced."""

    synced_by: int
    names: tuple[tuple[int, str, int | None], ...]
    """(folder, name, what it names from now on)."""


class Volume:
    """The disk: what a program sees of it now, and what a cut may leave of it.

    Files and folders are numbered as inodes are; names are apart from contents. `start` is on the
    disk already, durably.
    """

    def __init__(self, start: Tree) -> None:
        self._nodes: dict[int, _File | _Folder] = {0: _Folder()}
        self._changes: list[_NameChange] = []
        for path in sorted(start):
            data = start[path]
            for operation in [MakeFolder(path)] if data is None else _new_file(path, data):
                self.do(operation)
        for path in ["", *(p for p in start if start[p] is None)]:
            self.do(SyncFolder(path))

    def do(self, operation: Operation) -> None:
        """Let the program's next operation happen."""
        match operation:
            case Create(path):
                self._add(path, _File())
            case MakeFolder(path):
                self._add(path, _Folder())
            case Write(path, offset, data):
                self._file(path).write(offset, data)
            case SyncFile(path):
                self._file(path).sync()
            case FailedSync(path):
                self._file(path).unsynced.clear()
            case SyncFolder(path):
                self._sync_folder(self._number(path))
            case Rename(old, new):
                self._rename(old, new)
            case Remove(path):
                parent, name = self._parent(path)
                self._change(parent, ((parent, name, None),))
            case Told():
                pass

    def after_a_cut(self) -> Iterator[Tree]:
        """Every state to which the power may be cut now (some of them may be the same)."""
        dirty = [n for n, node in self._nodes.items() if isinstance(node, _File) and node.unsynced]
        fates = list(_fates(dirty))
        for survivors in _subsets(self._changes):
            names = {n: dict(f.durable) for n, f in self._nodes.items() if isinstance(f, _Folder)}
            for change in survivors:
                for folder, name, node in change.names:
                    _set(names[folder], name, node)
            for fate in fates:
                yield self._tree(names, fate)

    def now(self) -> Tree:
        """What the program itself would read."""
        names = {n: f.now for n, f in self._nodes.items() if isinstance(f, _Folder)}
        return self._tree(names, None)

    def _tree(self, names: dict[int, dict[str, int]], fate: Mapping[int, str] | None) -> Tree:
        tree: dict[str, bytes | None] = {}
        waiting = [("", 0)]
        while waiting:
            prefix, folder = waiting.pop()
            for name, number in names[folder].items():
                node = self._nodes[number]
                if isinstance(node, _Folder):
                    tree[prefix + name] = None
                    waiting.append((f"{prefix}{name}/", number))
                elif fate is None:
                    tree[prefix + name] = node.now
                else:
                    tree[prefix + name] = node.contents(fate.get(number, "kept"))
        return tree

    def _add(self, path: str, node: _File | _Folder) -> None:
        number = len(self._nodes)
        self._nodes[number] = node
        parent, name = self._parent(path)
        self._change(parent, ((parent, name, number),))

    def _rename(self, old: str, new: str) -> None:
        source, source_name = self._parent(old)
        target, target_name = self._parent(new)
        moved = self._number(old)
        self._change(target, ((source, source_name, None), (target, target_name, moved)))

    def _change(self, synced_by: int, names: tuple[tuple[int, str, int | None], ...]) -> None:
        self._changes.append(_NameChange(synced_by, names))
        for folder, name, node in names:
            _set(self._folder(folder).now, name, node)

    def _sync_folder(self, number: int) -> None:
        for change in self._changes:
            if change.synced_by == number:
                for folder, name, node in change.names:
                    _set(self._folder(folder).durable, name, node)
        self._changes = [c for c in self._changes if c.synced_by != number]

    def _folder(self, number: int) -> _Folder:
        node = self._nodes[number]
        assert isinstance(node, _Folder)
        return node

    def _number(self, path: str) -> int:
        number = 0
        for name in Path(path).parts:
            number = self._folder(number).now[name]
        return number

    def _parent(self, path: str) -> tuple[int, str]:
        where = Path(path)
        return self._number(str(where.parent)), where.name

    def _file(self, path: str) -> _File:
        node = self._nodes[self._number(path)]
        assert isinstance(node, _File)
        return node


@dataclass(frozen=True)
class Cut:
    """One state that a cut may leave, and what the program had told before."""

    after: int
    """How many operations of the log had been asked for."""
    tree: Tree
    told: tuple[Told, ...]


def cuts(log: Iterable[Operation], start: Tree) -> Iterator[Cut]:
    """Every distinct state after every prefix of `log`, the empty one too."""
    volume = Volume(start)
    told: list[Told] = []
    seen: set[bytes] = set()
    for number, operation in enumerate(itertools.chain([None], log)):
        if isinstance(operation, Told):
            told.append(operation)
        elif operation is not None:
            volume.do(operation)
        for tree in volume.after_a_cut():
            key = _key(tree, len(told))
            if key not in seen:
                seen.add(key)
                yield Cut(number, tree, tuple(told))


def tree_of(root: Path) -> dict[str, bytes | None]:
    """What lies below a real folder."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
    }


def materialise(tree: Tree, root: Path) -> None:
    """Make the files and folders of `tree` below `root`."""
    for path in sorted(tree):  # a folder comes before what is in it
        contents = tree[path]
        if contents is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(contents)


def _new_file(path: str, data: bytes) -> list[Operation]:
    return [Create(path), Write(path, 0, data), SyncFile(path)]


def _written(data: bytes, offset: int, more: bytes) -> bytes:
    """`data` with `more` at `offset`; a gap before it reads as zeros."""
    return data[:offset].ljust(offset, b"\0") + more + data[offset + len(more) :]


def _set(names: dict[str, int], name: str, node: int | None) -> None:
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def _fates(dirty: list[int]) -> Iterator[dict[int, str]]:
    """The same for all files, and one file apart from the others."""
    for common in FATES:
        yield dict.fromkeys(dirty, common)
    if len(dirty) > 1:
        for number, common, own in itertools.product(dirty, FATES, FATES):
            if own != common:
                yield {**dict.fromkeys(dirty, common), number: own}


def _subsets(changes: list[_NameChange]) -> Iterator[list[_NameChange]]:
    """Which changes of names have survived: all combinations of few, else the telling ones."""
    count = len(changes)
    if count <= SUBSETS_UP_TO:
        for mask in itertools.product((False, True), repeat=count):
            yield list(itertools.compress(changes, mask))
        return
    for length in range(count + 1):  # a journal keeps their order
        yield changes[:length]
    for one in range(count):
        yield [changes[one]]
        yield changes[:one] + changes[one + 1 :]


def _key(tree: Tree, told: int) -> bytes:
    digest = hashlib.blake2b(str(told).encode())
    for path in sorted(tree):
        contents = tree[path]
        digest.update(b"%d:%s" % (len(path), path.encode()))
        digest.update(b"/" if contents is None else hashlib.blake2b(contents).digest())
    return digest.digest()
