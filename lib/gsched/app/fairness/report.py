"""What `gsched fairness` tells: both accounts of a window of time, from the job history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gsched.app.fairness.books import BookedJobs, Known, fairness_books
from gsched.app.fairness.older import OlderHours
from gsched.app.fairness.public import half_life_of
from gsched.app.fairness.query import FairnessQuery
from gsched.app.fairness.quotas import quotas_of
from gsched.app.fairness.standing import (
    JobStanding,
    TenantStanding,
    job_standings,
    tenant_standings,
)
from gsched.app.fairness.steps import edges_of, step_of
from gsched.app.wiring import cluster_of, open_history, slurm_client
from gsched.config.settings import Settings
from gsched.errors import PermissionDeniedError, UsageError
from gsched.fairness.books import Books
from gsched.fairness.fading import HALF_LIVES, HOUR_S
from gsched.fairness.hours import IntervalSums, interval_sums
from gsched.fairness.metric import LOSS_BELOW, MetricAccount, metric_account
from gsched.fairness.rule import faded_owed, faded_received
from gsched.model.accounts import SiteQuotas
from gsched.model.job import JobKey
from gsched.model.jobid import JobId
from gsched.model.jobtable import BoolColumn, FloatColumn, IntColumn
from gsched_sql import History


class OwnJobsAloneError(PermissionDeniedError):
    """The database shows this login its own jobs alone: nothing can be said of accounts."""


@dataclass(frozen=True, eq=False)
class Course:
    """GPU-seconds of the shown tenants over the window: a row a tenant, a column a step."""

    step_s: int
    edges: FloatColumn
    received: FloatColumn
    entitled: FloatColumn
    due: FloatColumn

    @property
    def gpus(self) -> FloatColumn:
        """Held on average in each step, by worth."""
        held: FloatColumn = self.received / np.diff(self.edges)
        return held

    @property
    def quota_gpus(self) -> FloatColumn:
        """The quota on average in each step."""
        quotas: FloatColumn = self.due / np.diff(self.edges)
        return quotas

    def r(self, row: int) -> list[float | None]:
        """Of one tenant, step by step; None where it asked for nothing."""
        pairs = zip(self.received[row].tolist(), self.entitled[row].tolist(), strict=True)
        return [has / due if due > 0 else None for has, due in pairs]


@dataclass(frozen=True, eq=False)
class FairnessReport:
    """The answer. `jobs` are those that were asked for by name, the least served first.

    `job_r` are the r of all jobs of the shown tenants that asked for GPUs in the window, rising.
    `course` goes with `tenants`. `policy` is the one of the settings; the rule's account is what
    ltgf goes by. `known_since` is from when on the past was read; where the history is told until
    `told_until` only, and not until `asked_until`, the window ends there.
    """

    cluster: str
    query: FairnessQuery
    policy: str
    half_life_s: float
    known_since: int
    asked_until: int
    told_until: int | None
    known: Known
    tenants: Sequence[TenantStanding]
    course: Course
    jobs: Sequence[JobStanding]
    job_r: FloatColumn

    @property
    def loss_below(self) -> float:
        """Below it an r is a loss."""
        return LOSS_BELOW

    @property
    def loss_jobs(self) -> int:
        """Jobs with a sharing loss."""
        return int((self.job_r < LOSS_BELOW).sum())

    def document(self) -> dict[str, Any]:
        """As JSON: times epoch seconds, GPU-hours by worth, null = nothing to tell."""
        query, known, course = self.query, self.known, self.course
        return {
            "told_by": "history",
            "cluster": self.cluster,
            "since": query.since,
            "until": query.until,
            "policy": self.policy,
            "half_life_s": self.half_life_s,
            "quota_source": known.quota_source,
            "quotas_since": known.quotas_since,
            "gpu_weights": dict(known.gpu_weights),
            "loss_below": LOSS_BELOW,
            "tenants": [one.document() for one in self.tenants],
            "jobs_counted": len(self.job_r),
            "loss_jobs": self.loss_jobs,
            "jobs": [one.document() for one in self.jobs],
            "history": {
                "step_s": course.step_s,
                "begins": [int(begin) for begin in course.edges[:-1]],
                "tenants": [
                    {
                        "tenant": one.tenant,
                        "gpus": course.gpus[row].tolist(),
                        "quota_gpus": course.quota_gpus[row].tolist(),
                        "r": course.r(row),
                    }
                    for row, one in enumerate(self.tenants)
                ],
            },
            "known": {
                "since": self.known_since,
                "told_until": self.told_until,
                "open_attempts": known.open_attempts,
                "assumed_ends": known.assumed_ends,
                "unknown_gpus": known.unknown_gpus,
                "odd_times": known.odd_times,
                "pruned_before": known.pruned_before,
                "weights_changed": list(known.weights_changed),
            },
        }


def fairness_report(settings: Settings, query: FairnessQuery) -> FairnessReport:
    """Read the history and report on it.

    Raises ConfigError where there is none, OwnJobsAloneError, UsageError for an account, user or
    job that asked for no GPUs in the window, and, where no quotas have been noted yet, what
    `quotas_of` raises.
    """
    half_life_s = half_life_of(settings)
    with open_history(settings) as history:
        if not history.sees_all_rows():
            raise OwnJobsAloneError("the history database shows you your own jobs alone")
        cluster = cluster_of(settings, history)
        told_until = history.fairness().told_until(cluster)
        inside = _told(query, told_until)
        begin = min(inside.since, inside.until - math.ceil(HALF_LIVES * half_life_s))
        begin = max(0, begin)
        quotas = _quotas_if_none(settings, history, cluster)
        books, known = fairness_books(history, cluster, begin, inside.until, quotas)
        older = _older(history, cluster, books, known, begin)
    policy = settings.daemon.policy
    report = report_of(books, known, older, inside, cluster, begin, half_life_s, policy)
    return replace(report, asked_until=query.until, told_until=told_until)


def _told(query: FairnessQuery, told_until: int | None) -> FairnessQuery:
    """The query as far as all is told: a job that ended later would count as one that runs.

    Where nothing of its time is told it stays as it is: slurmdbd may be being read just now.
    """
    if told_until is None or not query.since < told_until < query.until:
        return query
    return replace(query, until=told_until)


def report_of(
    books: Books,
    known: Known,
    older: OlderHours,
    query: FairnessQuery,
    cluster: str,
    known_since: int,
    half_life_s: float,
    policy: str,
) -> FairnessReport:
    """The report on these books, and on what is `older`. Raises UsageError as `fairness_report`."""
    books = replace(books, tenants=older.tenants)
    later = older.later(books)
    metric = metric_account(books, query.since, query.until)
    edges = edges_of(query.since, query.until)
    sums = older.added(interval_sums(later, older.edges(edges)), edges)
    quotas = books.quotas.at(query.until, len(books.tenants))
    received = faded_received(later, query.until, half_life_s)
    owed = faded_owed(received + older.faded(query.until, half_life_s), quotas)
    asks = (metric.job_entitled > 0) | (metric.job_received > 0)
    chosen = _chosen(books, known.jobs, query, asks)
    standings = tenant_standings(books, metric, sums, owed, quotas)
    shown = _shown(books, query, standings, chosen)
    rows = [books.tenants.index(one.tenant) for one in shown]
    return FairnessReport(
        cluster=cluster,
        query=query,
        policy=policy,
        half_life_s=half_life_s,
        known_since=known_since,
        asked_until=query.until,
        told_until=None,
        known=known,
        tenants=shown,
        course=_course(sums, edges, rows, query),
        jobs=_jobs(books, known.jobs, metric, chosen) if query.names_jobs else (),
        job_r=_job_r(books, metric, rows),
    )


def _older(history: History, cluster: str, books: Books, known: Known, begin: int) -> OlderHours:
    """The ledger's hours of the time of which jobs have been pruned."""
    mark = known.pruned_before
    if mark is None or mark <= begin:
        return OlderHours(books, (), -math.inf)
    cut = -(-mark // HOUR_S) * HOUR_S
    return OlderHours(books, history.fairness().read(cluster, begin, cut), cut)


def _quotas_if_none(settings: Settings, history: History, cluster: str) -> SiteQuotas:
    """Slurm is asked for them only where the daemon has noted none."""
    weights = dict(settings.fairness.gpu_weights)
    if history.fairness().quotas(cluster):
        return SiteQuotas({}, 0.0, "equal", weights)
    return quotas_of(settings, slurm_client(settings))


def _chosen(books: Books, jobs: BookedJobs, query: FairnessQuery, asks: BoolColumn) -> IntColumn:
    """Codes of the jobs that the query names. Raises UsageError where one kind of name finds none.

    Jobs that did not ask for GPUs in the window are not among them.
    """
    wanted = asks.copy()
    in_time = "asked for GPUs in this time"
    if query.accounts:
        codes = [books.tenants.index(name) for name in query.accounts if name in books.tenants]
        for name in set(query.accounts) - set(books.tenants):
            known = ", ".join(name or "(none)" for name in books.tenants[:20]) or "none"
            raise UsageError(f"no account {name[:80]!r} {in_time}", f"there are: {known}")
        wanted &= np.isin(books.tenant, codes)
    if query.users:
        for name in set(query.users) - set(jobs.users):
            raise UsageError(f"no job of user {name[:80]!r} {in_time}", "--since 30d looks further")
        wanted &= np.isin(jobs.user, [jobs.users.index(name) for name in query.users])
    if query.job is not None:
        wanted &= _is_job(jobs, query.job)
        if not wanted.any():
            raise UsageError(f"job {query.job} is none that {in_time}", "--since 30d looks further")
    return np.flatnonzero(wanted).astype(np.int64)


def _is_job(jobs: BookedJobs, job: JobId) -> BoolColumn:
    found: BoolColumn = jobs.job_id == job.job_id
    if job.tasks:
        found &= np.array([task in job.tasks for task in jobs.array_task.tolist()], dtype=bool)
    if job.het_offset is not None:
        found &= jobs.het_offset == job.het_offset
    return found


def _shown(
    books: Books, query: FairnessQuery, standings: Sequence[TenantStanding], chosen: IntColumn
) -> list[TenantStanding]:
    """The tenants that the query is about: with users or a job, those of the jobs found."""
    if query.accounts:
        return [one for one in standings if one.tenant in query.accounts]
    if query.users or query.job:
        names = {books.tenants[code] for code in books.tenant[chosen].tolist()}
        return [one for one in standings if one.tenant in names]
    return [one for one in standings if one.demanded or one.received or one.due]


def _jobs(
    books: Books, jobs: BookedJobs, metric: MetricAccount, chosen: IntColumn
) -> list[JobStanding]:
    columns = (jobs.job_id, jobs.array_task, jobs.het_offset)
    parts = zip(*(column[chosen].tolist() for column in columns), strict=True)
    names = [
        JobKey("", job, task if task >= 0 else None, part if part >= 0 else None).slurm_id
        for job, task, part in parts
    ]
    users = [jobs.users[code] for code in jobs.user[chosen].tolist()]
    return job_standings(books, metric, chosen, names, users)


def _job_r(books: Books, metric: MetricAccount, tenants: Sequence[int]) -> FloatColumn:
    """Of all jobs of these tenants that were entitled to anything, rising."""
    r_job = metric.r_job[np.isin(books.tenant, tenants)]
    rising: FloatColumn = np.sort(r_job[~np.isnan(r_job)])
    return rising


def _course(
    sums: IntervalSums, edges: FloatColumn, rows: Sequence[int], query: FairnessQuery
) -> Course:
    step_s = step_of(query.until - query.since)
    return Course(step_s, edges, sums.received[rows], sums.entitled[rows], sums.due[rows])
