"""What lies at a step's place already, before a commit: this run's, this training's, another's.

A training is what goes on from its own checkpoints, over several runs: starts of its job.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from gsched.ckpt import catalogue, layout, manifest
from gsched.ckpt.disk import Disk, replace_file
from gsched.ckpt.found import Checkpoint, Depth, Progress, Verdict, no_progress
from gsched.ckpt.manifest import Manifest
from gsched.ckpt.target import RunTarget
from gsched.errors import GschedError
from gsched.files import read_bounded

_MAX_POINTER_BYTES = 4096


class OtherRunError(Exception):
    """The step is there, and of another training that uses the same folder."""

    error = "other-run"

    def __init__(self, path: Path, writer: Manifest | None) -> None:
        who = "another user's, and cannot be read"
        if writer is not None:
            job = f", job {writer.job.id[:32]}" if writer.job else ""
            who = f"another training run's ({writer.run}{job})"
        self.message = f"{path} is {who}: it stays; give each run a folder of its own"
        super().__init__(self.message)


class TakenOverError(Exception):
    """A later attempt of the same job has the folder."""

    error = "taken-over"

    def __init__(self, folder: Path) -> None:
        self.message = f"{folder} has been taken over by a later attempt of this job"
        super().__init__(self.message)


def is_committed(target: RunTarget, step: int) -> bool:
    """Whether this run has committed the step, and all files are there in their lengths."""
    path = target.committed(step)
    try:
        writer = _manifest_at(path)
        return writer.run == target.run and catalogue.examine(path, Depth.LENGTHS).is_whole
    except (GschedError, OSError):
        return False


def is_there(
    target: RunTarget, step: int, inherited: Collection[int], tell: Progress = no_progress
) -> bool:
    """Whether this training has the step on the disk already, as it must be.

    `inherited` are the steps that were there when this run began. What another run has written is
    read to the last byte: it may have been damaged since, and then the step is to be written anew.
    Raises OtherRunError for another training's, or what cannot be judged: those are not touched.
    """
    if is_committed(target, step):
        return True
    path = target.committed(step)
    try:
        found = catalogue.examine(path, Depth.CHECKSUMS, tell)
        writer = _manifest_at(path) if found.is_whole else None
    except (GschedError, OSError):
        return False
    if writer is not None and (step in inherited or _is_same_job(target, writer)):
        return True
    if writer is not None or _is_strangers(found):
        raise OtherRunError(path, writer)
    return False


def pointed_step(folder: Path) -> int | None:
    """The step that the pointer names: a hint."""
    try:
        return layout.parse_latest(read_bounded(folder / layout.LATEST_NAME, _MAX_POINTER_BYTES))
    except OSError:
        return None


def point_to(disk: Disk, target: RunTarget, step: int) -> None:
    """Let the pointer name `step`, unless it names a later one of this run that is there."""
    pointed = pointed_step(target.folder)
    if pointed is not None and pointed > step and is_committed(target, pointed):
        return
    replace_file(disk, target.folder / layout.LATEST_NAME, layout.encode_latest(step))
    disk.fsync_folder(target.folder)


def steps_in(folder: Path) -> frozenset[int]:
    """The steps that have a checkpoint, or what is left of one."""
    try:
        steps = {layout.parse_step_name(path.name) for path in folder.iterdir()}
    except OSError:
        return frozenset()
    return frozenset(step for step in steps if step is not None)


def _is_same_job(target: RunTarget, writer: Manifest) -> bool:
    """Whether an earlier start of this job, requeued since, has brought it to the disk late."""
    own, other = target.job, writer.job
    return own is not None and other is not None and own.id == other.id and own != other


def _manifest_at(path: Path) -> Manifest:
    return manifest.decode(read_bounded(path / layout.MANIFEST_NAME, manifest.MAX_BYTES))


def _is_strangers(found: Checkpoint) -> bool:
    """Whether it is another user's, and cannot be judged: that it cannot be read is no damage."""
    return found.verdict is Verdict.FOREIGN and found.owner_uid != os.geteuid()
