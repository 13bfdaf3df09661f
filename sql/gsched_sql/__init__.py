"""The job-history database: schema, engine, queries. SQLAlchemy lives here only."""

from gsched_sql.history import History
from gsched_sql.journal import SqlJournal
from gsched_sql.values import (
    AuditRow,
    HistoryFilter,
    HistoryJob,
    HistoryStats,
    IngestSummary,
    InitResult,
    LiveAttempt,
    PastJobs,
    history_document,
)

__all__ = [
    "AuditRow",
    "History",
    "HistoryFilter",
    "HistoryJob",
    "HistoryStats",
    "IngestSummary",
    "InitResult",
    "LiveAttempt",
    "PastJobs",
    "SqlJournal",
    "history_document",
]
