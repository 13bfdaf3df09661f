"""What the history answers: plain values, no database types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gsched.model.history import AttemptRecord, PastJob
from gsched.model.job import JobKey, JobState
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
class HistoryFilter:
    """Which jobs to list; empty = all. Newest first by first submit.

    `since`/`until` choose jobs that were waiting or running in that time. `names` are whole names.
    """

    users: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    states: tuple[JobState, ...] = ()
    names: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None
    job_id: int | None = None
    array_task: int | None = None
    het_offset: int | None = None
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class HistoryJob:
    """One logical job with its attempts, oldest first. None = nobody has told.

    `start_time`, `end_time`, `duration_s` and `state` are of the last attempt; `end_time` is None
    until the job has ended. `queueing_s` counts from the first submit to the last start, without
    the seconds that earlier attempts ran. `gpu_time_s` is over all attempts.
    """

    key: JobKey
    user: str | None
    tenant: str | None
    partition: str | None
    qos: str | None
    name: str | None
    state: JobState
    state_text: str
    start_time: int | None
    end_time: int | None
    time_limit_s: int | None
    num_nodes: int | None
    num_cpus: int | None
    num_gpus: int | None
    queueing_s: int | None
    duration_s: int | None
    gpu_time_s: int | None
    attempts: tuple[AttemptRecord, ...] = ()


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


def history_document(job: HistoryJob) -> dict[str, Any]:
    """A job as JSON: times epoch seconds, durations seconds, null = nobody has told."""
    return {
        "job": job.key.slurm_id,
        "cluster": job.key.cluster,
        "user": job.user,
        "account": job.tenant,
        "partition": job.partition,
        "qos": job.qos,
        "name": job.name,
        "state": job.state.value,
        "state_text": job.state_text,
        "num_gpus": job.num_gpus,
        "num_cpus": job.num_cpus,
        "num_nodes": job.num_nodes,
        "time_limit_s": job.time_limit_s,
        "submit_time": job.key.epoch,
        "start_time": job.start_time,
        "end_time": job.end_time,
        "queueing_s": job.queueing_s,
        "duration_s": job.duration_s,
        "gpu_time_s": job.gpu_time_s,
        "attempts": [_attempt_document(a) for a in job.attempts],
    }


def _attempt_document(attempt: AttemptRecord) -> dict[str, Any]:
    start, end = attempt.start_time, attempt.end_time
    return {
        "submit_time": attempt.submit_time,
        "eligible_time": attempt.eligible_time,
        "start_time": start,
        "end_time": end,
        "duration_s": None if start is None or end is None else end - start,
        "state": attempt.state.value,
        "state_text": attempt.state_text,
        "exit_code": attempt.exit_code,
        "exit_signal": attempt.exit_signal,
        "num_gpus": attempt.num_gpus,
        "num_cpus": attempt.num_cpus,
        "num_nodes": attempt.num_nodes,
        "node_list": attempt.node_list,
        "restarts": attempt.restarts,
        "source": attempt.source,
        "requested": {t.name: t.count for t in attempt.requested},
        "allocated": {t.name: t.count for t in attempt.allocated},
    }
