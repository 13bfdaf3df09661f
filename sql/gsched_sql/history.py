"""The job history: what gsched knows of past jobs and of its own doing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from types import TracebackType
from typing import TypeVar

from sqlalchemy import Engine

from gsched.model.history import AttemptRecord, Batch, NodeEvent, Reject, StepRecord
from gsched.model.impact import JobWait, JournalSums
from gsched.model.jobid import JobId
from gsched.model.merge import AttemptKey, Claimed, Part, part_of
from gsched.model.node_use import NodeUse
from gsched.model.past import HistoryFilter, HistoryJob
from gsched.model.phases import NO_RULES, PhaseRules
from gsched.model.prediction_truth import PredictionTruth
from gsched.model.start_forecast import StartForecast
from gsched.model.trace import AttemptColumns, TraceChunk, columns_of
from gsched.model.usage_groups import GroupedUsage, Grouping
from gsched.model.user_request import UserRequest
from gsched_sql import (
    audit,
    derive,
    export,
    impact_rows,
    ingest,
    job_queries,
    migrate,
    node_event_rows,
    node_use_rows,
    past_job_rows,
    reports,
    roles,
    stats,
    step_rows,
)
from gsched_sql.attempt_rows import load_slots
from gsched_sql.engine import SILENCE_LIMIT_S, failures, open_engine, reading, writing
from gsched_sql.fairness_rows import SqlFairness
from gsched_sql.fit_rows import SqlFits
from gsched_sql.forecast_rows import start_forecasts
from gsched_sql.job_queries import part_of_live
from gsched_sql.journal import SqlJournal
from gsched_sql.leaders import SqlLeadership
from gsched_sql.lease_rows import SqlLeases
from gsched_sql.names import cluster_id, cluster_names
from gsched_sql.power_log import SqlPowerLog
from gsched_sql.prediction_truth import prediction_truth
from gsched_sql.requests import SqlRequests, list_requests
from gsched_sql.samples import SqlSamples
from gsched_sql.schema import REVISION
from gsched_sql.spans import SqlSpans
from gsched_sql.target_rows import SqlTargets
from gsched_sql.urls import location
from gsched_sql.values import (
    AuditRow,
    HistoryStats,
    IngestSummary,
    InitResult,
    LiveAttempt,
    PastJobs,
)

Live = TypeVar("Live", bound=LiveAttempt)


class History:
    """One job-history database. Every call is a transaction of its own.

    Any call may raise TryAgainError (locked by another process), UnavailableError (disk full,
    server gone), PermissionDeniedError or DataError (a damaged file).
    """

    def __init__(self, engine: Engine, phase_rules: PhaseRules = NO_RULES) -> None:
        """Use `open`; `engine` must be on a database with the present schema."""
        self._engine = engine
        self._phase_rules = phase_rules
        self._named: set[tuple[str, Part, int]] = set()
        self._last_read: dict[str | None, tuple[frozenset[AttemptRecord], str | None]] = {}

    @staticmethod
    def create(
        url: str, *, with_roles: bool = False, phase_rules: PhaseRules = NO_RULES
    ) -> InitResult:
        """Make the database or bring its schema up to date; does nothing when that is done.

        `phase_rules` are noted in a new database as those by which its jobs are classified.
        `with_roles` makes a server's roles, too (see ``gsched_sql.roles``). Raises ConfigError
        where the database cannot be (see ``engine.open_engine``) and for roles on SQLite.
        """
        engine = open_engine(url, create=True)
        try:
            before = migrate.upgrade(engine)
            if before != REVISION:
                with writing(engine) as conn:
                    derive.note(conn, before, phase_rules)
            if not with_roles:
                return InitResult(location(engine.url), before, REVISION)
            with writing(engine) as conn:
                roles.grant(conn)
                readers = roles.reader_database(conn)
            return InitResult(location(engine.url), before, REVISION, roles.ROLES, readers)
        finally:
            engine.dispose()

    @classmethod
    def open(
        cls, url: str, *, phase_rules: PhaseRules = NO_RULES, bounded: bool = False
    ) -> History:
        """Open a database that `create` has made; `phase_rules` classify the jobs written to it.

        `bounded`: calls raise UnavailableError when a server is silent for SILENCE_LIMIT_S seconds,
        as one that hangs. Raises ConfigError when there is no database or its schema is not the
        one of this gsched.
        """
        engine = open_engine(url, silence_limit_s=SILENCE_LIMIT_S if bounded else None)
        try:
            migrate.check(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine, phase_rules)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @property
    def errors(self) -> int:
        """How many calls have met an error of the database so far: locked, full, gone, …"""
        return failures(self._engine)

    def __enter__(self) -> History:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def ingest(self, batch: Batch, *, source_key: str | None) -> IngestSummary:
        """Merge one read of a source, whole or not at all, and keep where the next one begins.

        `source_key` names the source (``jobcomp:/path``); None keeps no cursor. What the same
        records have told before changes nothing, in whatever order and parts they come.
        """
        # Merging a record again never changes anything: those of the last read are not looked up.
        seen, cursor = self._last_read.get(source_key, (frozenset(), None))
        records = tuple(r for r in batch.records if r not in seen)
        repeated = len(batch.records) - len(records)
        goes_on = source_key is not None and cursor != batch.cursor
        if records or batch.rejects or batch.steps or goes_on:
            chunk = TraceChunk(
                attempts=columns_of(records),
                rejects=batch.rejects,
                rows_in=batch.rows_in - repeated,
                rows_skipped=batch.rows_skipped,
                steps=batch.steps,
            )
            summary = self.import_chunk(chunk, source_key=source_key, cursor=batch.cursor)
        else:
            summary = IngestSummary(rows_in=batch.rows_skipped, skipped=batch.rows_skipped)
        self._last_read[source_key] = (frozenset(batch.records), batch.cursor)
        return summary + IngestSummary(rows_in=repeated, unchanged=repeated)

    def import_chunk(
        self, chunk: TraceChunk, *, source_key: str | None, cursor: str
    ) -> IngestSummary:
        """Take in one chunk of a file, whole or not at all, and keep `cursor` for `source_key`.

        The same as `ingest`, for millions of rows. An empty chunk only sets the cursor.
        """
        ingest.check_accounts(chunk, source_key)
        with writing(self._engine) as conn:
            summary = ingest.ingest(conn, chunk, self._phase_rules)
            if chunk.steps:
                summary += IngestSummary(steps=sum(step_rows.keep(conn, chunk.steps)))
            if source_key is not None:
                ingest.set_cursor(conn, source_key, cursor)
        return summary

    def cursor(self, source_key: str) -> str:
        """Where the next read of a source begins, "" before the first one."""
        with reading(self._engine) as conn:
            return ingest.cursor(conn, source_key)

    def told_of(self, cluster: str, keys: Collection[AttemptKey]) -> dict[AttemptKey, Claimed]:
        """What is stored of those of the attempts that are, and how strong each claim is."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            slots = list({key.slot.part for key in keys})
            found = [] if known is None else load_slots(conn, cluster, known, slots)
        return {attempt.key: attempt.fields for attempt in found if attempt.key in keys}

    def steps_of(self, job: HistoryJob) -> dict[int, tuple[StepRecord, ...]]:
        """The steps that are kept of a job, by the submit time of their attempt."""
        part = part_of(job.key.job_id, job.key.array_task, job.key.het_offset)
        submit_times = [attempt.submit_time for attempt in job.attempts]
        with reading(self._engine) as conn:
            return step_rows.of_attempts(conn, job.key.cluster, part, submit_times)

    def keep_node_events(
        self, events: Sequence[NodeEvent], *, source_key: str, cursor: str
    ) -> tuple[int, int]:
        """Keep events of nodes and where the next read begins; how many are new, and altered."""
        with writing(self._engine) as conn:
            counts = node_event_rows.keep(conn, events)
            ingest.set_cursor(conn, source_key, cursor)
        return counts

    def node_events(self, cluster: str, since: int, until: int) -> list[NodeEvent]:
        """Events of nodes that lie in part in [since, until), by their start."""
        with reading(self._engine) as conn:
            return node_event_rows.between(conn, cluster, since, until)

    def sees_all_rows(self) -> bool:
        """Whether this login is shown the rows of all users (a reader sees only its own ones)."""
        with reading(self._engine) as conn:
            return roles.sees_all_rows(conn)

    def node_uses(self, cluster: str, since: int, until: int) -> list[NodeUse]:
        """Attempts that held nodes at least partly in [since, until), by start; with the names."""
        with reading(self._engine) as conn:
            return node_use_rows.between(conn, cluster, since, until)

    def epochs(self, cluster: str, live: Sequence[LiveAttempt]) -> list[int]:
        """The first submit time of each live attempt's logical job, in order.

        One that the history has not seen continues its id's last job where Slurm has restarted it.
        """
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            first = [row.submit_time for row in live]
            return first if known is None else job_queries.epochs(conn, known, live)

    def unnamed(self, cluster: str, live: Sequence[Live]) -> list[Live]:
        """Those of the live attempts whose texts squeue has not given to the history yet."""
        keyed = [((cluster, part_of_live(row), row.submit_time), row) for row in live]
        new = [row for key, row in keyed if key not in self._named]
        if new:
            with reading(self._engine) as conn:
                known = cluster_id(conn, cluster)
                found = set() if known is None else job_queries.named(conn, known, new)
            self._named |= {(cluster, part, submit_time) for part, submit_time in found}
        self._named &= {key for key, _ in keyed}  # what has left the queue is not asked for again
        return [row for key, row in keyed if key not in self._named]

    def past_jobs(self, cluster: str, ended_after: int, ended_before: int) -> PastJobs:
        """Jobs that ran and ended in [ended_after, ended_before), by end time, in any end state."""
        with reading(self._engine) as conn:
            return past_job_rows.past_jobs(conn, cluster, ended_after, ended_before)

    def jobs(self, wanted: HistoryFilter) -> list[HistoryJob]:
        """Logical jobs with their attempts, newest first."""
        with reading(self._engine) as conn:
            return job_queries.list_jobs(conn, wanted)

    def export(self, cluster: str | None = None) -> Iterator[AttemptColumns]:
        """Every attempt, or those of one cluster, as it is now, in pieces.

        Another database that imports them holds the same jobs, attempts and conflicts.
        """
        with reading(self._engine) as conn:
            yield from export.export(conn, cluster)

    def usage_by(self, wanted: HistoryFilter, by: Grouping) -> GroupedUsage:
        """Sums over groups of the jobs that `wanted` takes, at most `wanted.limit` groups.

        What pruned jobs have left is counted where they can be told apart (see GroupedUsage).
        """
        with reading(self._engine) as conn:
            return reports.usage_by(conn, wanted, by)

    def prediction_truth(
        self, cluster: str, made_since: int | None = None
    ) -> list[PredictionTruth]:
        """How far the predictions of a cluster's jobs were from what came true, by kind and model.

        `made_since` is the earliest time at which they were made.
        """
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            return [] if known is None else prediction_truth(conn, known, made_since)

    def start_forecasts(
        self, cluster: str, model_id: str, made_since: int, most: int
    ) -> list[StartForecast]:
        """The newest forecasts of starts by a model, at most so many, as they were made."""
        with reading(self._engine) as conn:
            return start_forecasts(conn, cluster, model_id, made_since, most)

    def job_waits(
        self, cluster: str, since: int | None = None, until: int | None = None
    ) -> list[JobWait]:
        """Jobs of a cluster first submitted in [since, until), by their first submit."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            return [] if known is None else impact_rows.job_waits(conn, known, since, until)

    def journal_sums(
        self, cluster: str, since: int | None = None, until: int | None = None
    ) -> JournalSums:
        """What was decided on a cluster's jobs in [since, until), and what became of it."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            none = JournalSums()
            return none if known is None else impact_rows.journal_sums(conn, known, since, until)

    def stats(self) -> HistoryStats:
        """What the database holds, in numbers."""
        return stats.collect(self._engine)

    def clusters(self) -> list[str]:
        """Names of the clusters that the database knows of, sorted."""
        with reading(self._engine) as conn:
            return cluster_names(conn)

    def rejects(self, limit: int = 20, *, source: str | None = None, skip: int = 0) -> list[Reject]:
        """Rows that no reader has understood, the last met first, of one source or all.

        `skip` of them are left out: the pages before.
        """
        with reading(self._engine) as conn:
            return stats.rejected_rows(conn, limit, source, skip)

    def journal(self, fence: int | None = None) -> SqlJournal:
        """The daemon's journal in this database.

        With a `fence` (of `leadership`) every writing call raises LostLeadershipError, and keeps
        nothing, once another daemon has taken over.
        """
        return SqlJournal(self._engine, fence)

    def leadership(self, cluster: str) -> SqlLeadership:
        """Which daemon leads a cluster."""
        return SqlLeadership(self._engine, cluster)

    def spans(self, cluster: str) -> SqlSpans:
        """When the daemon of a cluster acted and when it only observed."""
        return SqlSpans(self._engine, cluster)

    def fits(self, cluster: str) -> SqlFits:
        """The fits of the run-time model of a cluster."""
        return SqlFits(self._engine, cluster)

    def samples(self) -> SqlSamples:
        """Utilisation samples in this database."""
        return SqlSamples(self._engine)

    def leases(self, fence: int | None = None) -> SqlLeases:
        """Leases in this database; `fence` as in `journal`."""
        return SqlLeases(self._engine, fence)

    def targets(self, fence: int | None = None) -> SqlTargets:
        """Deadlines in this database; `fence` as in `journal`."""
        return SqlTargets(self._engine, fence)

    def power_log(self, cluster: str, fence: int | None = None) -> SqlPowerLog:
        """The record of a cluster's sleeping nodes; `fence` as in `journal`."""
        return SqlPowerLog(self._engine, cluster, fence)

    def fairness(self, fence: int | None = None) -> SqlFairness:
        """The ledger of tenants in this database; `fence` as in `journal`."""
        return SqlFairness(self._engine, fence)

    def audit(
        self, cluster: str, job: JobId | None = None, since: int | None = None, limit: int = 100
    ) -> list[AuditRow]:
        """Journalled changes, newest first, of one job (an array's id: of all its tasks) or all.

        `since` is the earliest time of decision.
        """
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            return [] if known is None else audit.changes(conn, cluster, known, job, since, limit)

    def request_store(self) -> SqlRequests:
        """The requests of users in this database."""
        return SqlRequests(self._engine)

    def requests(
        self,
        cluster: str,
        job: JobId | None = None,
        limit: int = 100,
        *,
        with_whole_array: bool = False,
    ) -> list[UserRequest]:
        """Captured requests, newest first, of one job (as in `audit`) or all.

        `with_whole_array`: of a task also those that were made for its array as a whole.
        """
        with reading(self._engine) as conn:
            return list_requests(conn, cluster, job, limit, with_whole_array)
