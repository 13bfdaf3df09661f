"""Past jobs as `gsched history` asks for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gsched.app.named_job import named_job
from gsched.app.named_states import named_states
from gsched.app.past_sources import Found, find_jobs
from gsched.app.when import parse_when
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.model.jobid import JobId
from gsched.model.past import HistoryFilter, HistoryJob, history_document
from gsched.slurm.states import parse_state


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
    """The jobs, newest first, whether the limit has cut the list, and where they are from."""

    jobs: tuple[HistoryJob, ...]
    more: bool
    found: Found

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds, durations seconds."""
        return {
            "source": self.found.source,
            "since": self.found.since,
            "users": list(self.found.users),
            "jobs": [history_document(job) for job in self.jobs],
            "more": self.more,
            "rejects": len(self.found.rejects),
        }


def list_past(settings: Settings, query: PastQuery, now: int) -> PastList:
    """Jobs of the history. Raises UsageError for a state, time or id that is none."""
    job = one_job(query.job) if query.job is not None else None
    wanted = HistoryFilter(
        users=_split(query.users),
        tenants=_split(query.accounts),
        partitions=_split(query.partitions),
        names=query.names,  # may hold commas themselves
        states=tuple({parse_state(name)[0] for name in named_states(query.states)}),
        since=None if query.since is None else parse_when(query.since, now),
        until=None if query.until is None else parse_when(query.until, now),
        job_id=job.job_id if job else None,
        array_task=job.array_task if job else None,
        het_offset=job.het_offset if job else None,
        limit=query.limit + 1,
    )
    found = find_jobs(settings, wanted, now)
    return PastList(found.jobs[: query.limit], len(found.jobs) > query.limit, found)


def _split(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)


def one_job(text: str) -> JobId:
    """One job, array task, het component, or an array or het job as a whole.

    Raises UsageError for several tasks, and for what is no job id.
    """
    job = named_job(text)
    if job.array_tasks is not None:
        raise UsageError(
            f"one job or one array task at a time, not {text!r}",
            f"{job.job_id} means all tasks of the array",
        )
    return job
