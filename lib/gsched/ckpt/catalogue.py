"""The checkpoints of a folder: which are there, which are whole, which is the newest valid one.

Nothing is loaded and no code of a checkpoint runs. Names and contents are hostile: symbolic links
are not followed below the folder, what is no plain file is not opened, and reads are bounded.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gsched.ckpt import layout
from gsched.ckpt.found import Checkpoint, Depth, Progress, Verdict, no_progress
from gsched.ckpt.kinds.base import Facts, Kind, step_in_name
from gsched.ckpt.kinds.registry import KINDS
from gsched.ckpt.look import MAX_NAMES, Look, RefusedError, foreign, is_same, look_at
from gsched.errors import (
    GschedError,
    NoCheckpointError,
    NoneValidError,
    PermissionDeniedError,
    UnavailableError,
    UsageError,
)

_LIKE_A_CHECKPOINT = re.compile(
    r"(?:global_?)?(?:checkpoint|ckpt|step|epoch|iter)[^/]*\d[^/]*"
    r"|.*\.(?:ckpt|pt|pth|pth\.tar|safetensors|npz|h5|hdf5|msgpack|pkl)",
    re.ASCII | re.IGNORECASE,
)
"""Names of what is told of, though no format of it is known; all other entries are only counted."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a folder holds: its `checkpoints`, the newest first, and `num_others` other entries."""

    folder: Path
    checkpoints: tuple[Checkpoint, ...]
    num_others: int

    def of(self, verdict: Verdict) -> tuple[Checkpoint, ...]:
        """Those with this verdict, the newest first."""
        return tuple(c for c in self.checkpoints if c.verdict is verdict)


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest valid checkpoint, None where there is none; `passed_over` are newer ones, not so.

    `is_empty` says that nothing was ever committed there: a first start, and no loss.
    """

    checkpoint: Checkpoint | None
    passed_over: tuple[Checkpoint, ...]

    @property
    def is_empty(self) -> bool:
        """Whether there is no valid one because there is none at all."""
        return self.checkpoint is None and not any(
            c.verdict is Verdict.TORN for c in self.passed_over
        )


def scan(
    folder: Path,
    depth: Depth = Depth.LENGTHS,
    *,
    kinds: Collection[str] = (),
    tell: Progress = no_progress,
) -> Catalogue:
    """The checkpoints directly in `folder`, or `folder` itself where it is one.

    `kinds` restricts them to formats of these names. What vanishes meanwhile is left out. Raises
    NoCheckpointError where the folder is not there, PermissionDeniedError or UnavailableError where
    it cannot be read.
    """
    found: list[Checkpoint] = []
    num_others = 0
    for path in _places(folder):
        try:
            checkpoint = _examined(path, depth, kinds, tell)
        except FileNotFoundError:
            continue
        if checkpoint is None:
            num_others += 1
        else:
            found.append(checkpoint)
    found.sort(key=lambda c: (c.age_key, c.path.name), reverse=True)
    return Catalogue(folder, tuple(found), num_others)


def scan_run(folder: Path, *, kinds: Collection[str] = ()) -> Catalogue:
    """As `scan`, of a folder that is to be changed: UsageError where it is a checkpoint itself."""
    found = scan(folder, kinds=kinds)
    if any(c.path.parent != folder for c in found.checkpoints):
        raise UsageError(f"{folder} is a checkpoint", "name the folder that it lies in")
    return found


def examine(path: Path, depth: Depth, tell: Progress = no_progress) -> Checkpoint:
    """Look at one checkpoint. Raises NoCheckpointError where nothing there looks like one."""
    try:
        found = _examined(path, depth, (), tell)
    except FileNotFoundError:
        raise NoCheckpointError(f"there is no {path}") from None
    if found is None:
        raise NoCheckpointError(f"{path} does not look like a checkpoint")
    return found


def examine_quickly(path: Path) -> Checkpoint | None:
    """As `examine`, lengths alone; None where it has vanished."""
    try:
        return _examined(path, Depth.LENGTHS, (), no_progress)
    except FileNotFoundError:
        return None


def newest_valid(
    folder: Path,
    *,
    at_most_step: int | None = None,
    kinds: Collection[str] = (),
    tell: Progress = no_progress,
) -> Newest:
    """Verify from the newest down, checksums and all, until one is whole; errors as in `scan`."""
    passed_over: list[Checkpoint] = []
    for candidate in scan(folder, kinds=kinds).checkpoints:
        if at_most_step is not None and (candidate.step is None or candidate.step > at_most_step):
            continue
        checked = verified(candidate, tell)
        if checked is not None and checked.is_whole:
            return Newest(checked, tuple(passed_over))
        if checked is not None:
            passed_over.append(checked)
    return Newest(None, tuple(passed_over))


def none_valid(folder: Path, newest: Newest) -> GschedError:
    """The error to raise where there is no valid one: NoCheckpointError for a first start."""
    if newest.is_empty:
        begun = sum(c.verdict is Verdict.UNCOMMITTED for c in newest.passed_over)
        unfinished = f"; {begun} were begun and never committed" if begun else ""
        return NoCheckpointError(f"there is no checkpoint in {folder}{unfinished}")
    torn = [c for c in newest.passed_over if c.verdict is Verdict.TORN]
    first = torn[0]
    return NoneValidError(
        f"none of {len(torn)} checkpoints in {folder} is valid; the newest, {first.path.name}: "
        f"{first.reason}",
        "`gsched ckpt verify` says what is wrong with each",
    )


def verified(candidate: Checkpoint, tell: Progress = no_progress) -> Checkpoint | None:
    """The same checkpoint, checksums and all; None where it has vanished.

    Only one that seems to be whole is read.
    """
    if not candidate.is_whole:
        return candidate
    with suppress(FileNotFoundError):
        return _examined(candidate.path, Depth.CHECKSUMS, (), tell)
    return None


# -- one place -------------------------------------------------------------------------------------


def _places(folder: Path) -> list[Path]:
    """What may be a checkpoint: all that lies in `folder`, or `folder` itself."""
    try:
        look = look_at(folder.resolve())
        if _kind_of(look) is not None and not _holds_checkpoints(look):
            return [look.path]
    except FileNotFoundError:
        raise NoCheckpointError(f"there is no folder {folder}") from None
    except PermissionError as e:
        raise PermissionDeniedError(f"cannot read {folder}: {e.strerror}") from None
    except RefusedError as e:
        raise UnavailableError(e.reason) from None
    except (OSError, RuntimeError) as e:  # RuntimeError: links that go round
        raise UnavailableError(
            f"cannot read {folder}: {getattr(e, 'strerror', None) or e}"
        ) from None
    if not look.is_folder:
        raise NoCheckpointError(f"{folder} is no folder, and no checkpoint")
    if len(look.entries) >= MAX_NAMES:
        raise UnavailableError(f"{folder} has more than {MAX_NAMES:,} entries")
    return [folder / name for name in look.entries if _is_looked_at(name)]


def _is_looked_at(name: str) -> bool:
    """Hidden names are of what is set aside, being removed, or temporary; but for gsched's own."""
    return not name.startswith(".") or layout.parse_partial_name(name) is not None


