"""The columns of `gsched eff` for many jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched_cli.output import count, duration, hours
from gsched_cli.tables import Column

if TYPE_CHECKING:
    from gsched.app.efficiency import Efficiency


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f}%"


def _gpu_share(job: Efficiency) -> float | None:
    return None if job.gpu_util_percent is None else job.gpu_util_percent / 100


def _wasted(job: Efficiency) -> tuple[float, float]:
    from gsched.app.waste import findings, wasted

    return wasted(findings(job))


def _reasons(job: Efficiency) -> str:
    from gsched.app.waste import findings

    return "; ".join(finding.words for finding in findings(job)) or "-"


COLUMNS: tuple[Column[Efficiency], ...] = (
    Column("jobid", "JOBID", lambda j: j.last.slurm_id),
    Column("user", "USER", lambda j: j.last.user or "-"),
    Column("account", "ACCOUNT", lambda j: j.last.account or "-"),
    Column("partition", "PARTITION", lambda j: j.last.partition or "-"),
    Column("name", "NAME", lambda j: j.last.name or "-"),
    Column("state", "STATE", lambda j: j.last.state_text),
    Column("gpus", "GPUS", lambda j: count(j.last.num_gpus), lambda j: j.last.num_gpus, True),
    Column("cpus", "CPUS", lambda j: count(j.last.num_cpus), lambda j: j.last.num_cpus, True),
    Column("run", "RUN", lambda j: duration(j.last.elapsed_s), lambda j: j.last.elapsed_s, True),
    Column("cpu", "CPU%", lambda j: _percent(j.cpu_efficiency), lambda j: j.cpu_efficiency, True),
    Column("mem", "MEM%", lambda j: _percent(j.mem_efficiency), lambda j: j.mem_efficiency, True),
    Column("gpu", "GPU%", lambda j: _percent(_gpu_share(j)), _gpu_share, True),
    Column("gpuhours", "GPUHOURS", lambda j: hours(j.gpu_time_s), lambda j: j.gpu_time_s, True),
    Column("wastedgpu", "WASTEDGPU", lambda j: hours(_wasted(j)[0]), lambda j: _wasted(j)[0], True),
    Column("wastedcpu", "WASTEDCPU", lambda j: hours(_wasted(j)[1]), lambda j: _wasted(j)[1], True),
    Column("reason", "REASON", _reasons),
)
DEFAULT = "jobid,user,name,state,gpus,run,cpu,mem,gpu,wastedgpu,reason"
