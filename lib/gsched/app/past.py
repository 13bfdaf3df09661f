"""Past jobs as `gsched history` asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gsched.app.named_job import named_job
from gsched.app.when import parse_when
from gsched.app.wiring import open_history
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.model.job import JobState
from gsched.model.jobid import JobId
from gsched_sql import HistoryFilter, HistoryJob

_SHORT = {
    "BF": JobState.BOOT_FAIL,
    "CA": JobState.CANCELLED,
    "CD": JobState.COMPLETED,
    "CG": JobState.COMPLETING,
    "DL": JobState.DEADLINE,
    "F": JobState.FAILED,
    "NF": JobState.NODE_FAIL,
    "OOM": JobState.OUT_OF_MEMORY,
    "PD": JobState.PENDING,
    "PR": JobState.PREEMPTED,
    "R": JobState.RUNNING,
    "RQ": JobState.REQUEUED,
    "RV": JobState.REVOKED,
    "S": JobState.SUSPENDED,
    "TO": JobState.TIMEOUT,
}


@dataclass(frozen=True, slots=True)
class PastQuery:
    """What to list, as written on the command line; lists may be comma-separated."""

    users: tuple[str, ...]
    accounts: tuple[str, ...]
    partitions: tuple[str, ...]
    names: tuple[str, ...]
    states: tuple[str, ...]
    since: str | None
    until: str | None
    job: str | None
    limit: int


@dataclass(frozen=True, slots=True)
class PastList:
    """The jobs, newest first, and whether the limit has cut the list."""

    jobs: tuple[HistoryJob, ...]
    more: bool


def list_past(settings: Settings, query: PastQuery, now: int) -> PastList:
    """Jobs of the history. Raises UsageError for a state, time or id that is none."""
    job = _one_job(query.job)
    wanted = HistoryFilter(
        users=_split(query.users),
        tenants=_split(query.accounts),
        partitions=_split(query.partitions),
        names=query.names,  # may hold commas themselves
        states=tuple(_state(text) for text in _split(query.states)),
        since=None if query.since is None else parse_when(query.since, now),
        until=None if query.until is None else parse_when(query.until, now),
        job_id=job.job_id if job else None,
        array_task=job.array_task if job else None,
        het_offset=job.het_offset if job else None,
        limit=query.limit + 1,
    )
    with open_history(settings) as history:
        found = history.jobs(wanted)
    return PastList(tuple(found[: query.limit]), len(found) > query.limit)


def _split(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)


def _one_job(text: str | None) -> JobId | None:
    if text is None:
        return None
    job = named_job(text)
    if job.array_tasks is not None:
        raise UsageError(
            f"one job or one array task at a time, not {text!r}",
            f"-j {job.job_id} lists all tasks of the array",
        )
    return job


def _state(text: str) -> JobState:
    name = text.upper()
    try:
        return _SHORT.get(name) or JobState(name)
    except ValueError:
        known = ", ".join(state.value for state in JobState)
        raise UsageError(f"no such state: {text!r}", f"states: {known}") from None
