"""The job-history database: schema, engine, queries. SQLAlchemy lives here only."""

from gsched_sql.history import History
from gsched_sql.journal import SqlJournal
from gsched_sql.values import (
    AuditRow,
    HistoryStats,
    IngestSummary,
    InitResult,
    LiveAttempt,
    PastJobs,
)

__all__ = [
    "AuditRow",
    "History",
    "HistoryStats",
    "IngestSummary",
    "InitResult",
    "LiveAttempt",
    "PastJobs",
    "SqlJournal",
]
