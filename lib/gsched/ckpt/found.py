"""What is said of a checkpoint that was looked at: its format, its step, whether it is whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path

Progress = Callable[[str, int, int], None]
"""Told of long reads: the file, bytes of it read so far, bytes that it has."""


def no_progress(file: str, num_bytes: int, total_bytes: int) -> None:
    """For whoever does not want to be told."""


class Verdict(StrEnum):
    """What became of a checkpoint."""

    WHOLE = "whole"
    """All of it is there, as far as its format can tell."""
    TORN = "torn"
    """It was committed, and is damaged or not all there any more."""
    UNCOMMITTED = "uncommitted"
    """Its writer has not finished it, and perhaps never will."""
    FOREIGN = "foreign"
    """It looks like a checkpoint, and cannot be judged: nothing is ever done to it."""


class Depth(IntEnum):
    """How closely one looks."""

    LENGTHS = 0
    """Every file is there and has its length; of the contents only tables are read."""
    CHECKSUMS = 1
    """All bytes are read, and compared with the checksums that the format has."""

    @property
    def word(self) -> str:
        """The word for it: lengths, checksums."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint as it was found.

    `kind` names its format (see `gsched.ckpt.kinds.registry`). `step` is the number of finished
    training steps, None where the format does not tell. `reason` says why it is not whole, with the
    file; "" for a whole one. `num_bytes` is the size of its files, `created` epoch seconds (of
    gsched's own: when it was committed; of others: the file's time). `owner_uid` is whose it is.
    `checked` says what the verdict rests on: a format without checksums is never checked beyond
    lengths. `best` names the checkpoints that the run counts as its best so far, where it tells.
    """

    path: Path
    kind: str
    verdict: Verdict
    step: int | None
    num_bytes: int
    created: float
    owner_uid: int
    checked: Depth
    reason: str = ""
    best: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether a training run can go on from it."""
        return self.verdict is Verdict.WHOLE

    @property
    def age_key(self) -> tuple[int, float]:
        """Sorts from the oldest to the newest: by step; where none is known, before, by time."""
        return (-1 if self.step is None else self.step, self.created)
