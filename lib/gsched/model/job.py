"""A job as gsched sees it: who it is, what it asks for, what is predicted of it."""

from __future__ import annotations

import enum
from dataclasses import dataclass

UNLIMITED_S = 2**31 - 1
"""Seconds that stand for Slurm's UNLIMITED time limit. No document shows them."""


def finite_limit_s(time_limit_s: int | None) -> int | None:
    """A time limit as documents have it: None where there is none, or nobody has told."""
    return None if time_limit_s is None or time_limit_s >= UNLIMITED_S else time_limit_s


class JobState(enum.Enum):
    """Base states of squeue(1) and sacct(1); anything else is UNKNOWN and its text is kept."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETING = "COMPLETING"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    REQUEUED = "REQUEUED"
    REVOKED = "REVOKED"
    UNKNOWN = "UNKNOWN"

    @property
    def is_terminal(self) -> bool:
        """Whether an attempt in this state has ended for good."""
        return self in _TERMINAL


_TERMINAL = frozenset(
    {
        JobState.COMPLETED,
        JobState.CANCELLED,
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
        JobState.REQUEUED,
        JobState.REVOKED,
    }
)


_HOLD_GPUS = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})


@dataclass(frozen=True, slots=True)
class JobKey:
    """One *logical* job, all its attempts together.

    `job_id` is the id that a user sees: the array's id for an array task, the leader's id for a
    heterogeneous component. `epoch` is the first submit time; it tells a reused id apart.
    Slurm moves the submit time at every requeue, so (key, submit_time) names an attempt.
    """

    cluster: str
    job_id: int
    array_task: int | None = None
    het_offset: int | None = None
    epoch: int = 0

    @property
    def slurm_id(self) -> str:
        """The spelling that Slurm's commands take: ``7``, ``7_3``, ``7+1``."""
        if self.array_task is not None:
            return f"{self.job_id}_{self.array_task}"
        if self.het_offset is not None:
            return f"{self.job_id}+{self.het_offset}"
        return str(self.job_id)


@dataclass(frozen=True, slots=True)
class CountRange:
    """A number of nodes between `minimum` and `maximum`, both included."""

    minimum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class GpuRange:
    """Total GPUs that a job can run on: `minimum`..`maximum` in steps of `step` (elastic jobs)."""

    minimum: int
    maximum: int
    step: int = 1


@dataclass(frozen=True, slots=True)
class GpuOption:
    """One acceptable kind of GPU (`None` = any), how many, and the job's relative speed on it."""

    gpu_type: str | None
    count: int
    relative_speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """What a job asks for. `mem_bytes` is the total over all nodes, 0 when not stated."""

    nodes: CountRange
    gpus: GpuRange
    num_cpus: int
    gpu_options: tuple[GpuOption, ...] = ()
    mem_bytes: int = 0
    shards: int = 0
    features: str = ""
    topology: str = ""
    licences: str = ""


class PredictionKind(enum.Enum):
    """What a prediction is about."""

    DURATION = "duration"  # seconds of run time
    START = "start"  # epoch seconds
    SPEED = "speed"  # iterations a second
    ITERATIONS = "iterations"  # iterations to the end
    DEMAND = "demand"  # nodes in use


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted quantity with its uncertainty and where it came from.

    `quantiles` are (probability, value) pairs in rising order. `source` is the rule that gave the
    value (``similar-name``, ``user-gpus``, …), `similar_jobs` the number of past jobs behind it,
    `as_of` the moment before which those jobs ended. `caution` is the factor, 1 or more, that is in
    `mean` (and not in the quantiles) because the user's jobs have outrun their predictions.
    """

    kind: PredictionKind
    mean: float
    quantiles: tuple[tuple[float, float], ...]
    source: str
    model_id: str
    similar_jobs: int
    as_of: int
    caution: float = 1.0


PHASES = ("pretrain", "eval", "sft", "debug")
"""What a job may say that it does."""

MAX_DEADLINE = 2**33
"""The last epoch time (in the year 2242) that can be a deadline."""

MAX_SOFT_DEADLINES = 8
MAX_PROFILES = 2
"""Profile runs of a job: one, or one on a node and one on two."""

MAX_JOB_ID = 2**31 - 1
MAX_REWARD = 1e9


@dataclass(frozen=True, slots=True)
class Wants:
    """What the user asked of gsched beyond Slurm's options (the request token).

    `deadline` is an epoch time by which the job shall have ended, `soft_deadlines` are (epoch
    time, reward) in rising order, the reward for having ended by then (0 < reward ≤ MAX_REWARD).
    `phases` are some of PHASES. `checkpoint`: the job has been submitted so that it saves
    checkpoints when it is told to, and goes on after them. `number` tells apart requests that are
    otherwise equal. `profiles` are the ids of the job's profile runs, the one on a single node
    first.
    """

    opt_out: bool = False
    deadline: int | None = None
    soft_deadlines: tuple[tuple[int, float], ...] = ()
    phases: tuple[str, ...] = ()
    shareable: bool = False
    checkpoint: bool = False
    number: int = 0
    profiles: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a running job is, from its own heartbeat."""

    iterations_done: int
    iterations_total: int | None
    as_of: int


@dataclass(frozen=True, slots=True)
class Allocation:
    """Where an attempt runs: node names and GPUs on each, in the same order."""

    nodes: tuple[str, ...]
    gpus: tuple[int, ...]
    start_time: int


