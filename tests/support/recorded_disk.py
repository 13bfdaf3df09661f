"""Recordings of what programs did to a folder of checkpoints, and the judge of what cuts leave."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gsched.ckpt import layout
from gsched.ckpt.catalogue import newest_valid, scan
from gsched.ckpt.found import Depth, Verdict
from support import chain
from support.power_cut import (
    Cut,
    Operation,
    Rename,
    SyncFile,
    SyncFolder,
    Tree,
    cuts,
    materialise,
    tree_of,
)
from support.traced import Reading, calls, merged, strace
from support.writer_run import KEEP, TracedRun

FOLDER = "runs/checkpoints"
"""Of the checkpoints, below the recorded folder."""


@dataclass(frozen=True)
class Recorded:
    """What lay on a disk before, what was done to it, and what was there in the end."""

    start: Tree
    log: Sequence[Operation]
    end: Tree
    world_size: int = 1

    def cuts(self) -> Iterator[Cut]:
        """All that a cut may leave."""
        return cuts(self.log, self.start)

    def without(self, kind: str) -> Recorded:
        """The same without the syncs of this kind (`sync_kinds`)."""
        kinds = sync_kinds(self.log)
        log = [o for o, k in zip(self.log, kinds, strict=True) if k != kind]
        return Recorded(self.start, log, self.end, self.world_size)


def record_writer(
    scratch: Path, steps: Sequence[int], world_size: int = 1, inject: Sequence[str] = ()
) -> Recorded:
    """The writers save these steps one after the other, below a folder that is new."""
    root = scratch / "disk"
    root.mkdir()
    with TracedRun(root / FOLDER, scratch, world_size, inject) as run:
        for step in steps:
            run.save(step)
    return Recorded({}, run.operations(root), tree_of(root), world_size)


def record_command(scratch: Path, root: Path, command: Sequence[str]) -> Recorded:
    """A command works on what lies below `root`."""
    start = tree_of(root)
    log = scratch / "strace"
    subprocess.run([*strace(log), *command], check=True, stdout=subprocess.DEVNULL)
    files = [path for path, data in start.items() if data is not None]
    operations = merged([Reading(root, files).operations(calls(log))])
    return Recorded(start, operations, tree_of(root))


def sync_kinds(log: Sequence[Operation]) -> list[str]:
    """For each operation, what it syncs and after which rename; "" for what is no sync.

    Steps, runs and random parts of names are left out.
    """
    kinds, renamed = [], ""
    for operation in log:
        if isinstance(operation, Rename):
            renamed = f" after {_plain(operation.new)} got its name"
        if isinstance(operation, SyncFile):
            kinds.append(f"file {_plain(operation.path)}")
        elif isinstance(operation, SyncFolder):
            kinds.append(f"folder {_plain(operation.path)}{renamed}")
            renamed = ""
        else:
            kinds.append("")
    return kinds


def _plain(path: str) -> str:
    name = Path(path).name
    name = re.sub(r"-[0-9]{12}", "", name)
    return re.sub(r"-[0-9a-f]{8,12}$", "", name)


@dataclass
class Judge:
    """Looks at what a cut has left, as a training that starts again would.

    `keep` checkpoints are to stay. `standing` were valid before, `torn` was damaged before. With
    `looks_aside`, what was set aside counts as well. Without `looks_at_pointer`, the pointer may be
    anything: it is a hint.
    """

    keep: int = KEEP
    standing: tuple[int, ...] = ()
    looks_aside: bool = False
    looks_at_pointer: bool = True
    torn: tuple[int, ...] = ()
    judged: int = 0
    _digests: dict[tuple[int, int], bytes] = field(default_factory=dict)

    def first_complaint(self, recorded: Recorded) -> str:
        """What is wrong after some cut; "" when all is as promised after every one."""
        for cut in recorded.cuts():
            told = {*self.standing, *(t.step for t in cut.told)}
            words = self._look(cut.tree, told, recorded.world_size)
            if words:
                done = recorded.log[max(0, cut.after - 2) : cut.after]
                return f"cut after operation {cut.after}, {done}: {words}"
        return ""

    def _look(self, tree: Tree, told: set[int], world_size: int) -> str:
        self.judged += 1
        with tempfile.TemporaryDirectory(dir="/dev/shm") as root:  # thousands of them: in memory
            materialise(tree, Path(root))
            folder = Path(root, FOLDER)
            if folder.is_dir():
                return self._complaint(folder, told, world_size)
            return "the folder is gone" if told else ""

    def _complaint(self, folder: Path, told: set[int], world_size: int) -> str:
        places = [folder]
        if self.looks_aside:
            places += (p for p in (folder / layout.SET_ASIDE_NAME).glob("*") if p.is_dir())
        found = [c for place in places for c in scan(place, Depth.CHECKSUMS).checkpoints]
        for checkpoint in found:
            if checkpoint.verdict is Verdict.TORN and checkpoint.step not in self.torn:
                return f"{checkpoint.path.name} is torn: {checkpoint.reason}"
            if checkpoint.is_whole:
                assert checkpoint.step is not None
                chain.check(checkpoint.path, checkpoint.step, world_size, self._digests)
        whole = {c.step for c in found if c.is_whole and c.step is not None}
        must_stay = set(sorted(told | whole)[-self.keep :]) & told
        if missing := must_stay - whole:
            return f"{missing} were committed, and are gone; there are {whole}"
        least = 0 if self.looks_aside else max(told, default=0)
        words = _complaint_of_newest(folder, least)
        return words or (self._complaint_of_pointer(folder, least) if self.looks_at_pointer else "")

    def _complaint_of_pointer(self, folder: Path, least: int) -> str:
        """`latest` must name a valid checkpoint, of step `least` or later, once there was one."""
        pointer = folder / layout.LATEST_NAME
        if not pointer.exists():
            return "there is no pointer" if least else ""
        step = layout.parse_latest(pointer.read_bytes())
        if step in self.torn:
            return ""  # it named that one before
        if step is None or step < least:
            return f"the pointer holds {pointer.read_bytes()!r}"
        is_there = (folder / layout.step_name(step)).is_dir()
        return "" if is_there else f"the pointer names step {step}, which is not there"


def _complaint_of_newest(folder: Path, least: int) -> str:
    """The catalogue must find a valid checkpoint of step `least` or later, once there was one."""
    newest = newest_valid(folder, kinds=("gsched",)).checkpoint
    if newest is None:
        return "there is no valid checkpoint" if least else ""
    assert newest.step is not None
    return "" if newest.step >= least else f"the newest valid one is {newest.step}, not {least}"
