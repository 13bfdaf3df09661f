"""Removal of old checkpoints: never the last valid one, whatever fails in between.

A checkpoint leaves its folder by one rename and is deleted behind it (see `removal`): none is ever
half deleted where a reader looks. Each time, between the rename and the deletion, those that are to
stay are looked at once more: if one has gone, the renamed one is put back. Whoever moves
checkpoints in the same way at the same time (`resume`) looks after its own rename, so at least one
of the two notices.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gsched.ckpt import catalogue, layout
from gsched.ckpt.disk import Disk, RealDisk
from gsched.ckpt.faults import FaultHook, no_faults
from gsched.ckpt.found import Checkpoint, Progress, Verdict, no_progress
from gsched.ckpt.kinds.base import step_in_name
from gsched.ckpt.look import look_at
from gsched.ckpt.removal import leftovers, remove, take_away
from gsched.errors import TryAgainError

UNTOUCHED_S = 3600
"""An uncommitted checkpoint that nobody has written to for so long is given up."""


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What pruning would do: `kept` are valid and stay, `removed` go, each list newest first.

    `spared` are the others that stay, each with the reason. `leftovers` is what a killed process
    had begun to remove, and `set_aside` the folder of what was set aside, where that is to go, too.
    """

    folder: Path
    kept: tuple[Checkpoint, ...]
    removed: tuple[Checkpoint, ...]
    spared: tuple[tuple[Checkpoint, str], ...]
    leftovers: tuple[Path, ...] = ()
    set_aside: Path | None = None


def plan(
    folder: Path,
    keep: int,
    *,
    trusted_steps: Collection[int] = (),
    kinds: Collection[str] = (),
    with_set_aside: bool = False,
    tell: Progress = no_progress,
) -> PrunePlan:
    """What goes when the `keep` (at least 1) newest valid checkpoints of `folder` stay.

    Those that stay are verified, checksums and all, but for `trusted_steps`: what the caller has
    just written itself. What is not valid goes where a valid one is newer. With no valid one
    nothing goes. Raises as `catalogue.scan` does.
    """
    if keep < 1:
        raise ValueError(f"keep {keep} is below 1")
    found = catalogue.scan_run(folder, kinds=kinds).checkpoints
    kept: list[Checkpoint] = []
    others: list[Checkpoint] = []
    for candidate in found:
        checkpoint: Checkpoint | None = candidate
        if _may_go(candidate) and candidate.is_whole and len(kept) < keep:
            if candidate.step not in trusted_steps:
                checkpoint = catalogue.verified(candidate, tell)
            if checkpoint is not None and checkpoint.is_whole:
                kept.append(checkpoint)
                continue
        if checkpoint is not None:
            others.append(checkpoint)
    reasons = [(c, _why_spared(c, kept)) for c in others]
    set_aside = folder / layout.SET_ASIDE_NAME
    return PrunePlan(
        folder,
        tuple(kept),
        tuple(c for c, reason in reasons if not reason),
        tuple((c, reason) for c, reason in reasons if reason),
        tuple(leftovers(folder)) if kept else (),
        set_aside if kept and with_set_aside and _is_real_folder(set_aside) else None,
    )


def apply(
    planned: PrunePlan, disk: Disk | None = None, reached: FaultHook = no_faults
) -> tuple[Checkpoint, ...]:
    """Carry it out, the oldest first; gives what is gone.

    Raises OSError where a step fails, TryAgainError where one of those to stay has gone meanwhile.
    """
    disk = disk or RealDisk()
    if not planned.kept:
        return ()
    gone = []
    for checkpoint in reversed(planned.removed):
        try:
            away = take_away(disk, checkpoint.path, reached)
        except FileNotFoundError:
            continue
        _check_kept(disk, planned.kept, (away, checkpoint.path))
        remove(disk, away, reached)
        gone.append(checkpoint)
    for path in planned.leftovers:
        _check_kept(disk, planned.kept, None)
        remove(disk, path, reached)
    if planned.set_aside is not None:
        remove(disk, take_away(disk, planned.set_aside, reached), reached)
    return tuple(gone)


def _check_kept(disk: Disk, kept: Collection[Checkpoint], moved: tuple[Path, Path] | None) -> None:
    """Look once more at those that stay; put back what was `moved` (from where it is, to where)."""
    missing = [c for c in kept if not _is_in_place(c)]
    if not missing:
        return
    if moved is not None:
        with suppress(FileNotFoundError):  # another one that prunes has removed it
            disk.rename(*moved)
    raise TryAgainError(
        f"{missing[0].path} has changed or gone meanwhile: nothing more was removed",
        "look with `gsched ckpt list`, and prune again",
    )


def _is_in_place(checkpoint: Checkpoint) -> bool:
    """Whether it still is there and has all its files."""
    now = catalogue.examine_quickly(checkpoint.path)
    return now is not None and now.is_whole


def _may_go(checkpoint: Checkpoint) -> bool:
    """Whether its name is one that a program has counted up: others were given by somebody."""
    name = checkpoint.path.name
    if checkpoint.kind == "gsched":
        is_partial = layout.parse_partial_name(name) is not None
        return is_partial or layout.parse_step_name(name) is not None
    return step_in_name(name) is not None


def _why_spared(checkpoint: Checkpoint, kept: list[Checkpoint]) -> str:
    if checkpoint.verdict is Verdict.FOREIGN:
        return checkpoint.reason
    if not kept:
        return "no checkpoint is valid, so nothing is removed"
    if not _may_go(checkpoint):
        return "its name counts no steps: somebody has named it"
    if checkpoint.path.name in kept[0].best:
        return f"it is the best one so far, {kept[0].path.name} says"
    if os.geteuid() not in (0, checkpoint.owner_uid):
        return f"it belongs to another user (uid {checkpoint.owner_uid})"
    if checkpoint.is_whole:
        return ""
    if checkpoint.age_key > kept[0].age_key:
        return f"{checkpoint.reason}; it is newer than every valid one"
    if checkpoint.verdict is Verdict.UNCOMMITTED and _was_touched(checkpoint.path):
        return "it may still be being written"
    return ""


def _was_touched(path: Path) -> bool:
    """Whether anything was written in a folder lately."""
    try:
        look = look_at(path, deep=True)
    except OSError:
        return True
    newest = max(status.st_mtime for status in (look.status, *look.entries.values()))
    return newest > time.time() - UNTOUCHED_S


def _is_real_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
