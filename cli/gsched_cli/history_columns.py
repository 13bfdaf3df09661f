"""The columns of `gsched history`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched.model.job import finite_limit_s
from gsched_cli.output import count, duration, local_time
from gsched_cli.tables import Column

if TYPE_CHECKING:
    from gsched.model.history import AttemptRecord
    from gsched.model.past import HistoryJob

_STYLES = {"COMPLETED": "green", "RUNNING": "cyan", "PENDING": None, "CANCELLED": "yellow"}


def _style(job: HistoryJob) -> str | None:
    return _STYLES.get(job.state.value, "red" if job.state.is_terminal else None)


COLUMNS: tuple[Column[HistoryJob], ...] = (
    Column("jobid", "JOBID", lambda j: j.key.slurm_id),
    Column("cluster", "CLUSTER", lambda j: j.key.cluster),
    Column("user", "USER", lambda j: j.user or "-", lambda j: j.user),
    Column("account", "ACCOUNT", lambda j: j.tenant or "-", lambda j: j.tenant),
    Column("partition", "PARTITION", lambda j: j.partition or "-", lambda j: j.partition),
    Column("qos", "QOS", lambda j: j.qos or "-", lambda j: j.qos),
    Column("name", "NAME", lambda j: j.name or "-", lambda j: j.name),
    Column("state", "STATE", lambda j: j.state_text, style=_style),
    Column("nodes", "NODES", lambda j: count(j.num_nodes), lambda j: j.num_nodes, right=True),
    Column("cpus", "CPUS", lambda j: count(j.num_cpus), lambda j: j.num_cpus, right=True),
    Column("gpus", "GPUS", lambda j: count(j.num_gpus), lambda j: j.num_gpus, right=True),
    Column("submit", "SUBMIT", lambda j: local_time(j.key.epoch), lambda j: j.key.epoch),
    Column("start", "START", lambda j: local_time(j.start_time), lambda j: j.start_time),
    Column("end", "END", lambda j: local_time(j.end_time), lambda j: j.end_time),
    Column(
        "limit",
        "LIMIT",
        lambda j: duration(j.time_limit_s),
        lambda j: finite_limit_s(j.time_limit_s),
        right=True,
    ),
    Column("queued", "QUEUED", lambda j: duration(j.queueing_s), lambda j: j.queueing_s, True),
    Column("run", "RUN", lambda j: duration(j.duration_s), lambda j: j.duration_s, True),
    Column("gputime", "GPUTIME", lambda j: duration(j.gpu_time_s), lambda j: j.gpu_time_s, True),
    Column("cputime", "CPUTIME", lambda j: duration(j.cpu_time_s), lambda j: j.cpu_time_s, True),
    Column("phase", "PHASE", lambda j: j.phase or "-", lambda j: j.phase),
    Column(
        "nodelist", "NODELIST", lambda j: _last(j).node_list or "-", lambda j: _last(j).node_list
    ),
    Column("source", "SOURCE", lambda j: _last(j).source),
    Column(
        "sourceid", "SOURCEID", lambda j: _last(j).source_id or "-", lambda j: _last(j).source_id
    ),
    Column("exit", "EXIT", lambda j: _exit(j) or "-", lambda j: _exit(j), right=True),
    Column("attempts", "ATTEMPTS", lambda j: str(len(j.attempts)), right=True),
)
DEFAULT = "jobid,user,account,partition,name,state,gpus,submit,queued,run,attempts"


def _last(job: HistoryJob) -> AttemptRecord:
    return job.attempts[-1]


def _exit(job: HistoryJob) -> str | None:
    last = _last(job)
    return None if last.exit_code is None else f"{last.exit_code}:{last.exit_signal or 0}"
