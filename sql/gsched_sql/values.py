"""What the history answers: plain values, no database types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

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
    """What `History.create` did to the database at `location`; `before` None: it was empty.

    `roles` are those that it made or brought up to date, `reader_database` is the name of the
    database that readers use.
    """

    location: str
    before: str | None
    revision: str
    roles: tuple[str, ...] = ()
    reader_database: str | None = None

    @property
    def changed(self) -> bool:
        """Whether anything had to be done."""
        return self.before != self.revision


@dataclass(frozen=True, slots=True)
class IngestSummary:
    """What became of the rows of one batch.

    rows_in = attempts_new + attempts_updated + unchanged + rejected + skipped + pruned. `unchanged`
    are records that told nothing new, and further records of an attempt counted before.
    `rejected_new` of the rejected rows had not been seen before. `pruned` are rows of jobs that
    ended before the time up to which the cluster has been pruned. `conflicts` are values, new here,
    that contradict another one of equal standing. `steps` were kept, new or altered, beside all of
    these.
    """

    rows_in: int = 0
    attempts_new: int = 0
    attempts_updated: int = 0
    unchanged: int = 0
    rejected: int = 0
    skipped: int = 0
    rejected_new: int = 0
    pruned: int = 0
    conflicts: int = 0
    steps: int = 0

    def __add__(self, other: IngestSummary) -> IngestSummary:
        return IngestSummary(
            self.rows_in + other.rows_in,
            self.attempts_new + other.attempts_new,
            self.attempts_updated + other.attempts_updated,
            self.unchanged + other.unchanged,
            self.rejected + other.rejected,
            self.skipped + other.skipped,
            self.rejected_new + other.rejected_new,
            self.pruned + other.pruned,
            self.conflicts + other.conflicts,
            self.steps + other.steps,
        )


@dataclass(frozen=True, slots=True)
class PastJobs:
    """Finished jobs to learn from.

    `left_out` finished jobs ran too, but nobody has told their user, their state, their times, or
    how many GPUs they had.
    """

    jobs: Sequence[PastJob]
    left_out: int


@dataclass(frozen=True, slots=True)
class PhaseCount:
    """Jobs of a phase (None: unclassified); `gpu_time_s` is the sum over `gpu_time_jobs`."""

    phase: str | None
    jobs: int
    gpu_time_jobs: int
    gpu_time_s: int


@dataclass(frozen=True, slots=True)
class RejectCount:
    """Rows of a source that were not understood, by reason."""

    source: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class LastIngest:
    """Where a reader goes on, and when (epoch) it last read; None: before schema 0003."""

    source: str
    cursor: str
    at: int | None


@dataclass(frozen=True, slots=True)
class HistoryStats:
    """What the database holds.

    `rows` and `bytes_by_table` (with indexes; empty where SQLite cannot tell) by table; `states`
    counts logical jobs; `unknown_states` counts attempts by a state text that gsched does not
    know. `gpu_time_s` is the sum over `gpu_time_jobs` of the `finished_jobs`: of the others nobody
    has told the GPUs or an end. `jobs_by_month` goes by first submit (UTC). `rejects` names the
    most frequent reasons. `prune_marks` by cluster: jobs that ended before have been pruned.
    """

    location: str
    revision: str
    rows: Mapping[str, int]
    bytes_by_table: Mapping[str, int]
    states: Mapping[str, int]
    unknown_states: Mapping[str, int]
    phases: Sequence[PhaseCount]
    first_submit: int | None
    last_end: int | None
    finished_jobs: int
    gpu_time_jobs: int
    gpu_time_s: int
    size_bytes: int
    jobs_by_month: Mapping[str, int]
    conflicts: Mapping[str, int]
    prune_marks: Mapping[str, int]
    last_ingests: Sequence[LastIngest]
    rejects: Sequence[RejectCount]

    @property
    def bytes_a_job(self) -> float | None:
        """Bytes of the whole database for each job in it; None while there is none."""
        return self.size_bytes / self.rows["jobs"] if self.rows["jobs"] else None


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


@dataclass(frozen=True, slots=True)
class PrunePlan:
    """What pruning would take from a cluster.

    `jobs` ended between `first_end` and `last_end` (epoch) and used `gpu_time_s`, as far as known.
    `unfinished` jobs are as old, but nobody has told that they ended: they stay.
    """

    cluster: str
    jobs: int
    attempts: int
    first_end: int | None
    last_end: int | None
    gpu_time_s: int
    unfinished: int

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows have gone, by kind; `texts_left` where this login may not take the texts."""

    counts: Mapping[str, int]
    texts_left: bool = False
