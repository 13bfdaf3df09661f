"""What the history answers: plain values, no database types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gsched.model.history import PastJob
from gsched.model.journal import Change, ChangeState


class LiveAttempt(Protocol):
    """An attempt as squeue lists it (``gsched.slurm.records.QueueRow`` is one)."""

    @property
    def job_id(self) -> int:
        """The id that users see."""
        ...

    @property
    def array_task(self) -> int | None:
        """The array task, None for a job that is none."""
        ...

    @property
    def het_offset(self) -> int | None:
        """The het component, None for a job that is none."""
        ...

    @property
    def submit_time(self) -> int:
        """Submit time of the attempt."""
        ...

    @property
    def restarts(self) -> int:
        """How often Slurm has restarted the job."""
        ...


@dataclass(frozen=True, slots=True)
class InitResult:
    """What `History.create` did to the database at `location`; `before` None: it was empty."""

    location: str
    before: str | None
    revision: str

    @property
    def changed(self) -> bool:
        """Whether anything had to be done."""
        return self.before != self.revision


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What became of the rows of one batch.

    rows_in = attempts_new + attempts_updated + unchanged + rejected + skipped. `unchanged` are
    records that told nothing new, and further records of an attempt counted before.
    `rejected_new` of the rejected rows had not been seen before.
    """

    rows_in: int = 0
    attempts_new: int = 0
    attempts_updated: int = 0
    unchanged: int = 0
    rejected: int = 0
    skipped: int = 0
    rejected_new: int = 0

    def __add__(self, other: IngestSummary) -> IngestSummary:
        return IngestSummary(
            self.rows_in + other.rows_in,
            self.attempts_new + other.attempts_new,
            self.attempts_updated + other.attempts_updated,
            self.unchanged + other.unchanged,
            self.rejected + other.rejected,
            self.skipped + other.skipped,
            self.rejected_new + other.rejected_new,
        )


@dataclass(frozen=True, slots=True)
class PastJobs:
    """Finished jobs to learn from.

    `left_out` finished jobs ran too, but nobody has told their user, their state, or how many
    GPUs, CPUs or nodes they had.
    """

    jobs: Sequence[PastJob]
    left_out: int


@dataclass(frozen=True, slots=True)
class HistoryStats:
    """What the database holds.

    `rows` by table; `states` counts logical jobs; `unknown_states` counts attempts by a state text
    that gsched does not know. `gpu_time_s` is the sum over `gpu_time_jobs` of the `finished_jobs`:
    of the others nobody has told the GPUs or an end. `size_bytes` is 0 for a server.
    """

    location: str
    revision: str
    rows: Mapping[str, int]
    states: Mapping[str, int]
    unknown_states: Mapping[str, int]
    first_submit: int | None
    last_end: int | None
    finished_jobs: int
    gpu_time_jobs: int
    gpu_time_s: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One journalled change, the round that decided it, and how far it came."""

    change: Change
    round_id: str
    policy: str
    acting: bool
    state: ChangeState
    decided_at: int
    settled_at: int | None
    detail: str
    transitions: tuple[tuple[int, str, str], ...] = ()  # (time, state, detail)
