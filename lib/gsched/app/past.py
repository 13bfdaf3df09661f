"""Past jobs as `gsched history` and `gsched eff` ask for them: lists, and sums over groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any

from gsched.app.named_job import named_job
from gsched.app.named_states import named_states
from gsched.app.page_marks import page_mark, parse_page_mark
from gsched.app.past_sources import Found, find_jobs, find_usage
from gsched.app.queue_filter import own_name
from gsched.app.when import parse_when
from gsched.config.settings import Settings
from gsched.errors import DataError, UsageError
from gsched.model.hostlist import expand
from gsched.model.job import JobState
from gsched.model.jobid import MAX_JOB_ID, JobId
from gsched.model.past import HistoryFilter, HistoryJob, history_document
from gsched.model.phases import PHASE_VALUES
from gsched.model.usage_groups import GroupedUsage, Grouping, Sums, UsageGroup
from gsched.slurm.states import parse_state

UNCLASSIFIED = "unclassified"
"""The word for jobs without a phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastQuery:
    """What to list, as written on the command line; lists may be comma-separated.

    `names` are whole names, which may hold commas. `own`: only the caller's jobs. `after` is where
    the page before has ended (see ``page_marks``).
    """

    users: tuple[str, ...] = ()
    own: bool = False
    accounts: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    qos: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    node_lists: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    job: str | None = None
    limit: int
    after: str | None = None

    @property
    def is_narrowed(self) -> bool:
        """Whether anything was asked for that there may not be."""
        return replace(self, limit=0) != PastQuery(limit=0)


@dataclass(frozen=True, slots=True)
class PastList:
    """The jobs, newest first, where the list goes on (None: it does not), and their source."""

    jobs: tuple[HistoryJob, ...]
    after: str | None
    found: Found

    def document(self) -> dict[str, Any]:
        """As JSON; times epoch seconds, durations seconds."""
        return {
            **_origin(self.found),
            "jobs": [history_document(job) for job in self.jobs],
            "more": self.after is not None,
            "after": self.after,
        }


@dataclass(frozen=True, slots=True)
class PastGroups:
    """Sums over groups of jobs, and their source."""

    by: Grouping
    usage: GroupedUsage
    found: Found

    def document(self) -> dict[str, Any]:
        """As JSON; durations seconds, each sum with the number of jobs that it is over."""
        usage = self.usage
        return {
            **_origin(self.found),
            "by": self.by,
            "total": _sums_document(usage.total),
            "groups": [
                {"key": group.key, "examples": list(group.examples), **_sums_document(group)}
                for group in usage.groups
            ],
            "more": usage.num_groups > len(usage.groups),
            "num_groups": usage.num_groups,
            "pruned_jobs": usage.pruned_jobs,
            "pruned_left_out": usage.pruned_left_out,
        }


def _origin(found: Found) -> dict[str, Any]:
    return {
        "source": found.source,
        "since": found.since,
        "users": list(found.users),
        "rejects": len(found.rejects),
    }


def _sums_document(group: UsageGroup) -> dict[str, Any]:
    return {
        **_plain(group.total),
        "failed": _plain(group.failed),
        "states": {state.value: _plain(sums) for state, sums in group.by_state.items()},
    }


def _plain(sums: Sums) -> dict[str, int]:
    return {field.name: getattr(sums, field.name) for field in fields(sums)}


def list_past(settings: Settings, query: PastQuery, now: int) -> PastList:
    """Jobs of the history. Raises UsageError for a state, time, id, … that is none."""
    found = find_jobs(settings, chosen(query, query.limit + 1, now), now)
    jobs = found.jobs[: query.limit]
    more = len(found.jobs) > query.limit
    return PastList(jobs, page_mark(jobs[-1].key) if more else None, found)


def group_past(settings: Settings, query: PastQuery, by: Grouping, now: int) -> PastGroups:
    """Sums over the jobs of the history, of `query.limit` groups. Raises UsageError likewise."""
    if query.after is not None:
        raise UsageError(
            "groups have no pages: --after is for lists", "a greater --limit shows more"
        )
    found = find_usage(settings, chosen(query, query.limit, now), by, now)
    return PastGroups(by, found.usage, found.found)


def chosen(query: PastQuery, limit: int, now: int) -> HistoryFilter:
    """The filter that the words of the command line mean. Raises UsageError."""
    job = one_job(query.job) if query.job is not None else None
    return HistoryFilter(
        users=(*_split(query.users), *((own_name(),) if query.own else ())),
        tenants=_split(query.accounts),
        partitions=_split(query.partitions),
        names=query.names,
        qos=_split(query.qos),
        states=_states(query.states),
        phases=tuple(_phase(word) for word in _split(query.phases)),
        node_names=tuple(name for text in query.node_lists for name in _nodes(text)),
        clusters=_split(query.clusters),
        since=None if query.since is None else parse_when(query.since, now),
        until=None if query.until is None else parse_when(query.until, now),
        job_id=job.job_id if job else None,
        array_task=job.array_task if job else None,
        het_offset=job.het_offset if job else None,
        limit=limit,
        after=None if query.after is None else parse_page_mark(query.after),
    )


def _split(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(part for value in values for part in value.split(",") if part)


def _states(texts: Iterable[str]) -> tuple[JobState, ...]:
    return tuple({parse_state(name)[0] for name in named_states(texts)})


def _phase(word: str) -> str | None:
    name = word.strip().lower()
    if name == UNCLASSIFIED:
        return None
    if name not in PHASE_VALUES:
        raise UsageError(f"no such phase: {word!r}", f"{', '.join(PHASE_VALUES)}, {UNCLASSIFIED}")
    return name


def _nodes(text: str) -> list[str]:
    try:
        return expand(text)
    except DataError as error:
        raise UsageError(error.message, error.hint) from None


def one_job(text: str) -> JobId:
    """One job, array task, het component, or an array or het job as a whole.

    Raises UsageError for several tasks, and for what is no job id.
    """
    if text.isascii() and text.isdecimal() and MAX_JOB_ID < int(text) < 2**63:
        return JobId(int(text))  # of a trace: no id of Slurm's is so great
    job = named_job(text)
    if job.array_tasks is not None:
        raise UsageError(
            f"one job or one array task at a time, not {text!r}",
            f"{job.job_id} means all tasks of the array",
        )
    return job
