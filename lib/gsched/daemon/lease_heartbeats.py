"""What jobs tell of their checkpoints, for the leases of a live cluster.

A heartbeat is its owner's word: who forges one can have his own job keep its GPUs, as one does that
really cannot save, or lose them before it has saved. It decides of no other job. What is not to be
believed tells nothing.

The folder may lie on a file server that hangs. So it is read in a thread of its own, for which a
round waits a moment; until that thread is back, no heartbeat can be read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from gsched.engine.leases import NOT_READABLE, SaveReport
from gsched.errors import DataError
from gsched.model.accounts import LeaseGrant
from gsched.telemetry.heartbeat_file import HeartbeatRecord
from gsched.telemetry.heartbeats import CLOCK_SKEW_S, HeartbeatFolder

READ_LIMIT_S = 2.0
"""So long a round waits for one heartbeat: it takes less than a millisecond."""

Reports = Callable[[LeaseGrant, str], SaveReport | None]
"""What the job of a lease tells, whose user is of this name; None: nothing."""


def no_reports(_grant: LeaseGrant, _user: str) -> SaveReport | None:
    """Where jobs have no way to tell anything."""
    return None


class HeartbeatReports:
    """Reads rank 0's heartbeat of the lease's own attempt."""

    def __init__(self, folder: Callable[[], str], number_of: Callable[[str], int | None]) -> None:
        """`folder` gives the heartbeat folder's path, "" = none; `number_of` a user's uid."""
        self._folder = folder
        self._number_of = number_of
        self._reader: threading.Thread | None = None

    def __call__(self, grant: LeaseGrant, user: str) -> SaveReport | None:
        """See Reports."""
        path = self._folder()
        if not path:
            return None
        if self._reader is not None and self._reader.is_alive():
            return NOT_READABLE
        found: list[SaveReport | None] = []

        def read() -> None:
            uid = self._number_of(user)
            found.append(None if uid is None else _read(Path(path), uid, grant))

        self._reader = threading.Thread(target=read, name="gsched-lease-heartbeat", daemon=True)
        self._reader.start()
        self._reader.join(READ_LIMIT_S)
        return found[0] if found else NOT_READABLE


def _read(path: Path, uid: int, grant: LeaseGrant) -> SaveReport | None:
    """A lease is never one of a heterogeneous job: its job's id in Slurm names its heartbeat."""
    try:
        with HeartbeatFolder(path) as folder:
            record = folder.record(uid, grant.key.slurm_id)
    except DataError:
        return None
    return None if record is None else report_of(record, grant)


def report_of(record: HeartbeatRecord, grant: LeaseGrant) -> SaveReport | None:
    """What a heartbeat says of checkpoints; None where it says nothing of them, or is of another
    attempt.
    """
    tells = record.checkpoint_dir is not None or record.committed_step is not None
    is_of_before = record.started_time < grant.attempt - CLOCK_SKEW_S
    if not tells or is_of_before or record.restart != grant.restarts:
        return None
    # what the attempt went on from is saved as well
    committed = max(record.first_step, record.committed_step or 0)
    return SaveReport(record.step, committed, record.saving_since is not None)
