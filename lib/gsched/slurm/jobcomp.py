"""Reads the file of jobcomp/filetxt on from where the last read ended.

The file is the history of clusters without slurmdbd. It says nothing of GPUs (sightings of squeue
fill them in), and its times are local to slurmctld: gsched must run in the same time zone, and the
hour that a clock change repeats is taken for its first pass.

It cannot be trusted against hostile users. Names and folders stand in it as they are, line ends
included, so that a name can hold whole records of other jobs, and nothing in the file tells those
from true ones. Slurm writes one record an attempt, so that one that contradicts another of the
same attempt, or what squeue told of its user, is refused (``app.jobcomp_twice``); what comes first
stays, forged or not. What can be seen to be ambiguous (text that looks like the begin of a record,
or a key that stands twice in one) is kept as a reject, never guessed. Sites whose users do not
trust each other need slurmdbd.

Of an array that is cancelled before its tasks are split off there is one record, which names none
of them: it is one job in the history, where slurmdbd tells of each task.
"""

from __future__ import annotations

import json
import os
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from gsched.errors import PermissionDeniedError, UnavailableError
from gsched.model.history import Batch, Reject
from gsched.slurm.parse_jobcomp import SOURCE, JobcompText, parse_jobcomp

_TAIL_BYTES = 1024  # more than a record has: its job id is among them
_MAX_READ_BYTES = 2**26


@dataclass(frozen=True, slots=True)
class _Position:
    """`offset` of the first unread byte of file `inode`; `tail`: checksum of the bytes before."""

    inode: int
    offset: int
    tail: int

    def fits(self, file: BinaryIO) -> bool:
        """Whether `file` is the one that was read, not truncated or written anew since."""
        status = os.fstat(file.fileno())
        return (
            status.st_ino == self.inode
            and status.st_size >= self.offset
            and _tail(file, self.offset) == self.tail
        )


def read_filetxt(path: Path, cluster: str, cursor: str = "") -> Batch:
    """The complete records behind `cursor`, the one of the last batch ("" = from the beginning).

    One call reads 64 MiB; the file has been read when a batch has no rows.
    A record that is still being written is left for the next read. After a rotation the old file
    is read to its end under its new name, then the new one. A truncated or overwritten file is
    read from the beginning. Raises UnavailableError or PermissionDeniedError when the file cannot
    be read.
    """
    position = _Position(**json.loads(cursor)) if cursor else None
    try:
        with path.open("rb") as file:
            fits = position is not None and position.fits(file)
            missed = _missed(path, position, cluster) if position and not fits else _NOTHING
            text, reached = _read_on(file, position.offset if position and fits else 0, cluster)
    except PermissionError:
        raise PermissionDeniedError(
            f"{path} may not be read", "let the user that runs gsched read jobcomp's file"
        ) from None
    except OSError as error:
        raise UnavailableError(
            f"{path}: {error.strerror}", "slurm.jobcomp_file names the file of jobcomp/filetxt"
        ) from None
    return Batch(
        records=missed.records + text.records,
        rejects=missed.rejects + text.rejects,
        rows_in=missed.rows_in + text.rows_in,
        cursor=json.dumps(asdict(reached)),
    )


_NOTHING = JobcompText((), (), 0)


def _read_on(file: BinaryIO, offset: int, cluster: str) -> tuple[JobcompText, _Position]:
    file.seek(offset)
    text = parse_jobcomp(file.read(_MAX_READ_BYTES), cluster)
    end = offset + text.consumed
    return text, _Position(os.fstat(file.fileno()).st_ino, end, _tail(file, end))


def _tail(file: BinaryIO, offset: int) -> int:
    begin = max(0, offset - _TAIL_BYTES)
    file.seek(begin)
    return zlib.crc32(file.read(offset - begin))


def _missed(path: Path, position: _Position, cluster: str) -> JobcompText:
    """What was written behind `position` before the file was put away."""
    for sibling in path.parent.glob(f"{path.name}?*"):
        if sibling.stat().st_ino != position.inode:
            continue
        with sibling.open("rb") as file:
            if position.fits(file):
                file.seek(position.offset)
                return parse_jobcomp(file.read(), cluster)
    lost = Reject(
        SOURCE, 0, f"{path.name} was replaced, and its unread end is gone (compressed?)", ""
    )
    return JobcompText((), (lost,), 0)
