"""The columns of ``gsched queue`` and ``gsched top``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gsched.model.job import JobState
from gsched_cli.output import duration, local_time, memory
from gsched_cli.tables import Column

if TYPE_CHECKING:
    from gsched.app.queue import QueuedJob

DEFAULT = "rank,jobid,partition,name,user,state,gpus,predicted,time,why"

_FAILED = frozenset(
    {
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
    }
)


def state_style(job: QueuedJob) -> str | None:
    """Green runs, red has failed, yellow is being stopped or cleaned up."""
    if job.row.state is JobState.RUNNING:
        return "green"
    if job.row.state in _FAILED:
        return "red"
    return "yellow" if job.row.state in (JobState.SUSPENDED, JobState.COMPLETING) else None


def _why_style(job: QueuedJob) -> str | None:
    return "red" if job.is_pending and "can never start" in job.reason else None


def _text(name: str, heading: str, value: Callable[[QueuedJob], str]) -> Column[QueuedJob]:
    """A text, ``-`` where there is none."""
    return Column(name, heading, lambda job: value(job) or "-", lambda job: value(job) or None)


def _number(name: str, heading: str, value: Callable[[QueuedJob], int]) -> Column[QueuedJob]:
    return Column(name, heading, lambda job: str(value(job)), value, right=True)


def _time(name: str, heading: str, value: Callable[[QueuedJob], int | None]) -> Column[QueuedJob]:
    return Column(name, heading, lambda job: local_time(value(job)), value)


def _duration(
    name: str, heading: str, value: Callable[[QueuedJob], float | None]
) -> Column[QueuedJob]:
    return Column(name, heading, lambda job: duration(value(job)), value, right=True)


def _rank_order(job: QueuedJob) -> Any:
    return (job.rank["position"], job.rank["queue"]) if job.rank else None


def _id_order(job: QueuedJob) -> Any:
    row = job.row
    return (row.job_id, row.array_task or 0, row.het_offset or 0)


COLUMNS: tuple[Column[QueuedJob], ...] = (
    Column(
        "rank", "RANK", lambda j: j.rank_text, lambda j: j.rank and j.rank["position"], right=True,
        order=_rank_order,
    ),
    Column("jobid", "JOBID", lambda j: j.slurm_id, order=_id_order),
    _text("partition", "PARTITION", lambda j: j.partition),
    _text("name", "NAME", lambda j: j.name),
    _text("user", "USER", lambda j: j.user),
    _text("account", "ACCOUNT", lambda j: j.row.tenant),
    _text("qos", "QOS", lambda j: j.row.qos),
    Column("state", "STATE", lambda j: j.row.state_text, style=state_style),
    _number("gpus", "GPUS", lambda j: j.num_gpus),
    _text("gputype", "GPUTYPE", lambda j: ",".join(j.gpu_types)),
    _number("nodes", "NODES", lambda j: j.row.min_nodes),
    _number("cpus", "CPUS", lambda j: j.row.num_cpus),
    Column(
        "mem", "MEM", lambda j: memory(j.row.mem_bytes), lambda j: j.row.mem_bytes, right=True
    ),
    Column(
        "limit", "LIMIT", lambda j: duration(j.row.time_limit_s), lambda j: j.time_limit_s,
        right=True, order=lambda j: j.row.time_limit_s,
    ),
    _duration("left", "LEFT", lambda j: j.time_left_s),
    _duration("predicted", "PREDICTED", lambda j: j.predicted_duration_s),
    _time("slurm_start", "SLURM_START", lambda j: j.slurm_start_time),
    _duration("waited", "WAITED", lambda j: j.waited_s),
    _duration("running", "RUNNING", lambda j: j.running_s),
    _duration("time", "TIME", lambda j: j.waited_s if j.is_pending else j.running_s),
    _number("priority", "PRIORITY", lambda j: j.priority),
    _number("nice", "NICE", lambda j: j.row.nice),
    Column("why", "WHY", lambda j: j.reason, style=_why_style),
    _text("reason", "REASON", lambda j: j.row.reason),
    _time("submit", "SUBMIT", lambda j: j.row.submit_time),
    _time("eligible", "ELIGIBLE", lambda j: j.row.eligible_time),
    _time("start", "START", lambda j: j.start_time),
    _time("end", "END", lambda j: j.end_time),
    _text("nodelist", "NODELIST", lambda j: j.row.node_list),
    _text("reservation", "RESERVATION", lambda j: j.row.reservation),
    _text("dependency", "DEPENDENCY", lambda j: j.row.dependency),
    _text("features", "FEATURES", lambda j: j.row.features),
    _text("licences", "LICENCES", lambda j: j.row.licences),
    _number("restarts", "RESTARTS", lambda j: j.row.restarts),
    _text("comment", "COMMENT", lambda j: j.text.comment),
)  # fmt: skip
