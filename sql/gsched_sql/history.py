"""The job history: what gsched knows of past jobs and of its own doing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

from sqlalchemy import Engine

from gsched.model.history import AttemptRecord, Batch, Reject
from gsched.model.jobid import JobId
from gsched.model.merge import Part
from gsched.model.past import HistoryFilter, HistoryJob
from gsched.model.user_request import UserRequest
from gsched_sql import audit, ingest, job_queries, migrate, stats
from gsched_sql.engine import location, open_engine, reading, writing
from gsched_sql.job_queries import part_of_live
from gsched_sql.journal import SqlJournal
from gsched_sql.names import cluster_id, cluster_names
from gsched_sql.requests import SqlRequests, list_requests
from gsched_sql.schema import REVISION
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

    def __init__(self, engine: Engine) -> None:
        """Use `open`; `engine` must be on a database with the present schema."""
        self._engine = engine
        self._named: set[tuple[str, Part, int]] = set()
        self._last_read: dict[str | None, tuple[frozenset[AttemptRecord], str | None]] = {}

    @staticmethod
    def create(url: str) -> InitResult:
        """Make the database or bring its schema up to date; does nothing when that is done.

        Raises ConfigError where the database cannot be (see ``engine.open_engine``).
        """
        engine = open_engine(url, create=True)
        try:
            return InitResult(location(engine.url), migrate.upgrade(engine), REVISION)
        finally:
            engine.dispose()

    @classmethod
    def open(cls, url: str) -> History:
        """Open a database that `create` has made.

        Raises ConfigError when there is none or its schema is not the one of this gsched.
        """
        engine = open_engine(url)
        try:
            migrate.check(engine)
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

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
        ingest.check_accounts(batch, source_key)
        # Merging a record again never changes anything: those of the last read are not looked up.
        seen, cursor = self._last_read.get(source_key, (frozenset(), None))
        records = tuple(r for r in batch.records if r not in seen)
        repeated = len(batch.records) - len(records)
        fresh = replace(batch, records=records)
        if records or batch.rejects or (source_key is not None and cursor != batch.cursor):
            with writing(self._engine) as conn:
                summary = ingest.ingest(conn, fresh, source_key)
        else:
            summary = IngestSummary(rows_in=batch.rows_skipped, skipped=batch.rows_skipped)
        self._last_read[source_key] = (frozenset(batch.records), batch.cursor)
        return summary + IngestSummary(rows_in=repeated, unchanged=repeated)

    def cursor(self, source_key: str) -> str:
        """Where the next read of a source begins, "" before the first one."""
        with reading(self._engine) as conn:
            return ingest.cursor(conn, source_key)

    def epochs(self, cluster: str, live: Sequence[LiveAttempt]) -> list[int]:
        """The first submit time of each live attempt's logical job, in order.

        An attempt that the history has not seen yet continues the last job of its id when Slurm
        says that it was restarted.
        """
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            if known is None:
                return [row.submit_time for row in live]
            return job_queries.epochs(conn, known, live)

    def unnamed(self, cluster: str, live: Sequence[Live]) -> list[Live]:
        """Those of the live attempts whose name the history does not know yet."""
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
            known = cluster_id(conn, cluster)
            if known is None:
                return PastJobs((), 0)
            return job_queries.past_jobs(conn, cluster, known, ended_after, ended_before)

    def jobs(self, wanted: HistoryFilter) -> list[HistoryJob]:
        """Logical jobs with their attempts, newest first."""
        with reading(self._engine) as conn:
            return job_queries.list_jobs(conn, wanted)

    def stats(self) -> HistoryStats:
        """What the database holds, in numbers."""
        return stats.collect(self._engine)

    def clusters(self) -> list[str]:
        """Names of the clusters that the database knows of, sorted."""
        with reading(self._engine) as conn:
            return cluster_names(conn)

    def rejects(self, limit: int = 20) -> list[Reject]:
        """Rows that no reader has understood, the last met first."""
        with reading(self._engine) as conn:
            return stats.rejected_rows(conn, limit)

    def journal(self) -> SqlJournal:
        """The daemon's journal in this database."""
        return SqlJournal(self._engine)

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
            known = cluster_id(conn, cluster)
            if known is None:
                return []
            return list_requests(conn, cluster, known, job, limit, with_whole_array)
