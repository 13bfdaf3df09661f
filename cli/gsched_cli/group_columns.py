"""The columns of `gsched history --by`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gsched.model.job import JobState
from gsched_cli.output import count, duration, hours
from gsched_cli.tables import Column

if TYPE_CHECKING:
    from gsched.model.usage_groups import Sums, UsageGroup

_NOT_ENDED = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING)


def _number(name: str, value: Callable[[UsageGroup], int]) -> Column[UsageGroup]:
    return Column(name, name.upper(), lambda g: count(value(g)), value, right=True)


def _hours(name: str, seconds: Callable[[UsageGroup], tuple[int, int]]) -> Column[UsageGroup]:
    """Hours for people, seconds for programs; nothing where no job's are known."""

    def known(group: UsageGroup) -> int | None:
        jobs, total = seconds(group)
        return total if jobs else None

    return Column(name, name.upper(), lambda g: hours(known(g)), known, right=True)


def _known_or_none(sums: Sums) -> tuple[int, int]:
    """GPU-seconds with the jobs that they are known of; of no jobs they are known to be 0."""
    return (sums.gpu_time_jobs, sums.gpu_time_s) if sums.jobs else (1, 0)


def _mean(jobs: int, seconds: int) -> float | None:
    return seconds / jobs if jobs else None


def _failed_share(group: UsageGroup) -> float | None:
    whole = group.total.gpu_time_s
    return group.failed.gpu_time_s / whole if whole else None


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def _time(name: str, value: Callable[[Sums], float | None]) -> Column[UsageGroup]:
    return Column(
        name, name.upper(), lambda g: duration(value(g.total)), lambda g: value(g.total), right=True
    )


COLUMNS: tuple[Column[UsageGroup], ...] = (
    Column("group", "GROUP", lambda g: "-" if g.key is None else str(g.key), lambda g: g.key),
    _number("jobs", lambda g: g.total.jobs),
    _number("attempts", lambda g: g.total.attempts),
    _number("completed", lambda g: g.of({JobState.COMPLETED}).jobs),
    _number("failed", lambda g: g.failed.jobs),
    _number("cancelled", lambda g: g.of({JobState.CANCELLED}).jobs),
    _number("notended", lambda g: g.of(_NOT_ENDED).jobs),
    _hours("gpuhours", lambda g: (g.total.gpu_time_jobs, g.total.gpu_time_s)),
    _number("gpujobs", lambda g: g.total.gpu_time_jobs),
    _hours("failedgpuhours", lambda g: _known_or_none(g.failed)),
    _number("failedgpujobs", lambda g: g.failed.gpu_time_jobs),
    Column("failedshare", "FAILED%", lambda g: _percent(_failed_share(g)), _failed_share, True),
    _hours("cpuhours", lambda g: (g.total.cpu_time_jobs, g.total.cpu_time_s)),
    _number("cpujobs", lambda g: g.total.cpu_time_jobs),
    _time("queued", lambda s: _mean(s.queueing_jobs, s.queueing_s)),
    _number("queuedjobs", lambda g: g.total.queueing_jobs),
    _time("run", lambda s: _mean(s.duration_jobs, s.duration_s)),
    _number("runjobs", lambda g: g.total.duration_jobs),
    Column("examples", "EXAMPLES", lambda g: ", ".join(g.examples)),
)
DEFAULT = (
    "group,jobs,completed,failed,cancelled,gpuhours,gpujobs,failedgpuhours,cpuhours,queued,run"
)
