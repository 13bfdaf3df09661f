"""Writes a rank's heartbeat file, as the user whose job it is; `heartbeat_file` is the format."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from gsched.errors import DataError
from gsched.telemetry.heartbeat_file import (
    CURVE_BYTES,
    CURVE_OFFSET,
    FILE_BYTES,
    RECORD_BYTES,
    HeartbeatRecord,
    decode_curve,
    decode_record,
    encode_curve,
    encode_record,
    file_name,
)
from gsched.telemetry.loss_curve import LossCurve
from gsched.telemetry.own_folder import OwnFolder, write_all


class HeartbeatFile:
    """One rank's file. All questions raise OSError where the folder, or a place in it, fails."""

    def __init__(self, folder: OwnFolder, job: str, rank: int) -> None:
        self._folder = folder
        self._name = file_name(job, rank)
        self.path = self._folder.path / self._name
        self._size = CURVE_OFFSET if rank else FILE_BYTES
        self._has_begun = False

    def before(self) -> tuple[HeartbeatRecord | None, LossCurve | None]:
        """What an earlier start of this job left, or None."""
        with suppress(FileNotFoundError), self._folder.open(self._name, os.O_RDONLY) as fd:
            data = os.pread(fd, self._size, 0)
            return _decoded(data)
        return None, None

    def write(self, record: HeartbeatRecord, curve: LossCurve | None) -> bool:
        """Put `record` and `curve` in place; the file gives the sequence number.

        False when a later start of the same job has taken the file over: nothing is written then.
        """
        self._folder.make()
        with self._folder.open(self._name, os.O_RDWR | os.O_CREAT) as fd:
            there = _decoded(os.pread(fd, CURVE_OFFSET, 0))[0]
            if self._has_begun and there and _is_of_later_start(there, record):
                return False
            seq = there.seq + 1 if there else 0
            if os.fstat(fd).st_size != self._size:
                os.ftruncate(fd, self._size)
            if curve is not None:
                write_all(fd, encode_curve(curve, seq), CURVE_OFFSET + seq % 2 * CURVE_BYTES)
            write_all(fd, encode_record(replace(record, seq=seq)), seq % 2 * RECORD_BYTES)
            self._has_begun = True
        return True

    def tidy(self) -> None:
        """Once a day a user's own files that are older than KEEP_DAYS go."""
        self._folder.tidy()


def _decoded(data: bytes) -> tuple[HeartbeatRecord | None, LossCurve | None]:
    record, curve = None, None
    with suppress(DataError):
        record = decode_record(data)
        curve = decode_curve(data[CURVE_OFFSET:])[1]
    return record, curve


def _is_of_later_start(there: HeartbeatRecord, ours: HeartbeatRecord) -> bool:
    """Clocks of nodes differ, so Slurm's count comes first."""
    if there.run == ours.run:
        return False
    return (there.restart, there.started_time) > (ours.restart, ours.started_time)
