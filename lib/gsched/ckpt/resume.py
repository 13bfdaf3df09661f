"""Which checkpoint the next start loads: later ones are set aside, and can come back.

A start loads the newest valid checkpoint, so whatever is newer is moved into a folder of its own
below ``.set-aside``. Killed anywhere in between, each checkpoint is in one of the two places, and
the same command goes on.
"""

from __future__ import annotations

import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

from gsched.ckpt import catalogue, layout
from gsched.ckpt.disk import Disk, RealDisk, make_folders, replace_file
from gsched.ckpt.found import Checkpoint, Progress, Verdict, no_progress
from gsched.errors import (
    EXIT_REFUSED,
    GschedError,
    NoneValidError,
    TryAgainError,
    UsageError,
)

_BATCH = re.compile(r"resumed-([0-9]{20})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """`target` is what the next start will load; `later` are newer ones, to be set aside."""

    folder: Path
    target: Checkpoint
    later: tuple[Checkpoint, ...]


def plan(folder: Path, step: int | None = None, tell: Progress = no_progress) -> ResumePlan:
    """What has to move so that the checkpoint of `step`, else the newest valid one, is loaded.

    It is verified, checksums and all. Raises UsageError where there is none of that step,
    NoneValidError where it, or every one, is not valid; and as `catalogue.scan` does.
    """
    found = catalogue.scan_run(folder).checkpoints
    target = _newest(folder, tell) if step is None else _of_step(folder, found, step, tell)
    later = tuple(c for c in found if c.age_key > target.age_key and _could_be_loaded(c))
    return ResumePlan(folder, target, later)


def apply(planned: ResumePlan, disk: Disk | None = None) -> Path | None:
    """Carry it out; gives the folder that the later ones are in, None where there are none.

    Raises OSError where a step fails, TryAgainError where the target has gone meanwhile.
    """
    disk = disk or RealDisk()
    batch = _new_batch(disk, planned.folder) if planned.later else None
    moved = _move_later(disk, planned, batch) if batch is not None else []
    target = catalogue.examine_quickly(planned.target.path)
    if target is None or not target.is_whole:
        for source, home in moved:
            disk.rename(source, home)
        raise TryAgainError(
            f"{planned.target.path} has changed or gone meanwhile: all is as it was",
            "look with `gsched ckpt list`, and try again",
        )
    if batch is not None:
        disk.fsync_folder(batch)
        disk.fsync_folder(planned.folder)
    _point_to(disk, planned.folder, planned.target)
    return batch


def undo(folder: Path, disk: Disk | None = None) -> tuple[Path, ...]:
    """Bring back what was set aside last; gives where it is now.

    Raises UsageError where nothing was; GschedError (refused) where a checkpoint of the same name
    has been written since: then nothing is moved.
    """
    disk = disk or RealDisk()
    batch = _last_batch(folder)
    if batch is None:
        raise UsageError(f"nothing of {folder} was set aside by `gsched ckpt resume`")
    names = sorted(path.name for path in batch.iterdir())
    for name in names:
        if os.path.lexists(folder / name):
            raise GschedError(
                f"{folder / name} was written since: it is not replaced by {batch / name}",
                "move one of the two elsewhere, then undo again",
                EXIT_REFUSED,
            )
    for name in names:
        disk.rename(batch / name, folder / name)
    disk.fsync_folder(folder)
    disk.remove_folder(batch)
    own = catalogue.scan(folder, kinds=("gsched",)).of(Verdict.WHOLE)
    if own:
        _point_to(disk, folder, own[0])
    return tuple(folder / name for name in names)


def _move_later(disk: Disk, planned: ResumePlan, batch: Path) -> list[tuple[Path, Path]]:
    """Gives where each is now, and where it was."""
    moved = []
    for checkpoint in planned.later:
        here = batch / checkpoint.path.name
        try:
            disk.rename(checkpoint.path, here)
        except FileNotFoundError:
            continue
        moved.append((here, checkpoint.path))
    return moved


def _newest(folder: Path, tell: Progress) -> Checkpoint:
    newest = catalogue.newest_valid(folder, tell=tell)
    if newest.checkpoint is None:
        raise catalogue.none_valid(folder, newest)
    return newest.checkpoint


def _of_step(folder: Path, found: tuple[Checkpoint, ...], step: int, tell: Progress) -> Checkpoint:
    asked = [c for c in found if c.step == step]
    if not asked:
        steps = ", ".join(f"{c.step}" for c in found if c.is_whole and c.step is not None)
        hint = f"there are: {steps}" if steps else ""
        raise UsageError(f"{folder} has no checkpoint of step {step}", hint)
    checked = [c for c in (catalogue.verified(c, tell) for c in asked) if c is not None]
    whole = [c for c in checked if c.is_whole]
    if whole:
        return whole[0]
    reason = checked[0].reason if checked else "it has vanished"
    raise NoneValidError(f"the checkpoint of step {step} is not valid: {reason}")


def _could_be_loaded(checkpoint: Checkpoint) -> bool:
    """Whether a program may take it for the newest one. gsched's own look at committed ones."""
    is_own = checkpoint.kind == "gsched"
    not_committed = checkpoint.verdict is Verdict.UNCOMMITTED
    return checkpoint.verdict is not Verdict.FOREIGN and not (is_own and not_committed)


def _point_to(disk: Disk, folder: Path, target: Checkpoint) -> None:
    if target.kind != "gsched" or layout.parse_step_name(target.path.name) is None:
        return  # other programs' pointers are theirs
    replace_file(disk, folder / layout.LATEST_NAME, f"{target.path.name}\n".encode())
    disk.fsync_folder(folder)


def _new_batch(disk: Disk, folder: Path) -> Path:
    aside = folder / layout.SET_ASIDE_NAME
    if aside.is_symlink():
        raise UsageError(f"{aside} is a symbolic link", "remove it")
    batch = aside / f"resumed-{time.time_ns():020d}"
    make_folders(disk, batch)
    return batch


def _last_batch(folder: Path) -> Path | None:
    aside = folder / layout.SET_ASIDE_NAME
    if aside.is_symlink() or not aside.is_dir():
        return None
    batches = [path for path in aside.iterdir() if _BATCH.fullmatch(path.name)]
    return max((b for b in batches if b.is_dir() and not b.is_symlink()), default=None)
