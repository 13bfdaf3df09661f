"""Past jobs as the readers of Slurm deliver them and the history stores them."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.model.job import JobState


@dataclass(frozen=True, slots=True)
class Tres:
    """One trackable resource: Slurm's name (``cpu``, ``mem``, ``gres/gpu:a100``) and its count.

    Memory counts in bytes.
    """

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One run (or wait) of a job as one source told it; None = that source does not say.

    (cluster, job_id, array_task, het_offset, submit_time) names the attempt.
    """

    cluster: str
    job_id: int
    array_task: int | None
    het_offset: int | None
    submit_time: int
    state: JobState
    state_text: str  # as written by Slurm, also when `state` is UNKNOWN
    source: str  # "sacct", "jobcomp", "squeue", or the format of a trace ("philly")
    user: str | None = None
    tenant: str | None = None
    partition: str | None = None
    qos: str | None = None
    name: str | None = None
    eligible_time: int | None = None
    start_time: int | None = None
    end_time: int | None = None
    time_limit_s: int | None = None
    num_nodes: int | None = None
    num_cpus: int | None = None
    num_gpus: int | None = None
    requested: tuple[Tres, ...] = ()
    allocated: tuple[Tres, ...] = ()
    node_list: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    restarts: int | None = None  # how often Slurm had restarted the job before this attempt
    source_id: str | None = None  # the job's id in a source whose ids are no numbers of Slurm's
    phase: str | None = None  # what the source says that the job does (a value of model.phases)
    start_assumed: int | None = None  # 1: the source tells no start, which is taken to be submit
    extra: str | None = None  # JSON object: columns of the source that gsched has no place for


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One step of an attempt as the accounting told it; None = it does not say.

    The first five fields name the attempt, `step` (``batch``, ``extern``, ``0``) the step in it.
    `cpu_time_s` is user and system time of all tasks, `max_rss_bytes` the peak of the task that
    took most memory, `rss_bytes` the sum of all tasks' peaks, `gpu_mem_bytes` the peak of one
    task's memory on GPUs.
    """

    cluster: str
    job_id: int
    array_task: int | None
    het_offset: int | None
    submit_time: int
    step: str
    state: JobState
    name: str | None = None
    start_time: int | None = None
    end_time: int | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    num_nodes: int | None = None
    num_cpus: int | None = None
    num_tasks: int | None = None
    cpu_time_s: float | None = None
    max_rss_bytes: int | None = None
    rss_bytes: int | None = None
    gpu_utilization_pct: float | None = None
    gpu_mem_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """A time in which a node was down, drained, failing or asleep; `end_time` None: still so.

    `state` is as Slurm writes it. (cluster, node, start_time, state) names the event.
    """

    cluster: str
    node: str
    start_time: int
    state: str
    end_time: int | None = None
    reason: str | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Reject:
    """A row that could not be understood: kept, counted, reported."""

    source: str
    line: int
    reason: str
    raw: str


@dataclass(frozen=True, slots=True)
class Batch:
    """What one read of a source gave. rows in = len(records) + len(rejects) + steps skipped."""

    records: tuple[AttemptRecord, ...]
    rejects: tuple[Reject, ...]
    rows_in: int
    rows_skipped: int = 0  # rows that are no attempts of jobs (job steps)
    cursor: str = ""  # where the next read of this source begins
    steps: tuple[StepRecord, ...] = ()  # where they are wanted; their rows count as skipped


@dataclass(frozen=True, slots=True)
class PastJob:
    """A finished logical job, as the predictor learns from it.

    `duration_s` is the run time of its last attempt; `end_time` bounds what may be known when.
    None = nobody has told. `array_task` and `het_offset` tell jobs of one `job_id` apart.
    """

    cluster: str
    job_id: int
    submit_time: int
    start_time: int
    end_time: int
    user: str
    tenant: str
    partition: str
    name: str
    num_gpus: int
    num_cpus: int | None
    num_nodes: int | None
    time_limit_s: int | None
    state: JobState
    array_task: int | None = None
    het_offset: int | None = None

    @property
    def duration_s(self) -> int:
        """Seconds from start to end."""
        return self.end_time - self.start_time