class LeaseState(enum.Enum):
    """States of a lease: those that a revoked one passes through, in order, then the ends.

    Each is written down before the act that follows it: ENDING before the signal, SAVED before
    the requeue. SIGNALLED is what Slurm has accepted, REQUEUED what it has shown.
    """

    GRANTED = "granted"  # the job has its GPUs, until the end and as long as nobody revokes it
    ENDING = "ending"  # revoked: the job is to be told
    SIGNALLED = "signalled"  # it has been told to save
    SAVED = "saved"  # it has saved, or its grace is over: it is to be requeued
    REQUEUED = "requeued"  # it waits, in a new attempt
    REGRANTED = "regranted"  # over: it runs again
    RENEWED = "renewed"  # over: another lease of the same attempt follows
    KEPT = "kept"  # over: the revoke was taken back, the job runs on without a lease
    LAPSED = "lapsed"  # over: the revoke could not be carried out in its time; as KEPT
    REFUSED = "refused"  # over: Slurm refused to signal or to requeue the job; as KEPT
    ENDED = "ended"  # over: the job has ended by itself
    CANCELLED = "cancelled"  # over: somebody has cancelled it
    VANISHED = "vanished"  # over: Slurm does not know the job any more, nor how it ended

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow."""
        return not _LEASE_WAYS[self]

    @property
    def can_be_undone(self) -> bool:
        """Whether a revoke that has come so far can still be taken back.

        As long as the requeue was not sent, that is. A job that was told to save has done so for
        nothing, but runs on.
        """
        return LeaseState.KEPT in _LEASE_WAYS[self]

    def may_become(self, following: LeaseState) -> bool:
        """Whether `following` can be the next state."""
        return following in _LEASE_WAYS[self]


_JOB_IS_OVER = frozenset({LeaseState.ENDED, LeaseState.CANCELLED, LeaseState.VANISHED})
_NOT_REVOKED = frozenset({LeaseState.RENEWED, LeaseState.KEPT, LeaseState.LAPSED})
# Who else may requeue a job: its user, an admin, Slurm itself after a failure of a node.
_BY_ANOTHER = frozenset({LeaseState.REQUEUED})

_LEASE_WAYS: dict[LeaseState, frozenset[LeaseState]] = {
    LeaseState.GRANTED: frozenset({LeaseState.ENDING, LeaseState.RENEWED})
    | _BY_ANOTHER
    | _JOB_IS_OVER,
    LeaseState.ENDING: frozenset({LeaseState.SIGNALLED, LeaseState.REFUSED})
    | _NOT_REVOKED
    | _BY_ANOTHER
    | _JOB_IS_OVER,
    LeaseState.SIGNALLED: frozenset({LeaseState.SAVED}) | _NOT_REVOKED | _BY_ANOTHER | _JOB_IS_OVER,
    LeaseState.SAVED: frozenset({LeaseState.REQUEUED, LeaseState.REFUSED})
    | _NOT_REVOKED
    | _JOB_IS_OVER,
    LeaseState.REQUEUED: frozenset({LeaseState.REGRANTED}) | _JOB_IS_OVER,
} | {
    end: frozenset()
    for end in (
        LeaseState.REGRANTED,
        LeaseState.REFUSED,
        *_NOT_REVOKED,
        *_JOB_IS_OVER,
    )
}
"""From each state, those that may follow."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A fixed-length grant of GPUs that is renewed or revoked when it ends.

    `beneficiary`: the job, as Slurm spells it, for which a revoke under way is to free them; in a
    snapshot, and "" where there is none.
    """

    lease_id: str
    state: LeaseState
    start_time: int
    length_s: int
    beneficiary: str = ""

    @property
    def end_time(self) -> int:
        """Epoch second from which on it may be revoked."""
        return self.start_time + self.length_s


class Capability(enum.Enum):
    """What a policy may need from the backend that carries out its decisions."""

    REORDER = "reorder"
    PREEMPT = "preempt"
    PLACE = "place"
    SHARE = "share"
    RESIZE = "resize"
    POWER = "power"
    ADMIT = "admit"
    TUNE = "tune"
    ORACLE = "oracle"


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A reason (`code`, and `detail` for people) why `capability` must not touch a job."""

    capability: Capability
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class JobView:
    """Everything that a policy may know of one pending or running job.

    `tenant` is the Slurm account; `partitions` the ones the job may run in, in its own order.
    `name` is hostile text, as every free field from users. `attained_gpu_s` counts all attempts
    (None = not known). `restarts` is Slurm's count: a requeue raises it at once, the submit time
    only when the job has left its nodes. `waiting_tasks` is more than 1 for an array that Slurm has
    not split into jobs of their own yet, as far as it tells how many tasks there are.
    `awaits_profile`: its profile runs are not over yet.
    """

    key: JobKey
    attempt: int  # submit time of the present attempt
    state: JobState
    user: str
    tenant: str
    qos: str
    partitions: tuple[str, ...]
    name: str
    request: Request
    first_submit: int
    eligible: int | None
    time_limit_s: int | None
    wants: Wants = Wants()
    predictions: tuple[Prediction, ...] = ()
    progress: Progress | None = None
    attained_gpu_s: float | None = None
    allocation: Allocation | None = None
    lease: Lease | None = None
    group: str | None = None
    exclusions: tuple[Exclusion, ...] = ()
    pending_reason: str = ""
    restarts: int = 0
    waiting_tasks: int = 1
    awaits_profile: bool = False

    def exclusion(self, capability: Capability) -> Exclusion | None:
        """The first reason why `capability` must leave this job alone, or None."""
        return next((e for e in self.exclusions if e.capability is capability), None)

    @property
    def holds_gpus(self) -> bool:
        """Whether it holds what it was given: it runs, is suspended, or is being cleaned up."""
        return self.state in _HOLD_GPUS

    def prediction(self, kind: PredictionKind) -> Prediction | None:
        """The prediction of `kind`, or None when nothing is predicted."""
        return next((p for p in self.predictions if p.kind is kind), None)
