"""In which folder a job keeps its checkpoints, by the job's own word."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from gsched.app.array_part import means
from gsched.app.named_job import named_job
from gsched.app.past_sources import find_jobs
from gsched.app.told_progress import told_by
from gsched.app.user_names import user_number
from gsched.app.wiring import now, slurm_client
from gsched.config.settings import Settings
from gsched.errors import DataError, GschedError, NoCheckpointError
from gsched.model.jobid import JobId
from gsched.model.past import HistoryFilter, HistoryJob
from gsched.slurm.records import QueueRow

_HINT = "name the folder itself"


def checkpoint_folder(settings: Settings, job: str) -> Path:
    """The folder that a job of the queue, or of the history, has named in its heartbeat.

    Raises NoCheckpointError where none is told, and where the folder is not the job's owner's:
    whoever works in it for somebody else (root) shall not be led elsewhere.
    """
    wanted = named_job(job)
    if not settings.heartbeat.dir:
        raise NoCheckpointError(
            f"where job {job} keeps its checkpoints is not known: [heartbeat] dir is not set", _HINT
        )
    for found in _jobs(settings, wanted):
        try:
            told = told_by(settings, found, now())
        except DataError as e:
            raise NoCheckpointError(
                f"where job {job} keeps its checkpoints is not known: its heartbeat is not "
                f"believed: {e.message}",
                _HINT,
            ) from e
        if told and told.progress.record.checkpoint_dir:
            return _of_owner(Path(told.progress.record.checkpoint_dir), found.user or "", job)
    raise NoCheckpointError(
        f"job {job} tells of no folder of checkpoints (or is not known, or not yours to see)", _HINT
    )


def _jobs(settings: Settings, wanted: JobId) -> Iterator[QueueRow | HistoryJob]:
    """The job in Slurm's queue, else in the history; several that it may be, newest first."""
    rows = slurm_client(settings).queue(states="all").rows
    present = [row for row in rows if means(wanted, row)]
    yield from present
    if not present:
        try:
            yield from find_jobs(settings, HistoryFilter.of_job(wanted, limit=10), now()).jobs
        except GschedError:
            return  # no history on this host: nobody else knows whose job it was


def _of_owner(folder: Path, user: str, job: str) -> Path:
    uid = user_number(user)
    if uid == os.geteuid():
        return folder
    try:
        place = folder.resolve(strict=True)
        owner = place.stat().st_uid
    except (OSError, RuntimeError) as e:
        raise NoCheckpointError(f"{folder}, where job {job} keeps checkpoints: {e}", _HINT) from e
    if owner != uid:
        raise NoCheckpointError(
            f"job {job} of {user} says that its checkpoints are in {folder}, which is not {user}'s",
            "if that is right all the same, name the folder itself",
        )
    return place
