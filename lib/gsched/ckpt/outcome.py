"""What became of a checkpoint that was to be written."""

from __future__ import annotations

import errno
from dataclasses import dataclass

from gsched.ckpt.manifest import Reason


@dataclass(frozen=True, slots=True)
class Committed:
    """The checkpoint of `step` is durable, on all ranks; with its cost in seconds, on this rank.

    `write_s` includes the checksum, `fsync_s` the wait for the device, `peers_s` that for other
    ranks. `num_bytes` is of this rank's file, 0 when the step was committed before.
    """

    step: int
    reason: Reason
    num_bytes: int
    write_s: float
    fsync_s: float
    peers_s: float


@dataclass(frozen=True, slots=True)
class Failed:
    """The checkpoint of `step` was not written; older ones stay.

    `step` is -1 for a flush for which no step was found. `error` is an errno's name (ENOSPC), or
    one of: given-up (by rank 0, which tells why), no-answer (of another rank), ended (another rank
    has), no-snapshot (none of this step is held), other-run (the step is there, of another
    training), taken-over (the folder is a later attempt's), writer-died, no-writer.
    """

    step: int
    reason: Reason
    error: str
    message: str


def errno_name(error: OSError) -> str:
    """The name of an error's number: ENOSPC. EIO for one without."""
    return errno.errorcode.get(error.errno or errno.EIO, "EIO")
