"""What the adapter reads from Slurm, before it becomes model values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gsched.errors import DataError
from gsched.model.cluster import NodeView
from gsched.model.history import Reject, Tres
from gsched.model.hostlist import expand
from gsched.model.job import GpuOption, JobState
from gsched.model.jobid import TaskRange, TaskSet, parse_tasks
from gsched.model.units import parse_time_limit

DEFAULT_CRED_EXPIRE_S = 120
"""cred_expire where AuthInfo does not set it, see slurm.conf(5)."""

DEFAULT_MAX_AGE_S = 7 * 86400
"""PriorityMaxAge, where it is not told."""

DEFAULT_KILL_WAIT_S = 30
"""KillWait, where it is not told."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One job of squeue(1), without any of its free text.

    `raw_id` is Slurm's own number of the job, `job_id` the one that users see (the array's, the
    het leader's). An array whose tasks have not been split off yet is one row with
    `is_unsplit_array` and the task expression in `array_tasks`. Of a pending job, `start_time` and
    `end_time` are what the backfill scheduler or ``--begin`` announce; of a running one, `end_time`
    is when its limit ends it. GPUs, shards and memory are totals over all nodes, `gpus_per_node` is
    what each node must give, 0 when only the total is asked for; `tres` is what is allocated or,
    before the start, requested. None and empty texts: Slurm shows no value.

    `min_nodes` is the least that was asked for. `max_nodes` is the most, or `min_nodes` when no
    most was named: Slurm shows both alike, so that a job may get more nodes than its `max_nodes`.
    """

    raw_id: int
    job_id: int
    array_task: int | None
    het_offset: int | None
    array_tasks: str
    is_unsplit_array: bool
    state: JobState
    state_text: str
    reason: str
    user: str
    tenant: str
    qos: str
    partitions: tuple[str, ...]
    priority: int
    nice: int
    submit_time: int
    eligible_time: int | None
    start_time: int | None
    end_time: int | None
    time_limit_s: int | None
    min_nodes: int
    max_nodes: int
    num_cpus: int
    num_gpus: int
    gpu_options: tuple[GpuOption, ...]
    shards: int
    mem_bytes: int
    features: str
    licences: str
    reservation: str
    dependency: str
    restarts: int
    is_batch: bool
    node_list: str
    can_requeue: bool = True
    tres: tuple[Tres, ...] = ()
    gpus_per_node: int = 0

    @property
    def slurm_id(self) -> str:
        """The spelling that users see and Slurm's commands take: ``7``, ``7_3``, ``7+1``."""
        if self.array_task is not None:
            return f"{self.job_id}_{self.array_task}"
        if self.het_offset is not None:
            return f"{self.job_id}+{self.het_offset}"
        return str(self.job_id)

    @property
    def task(self) -> int | None:
        """The array task that this row is of, also one that waits alone in its array's record."""
        if not self.is_unsplit_array:
            return self.array_task
        waiting = self.tasks
        return next(iter(waiting)) if waiting is not None and len(waiting) == 1 else None

    @property
    def tasks(self) -> TaskSet | None:
        """The array tasks of this row, none of a job that is no array's.

        None for an expression of Slurm's that is not understood: which tasks wait in this row is
        not known then, and no command may fail for it.
        """
        if self.array_task is not None:
            return TaskSet((TaskRange(self.array_task, self.array_task),))
        if not self.is_unsplit_array:
            return TaskSet(())
        try:
            return parse_tasks(self.array_tasks)
        except DataError:
            return None

    @property
    def hosts(self) -> frozenset[str] | None:
        """The nodes that it holds; None for a host list of Slurm's that is not understood."""
        try:
            return frozenset(expand(self.node_list))
        except DataError:
            return None


