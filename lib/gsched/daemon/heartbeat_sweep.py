"""Reads the heartbeats of many jobs at once, for rounds that must not wait for a file server.

One thread reads; a round asks for a sweep, waits for a moment, and takes what is there: of a folder
that answers, all of it (a heartbeat takes a tenth of a millisecond), of one that hangs, what was
read before. As long as a sweep is under way no other begins.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gsched.errors import DataError
from gsched.model.job import JobKey
from gsched.telemetry.heartbeat_file import HeartbeatRecord
from gsched.telemetry.heartbeats import HeartbeatFolder

WAIT_S = 1.0
"""So long a round waits for a sweep."""

MOST_JOBS = 20_000
"""In one sweep."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A job whose heartbeat is wanted: the name of its file without the rank, and its owner."""

    key: JobKey
    file_job: str
    user: str


@dataclass(frozen=True, slots=True)
class Read:
    """A heartbeat, and when (epoch) this host read it."""

    record: HeartbeatRecord
    at: float


class HeartbeatSweep:
    """Rank 0's heartbeats by job. `is_behind`: the last sweep that was asked for is under way."""

    def __init__(
        self,
        number_of: Callable[[str], int | None],
        clock: Callable[[], float] = time.time,
        wait_s: float = WAIT_S,
    ) -> None:
        """`number_of` gives a user's uid, and may hang as well."""
        self._number_of = number_of
        self._clock = clock
        self._wait_s = wait_s
        self._thread: threading.Thread | None = None
        self._found: Mapping[JobKey, Read] = {}

    @property
    def is_behind(self) -> bool:
        """Whether what `read` gave last may be older than it need be."""
        return self._thread is not None and self._thread.is_alive()

    def read(self, folder: str, asked: Sequence[Asked]) -> Mapping[JobKey, Read]:
        """What the jobs `asked` tell in the heartbeat folder; those that tell nothing believable,
        or could not be read in time, are left out.
        """
        if not folder or not asked:
            return {}
        if not self.is_behind:
            jobs = tuple(asked[:MOST_JOBS])
            self._thread = threading.Thread(
                target=self._sweep, args=(Path(folder), jobs), name="gsched-heartbeats", daemon=True
            )
            self._thread.start()
            self._thread.join(self._wait_s)
        wanted = {job.key for job in asked}
        return {key: read for key, read in self._found.items() if key in wanted}

    def _sweep(self, path: Path, jobs: Sequence[Asked]) -> None:
        numbers: dict[str, int | None] = {}
        found = {}
        with HeartbeatFolder(path) as folder:
            for job in jobs:
                if job.user not in numbers:
                    numbers[job.user] = self._number_of(job.user)
                uid = numbers[job.user]
                record = None if uid is None else _record(folder, uid, job.file_job)
                if record is not None:
                    found[job.key] = Read(record, self._clock())
        self._found = found  # at once: rounds read it meanwhile


def _record(folder: HeartbeatFolder, uid: int, job: str) -> HeartbeatRecord | None:
    with suppress(DataError, OSError):
        return folder.record(uid, job)
    return None
