"""Where past jobs are read from: the history database, else the caller's own sacct, else squeue.

All three give logical jobs by the same rules (``gsched.model.past``), so that what is said of a
job does not depend on the host where it is asked, only on what that host can see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from gsched.app.queue_filter import own_name
from gsched.app.wiring import UNREADABLE_HISTORY, open_history, slurm_client, why_no_history
from gsched.config.settings import Settings
from gsched.errors import NoAccountingError, UnavailableError
from gsched.model.history import AttemptRecord, Reject
from gsched.model.past import HistoryFilter, HistoryJob, logical_jobs
from gsched.model.phases import PhaseRules, phase_of
from gsched.model.usage_groups import GroupedUsage, Grouping, grouped
from gsched.slurm.client import SlurmClient
from gsched.slurm.from_queue import to_attempt
from gsched.slurm.records import AccountingFilter

SACCT_WINDOW_S = 7 * 86_400
"""How far back sacct is read when nobody says since when."""

Source = Literal["database", "sacct", "squeue"]


@dataclass(frozen=True, slots=True)
class Found:
    """Logical jobs, newest first, at most as many as were asked for.

    `since` is the beginning of what was read (epoch), None for all that the source has; `users`
    those to whom it was narrowed, empty for all that the caller may see. `rejects` are rows that
    were not understood. `no_database` says why they are not from a database.
    """

    jobs: tuple[HistoryJob, ...]
    source: Source
    since: int | None = None
    users: tuple[str, ...] = ()
    rejects: tuple[Reject, ...] = ()
    no_database: str = ""


@dataclass(frozen=True, slots=True)
class FoundUsage:
    """Groups of logical jobs; `found` says where they are from, its jobs are left out."""

    usage: GroupedUsage
    found: Found


def find_jobs(settings: Settings, wanted: HistoryFilter, now: int) -> Found:
    """The jobs that `wanted` chooses.

    Without a database, and unless an id or a user is named, those are the caller's own; root sees
    everybody's. Raises UnavailableError where there is no database, no slurmdbd, and nothing of
    them in the queue any more.
    """
    no_database = why_no_history(settings)
    if not no_database:
        with open_history(settings) as history:
            return Found(tuple(history.jobs(wanted)), "database", wanted.since)
    return _from_slurm(settings, wanted, no_database, now)


def find_usage(settings: Settings, wanted: HistoryFilter, by: Grouping, now: int) -> FoundUsage:
    """Sums over the jobs that `wanted` chooses, of `wanted.limit` groups; as `find_jobs`."""
    no_database = why_no_history(settings)
    if not no_database:
        with open_history(settings) as history:
            usage = history.usage_by(wanted, by)
            return FoundUsage(usage, Found((), "database", wanted.since))
    found = _from_slurm(settings, replace(wanted, limit=None), no_database, now)
    return FoundUsage(grouped(found.jobs, by, wanted.limit), replace(found, jobs=()))


def _from_slurm(settings: Settings, wanted: HistoryFilter, no_database: str, now: int) -> Found:
    client = slurm_client(settings)
    if not wanted.users and wanted.job_id is None and os.getuid() != 0:
        wanted = replace(wanted, users=(own_name(),))  # as sacct does
    rules = settings.phases.rules
    try:
        return replace(_from_sacct(client, wanted, rules, now), no_database=no_database)
    except NoAccountingError:
        return _from_squeue(client, wanted, rules, no_database)


def _from_sacct(client: SlurmClient, wanted: HistoryFilter, rules: PhaseRules, now: int) -> Found:
    """What sacct shows to the caller."""
    by_id = wanted.job_id is not None
    since = wanted.since
    if since is None:
        since = 0 if by_id else now - SACCT_WINDOW_S
    chosen = AccountingFilter(
        users=wanted.users,
        accounts=wanted.tenants,
        job_ids=(str(wanted.job_id),) if by_id else (),
    )
    until = now + 1 if wanted.until is None else min(wanted.until, now + 1)
    batch = client.accounting(since, max(until, since + 1), chosen)
    jobs = _selected(batch.records, wanted, rules)
    if jobs and since > 0:
        jobs = _with_earlier_attempts(client, jobs, rules, now)
    return Found(jobs, "sacct", since or None, wanted.users, batch.rejects)


def _with_earlier_attempts(
    client: SlurmClient, jobs: Sequence[HistoryJob], rules: PhaseRules, now: int
) -> tuple[HistoryJob, ...]:
    """The same jobs with the attempts that had ended before the time that was read."""
    ids = tuple(dict.fromkeys(str(job.key.job_id) for job in jobs))
    batch = client.accounting(0, now + 1, AccountingFilter(job_ids=ids))
    known = {(job.key.slurm_id, job.attempts[-1].submit_time) for job in jobs}
    again = [
        job
        for job in logical_jobs(batch.records)
        if any((job.key.slurm_id, a.submit_time) in known for a in job.attempts)
    ]
    return tuple(_classified(again, rules))


def _from_squeue(
    client: SlurmClient, wanted: HistoryFilter, rules: PhaseRules, no_database: str
) -> Found:
    listing = client.queue("all", with_texts=True)
    cluster = client.config().cluster
    attempts = (to_attempt(row, listing.texts.get(row.raw_id), cluster) for row in listing.rows)
    jobs = _selected([a for a in attempts if a is not None], wanted, rules)
    if not jobs:
        raise UnavailableError(
            f"{no_database}, no slurmdbd on this cluster, and slurmctld remembers no such job",
            "ask where the site keeps its job history"
            + ("" if no_database == UNREADABLE_HISTORY else "; `gsched db init` begins one"),
        )
    return Found(
        jobs, "squeue", users=wanted.users, rejects=listing.rejects, no_database=no_database
    )


def _selected(
    records: Iterable[AttemptRecord], wanted: HistoryFilter, rules: PhaseRules
) -> tuple[HistoryJob, ...]:
    """The logical jobs that `wanted` takes, as the database chooses them."""
    jobs = [job for job in _classified(logical_jobs(records), rules) if wanted.takes(job)]
    return tuple(jobs[: wanted.limit])


def _classified(jobs: Iterable[HistoryJob], rules: PhaseRules) -> Iterator[HistoryJob]:
    """The jobs with their phases by the rules, as the database derives them."""
    for job in jobs:
        phase = phase_of(
            rules,
            job.phase,
            name=job.name,
            user=job.user,
            account=job.tenant,
            partition=job.partition,
            qos=job.qos,
            num_gpus=job.num_gpus,
        )
        yield replace(job, phase=phase)