@dataclass(frozen=True, slots=True)
class QueueListing:
    """One squeue: the jobs in its order, and the records that could not be understood.

    `texts` has names and comments by raw id where they were asked for, else nothing.
    """

    rows: tuple[QueueRow, ...]
    rejects: tuple[Reject, ...]
    texts: Mapping[int, FreeText] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FreeText:
    """The texts that a job's owner chose: hostile input, read once a job."""

    name: str
    comment: str


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node, and what is known of its power (epoch seconds, None = Slurm does not know).

    `last_busy_time`: when it last ran a job, or came up. `reason` is why it is down or drained, in
    the words of whoever did it.
    """

    view: NodeView
    boot_time: int | None
    last_busy_time: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class NodeGres:
    """What a job holds on one node: `gpus` in all and by type ("" = untyped), the GPUs' `indexes`.

    `gres` is Slurm's own text (``gpu:a100:2(IDX:0-1)``), `indexes` empty where it names none.
    """

    node: str
    gpus: int
    gpu_types: tuple[tuple[str, int], ...]
    indexes: tuple[int, ...]
    gres: str


@dataclass(frozen=True, slots=True)
class JobDetail:
    """One job, in the words of slurmctld, beyond its row in the queue.

    Texts are as Slurm has them, "" where it has none; name, comment, command, paths and the submit
    line are the owner's own and hostile. `submit_line` is known from release 25.11 on, else "".
    Exit codes are None as long as the job has not ended. `node_gres` is empty unless the job holds
    GRES. `start_nodes` are those on which the backfill scheduler means to start a pending job,
    `last_evaluation_time` is when a scheduler last looked at it, `deadline` that of ``--deadline``.
    """

    raw_id: int
    name: str
    comment: str
    admin_comment: str
    system_comment: str
    command: str
    work_dir: str
    std_in: str
    std_out: str
    std_err: str
    submit_line: str
    container: str
    reason: str
    features: str
    preferred_features: str
    dependency: str
    licences: str
    reservation: str
    required_nodes: str
    excluded_nodes: str
    start_nodes: str
    batch_host: str
    node_list: str
    node_gres: tuple[NodeGres, ...]
    exit_code: int | None
    exit_signal: int | None
    deadline: int | None
    last_evaluation_time: int | None
    restarts: int


@dataclass(frozen=True, slots=True)
class AccountingFilter:
    """Which jobs the accounting is asked for; an empty field leaves all in, words of one are "or".

    Users and accounts are names, `job_ids` in any of Slurm's spellings (an array's or het job's
    id means all of its parts), `names` whole job names. `states` are sacct's (``CD``,
    ``COMPLETED``): RUNNING and PENDING mean jobs that were so at some time in the window.
    """

    users: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    job_ids: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SacctForm:
    """How sacct is asked: as JSON, which takes longer; with steps, which takes much longer."""

    as_json: bool = False
    keeps_steps: bool = False


@dataclass(frozen=True, slots=True)
class PriorityRow:
    """One job of sprio(1).

    `components` are weighted points (age, fairshare, jobsize, partition, qos, assoc, tres).
    `is_manual`: an admin has set the priority itself, so that no factor counts any more.
    """

    raw_id: int
    total: int
    site_factor: int
    nice: int
    components: Mapping[str, int]
    is_manual: bool


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """``scontrol show config``: `values` by key as printed, and what gsched needs parsed."""

    values: Mapping[str, str]

    def get(self, key: str, default: str = "") -> str:
        """The value of `key`; `default` when absent or Slurm's ``(null)``."""
        value = self.values.get(key, default)
        return default if value == "(null)" else value

    def flags(self, key: str) -> dict[str, str]:
        """A comma list such as SchedulerParameters: name → value ('' for a bare flag)."""
        pairs = (item.partition("=") for item in self.get(key).split(",") if item.strip())
        return {name.strip(): value.strip() for name, _, value in pairs}

    def hides(self, *what: str) -> bool:
        """Whether PrivateData hides any of these kinds (``jobs``, ``usage``) from other users."""
        hidden = {name.strip() for name in self.get("PrivateData").lower().split(",")}
        return not hidden.isdisjoint(what)

    @property
    def cluster(self) -> str:
        """ClusterName."""
        return self.get("ClusterName")

    @property
    def version(self) -> tuple[int, ...]:
        """Slurm's release, (22, 5, 8) for ``22.05.8``."""
        return tuple(int(p) for p in self.get("SLURM_VERSION").split(".")[:3] if p.isdigit())

    @property
    def has_slurmdbd(self) -> bool:
        """Whether slurmdbd keeps this cluster's accounts, so that sacct and sacctmgr answer."""
        return self.get("AccountingStorageType") == "accounting_storage/slurmdbd"

    @property
    def requeue_wait_s(self) -> int:
        """Seconds for which Slurm does not start a requeued job again.

        So long a node may still hold the credential of its last start: cred_expire of AuthInfo,
        and one second more.
        """
        text = self.flags("AuthInfo").get("cred_expire", "")
        return 1 + (int(text) if text.isdecimal() else DEFAULT_CRED_EXPIRE_S)

    @property
    def max_age_s(self) -> int:
        """Seconds of waiting after which the age factor is at its most (PriorityMaxAge)."""
        try:
            return parse_time_limit(self.get("PriorityMaxAge")) or DEFAULT_MAX_AGE_S
        except DataError:
            return DEFAULT_MAX_AGE_S

    @property
    def kill_wait_s(self) -> int:
        """Seconds from SIGTERM to SIGKILL where a job is ended (KillWait)."""
        text = self.get("KillWait").partition(" ")[0]
        return int(text) if text.isdecimal() else DEFAULT_KILL_WAIT_S

    @property
    def gives_out_memory(self) -> bool:
        """Whether memory is something that jobs are given (SelectTypeParameters=CR_…_Memory)."""
        return "memory" in self.get("SelectTypeParameters").lower()

    @property
    def has_jobcomp_file(self) -> bool:
        """Whether slurmctld writes ended jobs to jobcomp/filetxt's file (JobCompLoc)."""
        return self.get("JobCompType") == "jobcomp/filetxt"

    def weights(self) -> dict[str, int]:
        """The PriorityWeight… values by lower-case factor name; TRES weights are not numbers."""
        prefix = "PriorityWeight"
        return {
            key.removeprefix(prefix).lower(): int(value)
            for key, value in self.values.items()
            if key.startswith(prefix) and value.isdigit()
        }


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """Slurm's answer to one line of an update: `error` is empty when it was taken."""

    slurm_id: str
    error: str
