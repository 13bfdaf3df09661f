"""The job-history database: schema, engine, queries. SQLAlchemy lives here only."""

from gsched_sql.history import History
from gsched_sql.journal import SqlJournal
from gsched_sql.machine import machine_id
from gsched_sql.mounts import network_file_system
from gsched_sql.probe import try_to_write
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
    "machine_id",
    "network_file_system",
    "try_to_write",
]
