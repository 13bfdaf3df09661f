"""Reads heartbeats, whose writers are not trusted (`user_folders`, `heartbeat_file`)."""

from __future__ import annotations

from gsched.errors import DataError
from gsched.telemetry.heartbeat_file import (
    CURVE_OFFSET,
    FILE_BYTES,
    HeartbeatRecord,
    decode_curve,
    decode_record,
    file_name,
)
from gsched.telemetry.loss_curve import LossCurve
from gsched.telemetry.user_folders import UserFolders

CLOCK_SKEW_S = 300.0
"""Clocks of nodes and of this host may differ by so much: between others munge lets nobody in."""

MAX_RANKS = 4096
"""Of a job with more ranks only so many are read."""


class HeartbeatFolder(UserFolders):
    """The heartbeat folder of a site, to be used in a ``with``: users' folders stay open."""

    def record(self, uid: int, job: str, rank: int = 0) -> HeartbeatRecord | None:
        """What a rank of a job of the user `uid` last told; None where it tells nothing.

        `job` is an id as in `heartbeat_file`. Raises DataError for a file that is not to be
        believed.
        """
        data = self._read(uid, job, rank, CURVE_OFFSET, 0)
        if data is None:
            return None
        record = decode_record(data)
        if (record.job, record.rank) != (job, rank):
            raise DataError(f"it is the heartbeat of job {record.job}, rank {record.rank}")
        return record

    def curve(self, uid: int, job: str) -> LossCurve | None:
        """The loss of a job, None where it tells nothing. Raises DataError as `record` does."""
        data = self._read(uid, job, 0, FILE_BYTES - CURVE_OFFSET, CURVE_OFFSET)
        return decode_curve(data)[1] if data else None

    def ranks(self, uid: int, job: str, world_size: int) -> list[HeartbeatRecord]:
        """What all ranks of a job tell; those that tell nothing believable are left out."""
        found = []
        for rank in range(min(world_size, MAX_RANKS)):
            try:
                record = self.record(uid, job, rank)
            except DataError:
                continue
            if record is not None:
                found.append(record)
        return found

    def _read(self, uid: int, job: str, rank: int, size: int, offset: int) -> bytes | None:
        return self.read(uid, file_name(job, rank), size, offset, FILE_BYTES)
