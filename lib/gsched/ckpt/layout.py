"""The names within a checkpoint folder, and how they are read back: see gsched-checkpoint(5).

    FOLDER/latest                            the pointer, a hint
    FOLDER/step-000000018240/                committed
    FOLDER/.partial-step-000000018240-RUN/   being written
    FOLDER/.flush-RUN-1/                     writers agree which step to flush
    FOLDER/.ranks-RUN/                       a lock for each rank but the first, held while it lives
    FOLDER/.lock                             held by the run that uses the folder
    FOLDER/.set-aside/                       taken out of the way, never read
    FOLDER/.removing-…/                      being removed: nothing of it counts any more

Pure: names in, names out. Names that are found on a disk are hostile input, so the parsers accept
exactly what the makers make.
"""

from __future__ import annotations

import re
import secrets

STEP_DIGITS = 12
MAX_STEP = 10**STEP_DIGITS - 1
MAX_WORLD_SIZE = 99_999
"""Ranks of one run: a rank has five digits in the name of its file."""

LATEST_NAME = "latest"
MANIFEST_NAME = "manifest.json"
SET_ASIDE_NAME = ".set-aside"
LOCK_NAME = ".lock"
REMOVING_PREFIX = ".removing-"
DECISION_NAME = "decision.json"
"""In a flush folder: the step that all ranks flush."""

_STEP = re.compile(r"step-([0-9]{12})", re.ASCII)
_RANK_FILE = re.compile(r"rank-([0-9]{5})-of-([0-9]{5})\.safetensors", re.ASCII)
_MARK = re.compile(r"rank-([0-9]{5})\.json", re.ASCII)
_PARTIAL = re.compile(r"\.partial-step-([0-9]{12})-([0-9a-f]{12})", re.ASCII)
_FLUSH = re.compile(r"\.flush-([0-9a-f]{12})-([1-9][0-9]{0,8})", re.ASCII)
_RANKS = re.compile(r"\.ranks-([0-9a-f]{12})", re.ASCII)
_RUN = re.compile(r"[0-9a-f]{12}", re.ASCII)


def new_run() -> str:
    """A token for one start of a training job, common to all its ranks: 12 hex digits."""
    return secrets.token_hex(6)


def is_run(text: str) -> bool:
    """Whether `text` is such a token."""
    return _RUN.fullmatch(text) is not None


def step_name(step: int) -> str:
    """The folder of a committed checkpoint after `step` finished steps. ValueError beyond range."""
    if not 0 <= step <= MAX_STEP:
        raise ValueError(f"step {step} is not between 0 and {MAX_STEP}")
    return f"step-{step:0{STEP_DIGITS}d}"


def parse_step_name(name: str) -> int | None:
    """The number of finished steps that a folder's name tells; None for any other name."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def rank_file_name(rank: int, world_size: int) -> str:
    """The file of one rank. ValueError for a rank that `world_size` ranks do not have."""
    if not 0 <= rank < world_size <= MAX_WORLD_SIZE:
        raise ValueError(f"rank {rank} of {world_size}")
    return f"rank-{rank:05d}-of-{world_size:05d}.safetensors"


def parse_rank_file_name(name: str) -> tuple[int, int] | None:
    """(rank, world size) of a rank's file; None for any other name."""
    match = _RANK_FILE.fullmatch(name)
    if match is None:
        return None
    rank, world_size = int(match[1]), int(match[2])
    return (rank, world_size) if rank < world_size else None


def mark_name(rank: int) -> str:
    """A rank's mark of "my file is durable", or of why it will never be, in the partial folder."""
    return f"rank-{rank:05d}.json"


def parse_mark_name(name: str) -> int | None:
    """The rank whose mark it is; None for any other name."""
    match = _MARK.fullmatch(name)
    return int(match[1]) if match else None


def ended_name(rank: int) -> str:
    """In a flush folder: that a rank takes part in no more of them."""
    return f"ended-{rank:05d}.json"


def partial_name(step: int, run: str) -> str:
    """The folder of a checkpoint that is being written."""
    return f".partial-{step_name(step)}-{run}"


def parse_partial_name(name: str) -> tuple[int, str] | None:
    """(step, run) of a checkpoint that is being, or was never wholly, written."""
    match = _PARTIAL.fullmatch(name)
    return (int(match[1]), match[2]) if match else None


def flush_name(run: str, number: int) -> str:
    """The folder in which the writers of one run agree what to flush, for the `number`th time."""
    return f".flush-{run}-{number}"


def parse_flush_name(name: str) -> tuple[str, int] | None:
    """(run, number) of such a folder."""
    match = _FLUSH.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def ranks_name(run: str) -> str:
    """The folder in which each rank of a run but the first holds a lock as long as it lives."""
    return f".ranks-{run}"


def parse_ranks_name(name: str) -> str | None:
    """The run of such a folder."""
    match = _RANKS.fullmatch(name)
    return match[1] if match else None


def rank_lock_name(rank: int) -> str:
    """In it: the lock of one rank."""
    return f"rank-{rank:05d}.lock"


def encode_latest(step: int) -> bytes:
    """The contents of the pointer."""
    return f"{step_name(step)}\n".encode()


def parse_latest(data: bytes) -> int | None:
    """The step that the pointer names; None where it says nothing that can be understood."""
    try:
        return parse_step_name(data.decode("ascii").removesuffix("\n"))
    except UnicodeDecodeError:
        return None