def _holds_checkpoints(look: Look) -> bool:
    """Whether what looks like a checkpoint is the folder of a run: Trainer lays its state there."""
    for name, status in look.entries.items():
        if stat.S_ISDIR(status.st_mode):
            with suppress(OSError):
                kind = _kind_of(look_at(look.path / name))
                if kind is not None and kind.name in ("gsched", "hugging-face"):
                    return True
    return False


def _kind_of(look: Look) -> Kind | None:
    return next((kind for kind in KINDS if kind.claims(look)), None)


def _examined(
    path: Path, depth: Depth, kinds: Collection[str], tell: Progress
) -> Checkpoint | None:
    """One place; None where it is no checkpoint. Raises FileNotFoundError where it has vanished."""
    try:
        look = look_at(path)
        kind = _kind_of(look)
    except FileNotFoundError:
        raise
    except (OSError, RefusedError) as e:
        why = e if isinstance(e, RefusedError) else foreign(f"it cannot be read: {e.strerror or e}")
        return None if kinds else _described(Look(path, path.lstat(), {}), "", why, depth)
    if kind is None:
        is_like = not kinds and _LIKE_A_CHECKPOINT.fullmatch(path.name) is not None
        return _described(look, "", foreign(_why_unknown(look)), depth) if is_like else None
    if kinds and kind.name not in kinds:
        return None
    try:
        facts = kind.read(look, depth, tell)
    except RefusedError as refused:
        _raise_if_vanished(look)
        return _described(look, kind.name, refused, depth)
    except OSError as e:
        _raise_if_vanished(look)
        return _described(look, kind.name, foreign(f"cannot be read: {e.strerror or e}"), depth)
    return _described(look, kind.name, facts, depth)


def _raise_if_vanished(look: Look) -> None:
    """Somebody may have pruned it while it was read: then nothing is wrong with it."""
    if not is_same(look.path.lstat(), look.status):
        raise FileNotFoundError(look.path)


def _why_unknown(look: Look) -> str:
    if stat.S_ISLNK(look.status.st_mode):
        return "it is a symbolic link, which is not followed"
    if not (look.is_folder or look.is_file):
        return "it is neither a file nor a folder"
    return "no format of it is known"


def _described(look: Look, kind: str, outcome: Facts | RefusedError, depth: Depth) -> Checkpoint:
    refused = outcome if isinstance(outcome, RefusedError) else None
    is_judged = refused is None or refused.verdict is Verdict.TORN
    facts = outcome if isinstance(outcome, Facts) else Facts(depth if is_judged else Depth.LENGTHS)
    return Checkpoint(
        path=look.path,
        kind=facts.kind or kind,
        verdict=refused.verdict if refused else Verdict.WHOLE,
        step=step_in_name(look.path.name) if facts.step is None else facts.step,
        num_bytes=look.num_bytes,
        created=look.status.st_mtime if facts.created is None else facts.created,
        owner_uid=look.status.st_uid,
        checked=facts.checked,
        reason=refused.reason if refused else "",
        best=facts.best,
    )
