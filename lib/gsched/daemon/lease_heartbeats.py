"""What jobs tell of their checkpoints, for the leases of a live cluster.

A job that writes heartbeats does so at least once a minute. One that is older was left by a
process that is gone or stopped, or this host sees an old copy: it is no answer, and neither is a
folder that fails. Such a job keeps its GPUs. Only where there is no heartbeat a job tells nothing.

A heartbeat is its owner's word: who forges one can have his own job keep its GPUs, as one does that
really cannot save, or lose them before it has saved. It decides of no other job. What is not to be
believed tells nothing.

The folder may lie on a file server that hangs. So it is read in a thread of its own, for which a
round waits a moment; until that thread is back, no heartbeat can be read.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from gsched.engine.leases import CLOCK_SLACK_S, NOT_READABLE, SaveReport, unheard
from gsched.errors import DataError
from gsched.model.accounts import LeaseGrant
from gsched.telemetry.heartbeat_file import ALIVE_INTERVAL_S, HeartbeatRecord
from gsched.telemetry.heartbeats import CLOCK_SKEW_S, HeartbeatFolder
from gsched.telemetry.user_folders import UnreadableError

READ_LIMIT_S = 2.0
"""So long a round waits for one heartbeat: it takes less than a millisecond."""

MAX_AGE_S = ALIVE_INTERVAL_S + CLOCK_SLACK_S
"""An older heartbeat is not taken. Clocks of nodes that differ by more than the slack keep jobs on
their GPUs, which is told: the work is not lost."""

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
    except UnreadableError:
        return NOT_READABLE
    except DataError:
        return None
    if record is None:  # a folder that is not mounted looks like one in which nobody writes
        return None if path.is_dir() else NOT_READABLE
    return report_of(record, grant, time.time())


def report_of(record: HeartbeatRecord, grant: LeaseGrant, now: float) -> SaveReport | None:
    """What a heartbeat says of checkpoints at `now` (epoch); None where it says nothing of them, or
    is of another attempt.
    """
    tells = record.checkpoint_dir is not None or record.committed_step is not None
    is_of_before = record.started_time < grant.attempt - CLOCK_SKEW_S
    if not tells or is_of_before or record.restart != grant.restarts:
        return None
    if record.ended_time is not None:  # what the script does now nobody tells
        return unheard("its training has ended")
    if now - record.written_time > MAX_AGE_S:
        return unheard(f"its heartbeat was last written {now - record.written_time:,.0f} s ago")
    # what the attempt went on from is saved as well
    committed = max(record.first_step, record.committed_step or 0)
    is_writing = record.saving_since is not None
    return SaveReport(record.step, committed, is_writing, record.run, record.seq)
