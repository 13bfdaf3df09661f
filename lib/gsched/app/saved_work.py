"""What a job has saved, by its own word, for who is about to stop it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gsched.app.told_progress import told_by
from gsched.config.settings import Settings
from gsched.errors import DataError
from gsched.model.job import JobState
from gsched.slurm.records import QueueRow

_MAX_LINES = 5


@dataclass(frozen=True, slots=True)
class SavedWork:
    """A job's folder of checkpoints: `committed_step` is saved (None: none yet), `step` is done."""

    folder: str
    committed_step: int | None
    step: int
    is_running: bool

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {"dir": self.folder, "committed_step": self.committed_step, "step": self.step}

    def words(self, kill_wait_s: int) -> str:
        """What is saved, and what will be: `kill_wait_s` is Slurm's, from SIGTERM to SIGKILL."""
        saved = f"none of {self.step:,} steps is saved"
        if self.committed_step is not None:
            saved = f"step {self.committed_step:,} of {self.step:,} is saved"
        said = f"keeps checkpoints in {self.folder}: by its last word {saved}"
        if not self.is_running:
            return said
        return f"{said}; at SIGTERM it saves once more, within {kill_wait_s} s (KillWait)"


def saved_work(settings: Settings, row: QueueRow, at: int) -> SavedWork | None:
    """What a job tells; None where it tells nothing, or nothing to be believed."""
    try:
        told = told_by(settings, row, at)
    except DataError:
        return None
    if told is None or told.progress.record.checkpoint_dir is None:
        return None
    record = told.progress.record
    is_running = row.state is JobState.RUNNING and told.progress.is_running
    return SavedWork(record.checkpoint_dir or "", record.committed_step, record.step, is_running)


def lines(found: Iterable[tuple[str, SavedWork | None]], kill_wait_s: int) -> Iterator[str]:
    """A line for each of the first jobs that have saved something, and one for how many more."""
    with_some = [(job, saved) for job, saved in found if saved is not None]
    for job, saved in with_some[:_MAX_LINES]:
        yield f"{job} {saved.words(kill_wait_s)}"
    if more := len(with_some[_MAX_LINES:]):
        yield f"{more} more keep checkpoints"
