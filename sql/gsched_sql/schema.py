"""The tables of the job history, portable to SQLite, PostgreSQL and MariaDB.

Times are UTC epoch seconds, durations seconds, memory bytes. `array_task` and `het_offset` hold
NO_PART (of ``gsched.model.merge``) where a job has none, because NULLs would defeat the unique
keys. (cluster, job_id, array_task, het_offset) is a *slot*: the place in Slurm that one id names.
Slots are used again after an id wraps around; (slot, epoch) is a logical job, (slot, submit_time)
an attempt.

A change here needs a new revision in ``migrations/versions`` and in REVISION.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
)

from gsched_sql.columns import KeptText, RowId

REVISION = "0002"
"""The alembic revision that these tables are."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


# Rows that keep every character, and text that compares as it is written.
_MARIADB = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_bin"}
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mariadb", "mysql")  # SQLAlchemy's two names for it
    for name, value in _MARIADB.items()
}


def _table(name: str, *items: Any) -> Table:
    return Table(name, metadata, *items, **_OPTIONS)


def _names(name: str) -> Table:
    return _table(
        name,
        Column("id", RowId, primary_key=True),
        Column("name_digest", String(64), nullable=False, unique=True),  # columns.text_digest(name)
        Column("name", KeptText, nullable=False),
    )


def _slot() -> tuple[Column[Any], ...]:
    return (
        Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False),
        Column("job_id", BigInteger, nullable=False),
        Column("array_task", BigInteger, nullable=False),
        Column("het_offset", BigInteger, nullable=False),
    )


def _facts() -> tuple[Column[Any], ...]:
    """What both an attempt and the logical job made of attempts say."""
    return (
        Column("user_id", RowId, ForeignKey("users.id")),
        Column("tenant_id", RowId, ForeignKey("tenants.id")),
        Column("partition", KeptText),
        Column("qos", KeptText),
        Column("name", KeptText),
        Column("state", String(32), nullable=False),
        Column("state_text", KeptText, nullable=False),
        Column("start_time", BigInteger),
        Column("end_time", BigInteger),
        Column("time_limit_s", BigInteger),
        Column("num_nodes", BigInteger),
        Column("num_cpus", BigInteger),
        Column("num_gpus", BigInteger),
    )


SLOT = ("cluster_id", "job_id", "array_task", "het_offset")

clusters = _names("clusters")
users = _names("users")
tenants = _names("tenants")

jobs = _table(
    "jobs",
    Column("id", RowId, primary_key=True),
    *_slot(),
    Column("epoch", BigInteger, nullable=False),
    *_facts(),
    Column("num_attempts", Integer, nullable=False),
    Column("queueing_s", BigInteger),
    Column("duration_s", BigInteger),
    Column("gpu_time_s", BigInteger),
    UniqueConstraint(*SLOT, "epoch", name="uq_jobs_key"),
    Index("ix_jobs_end_time", "cluster_id", "end_time"),
    Index("ix_jobs_epoch", "epoch"),
    Index("ix_jobs_user", "user_id", "epoch"),
)
"""Logical jobs, derived from their attempts at every ingest (``logical_jobs``)."""

attempts = _table(
    "attempts",
    Column("id", RowId, primary_key=True),
    Column("logical_job", RowId, ForeignKey("jobs.id"), nullable=False, index=True),
    *_slot(),
    Column("submit_time", BigInteger, nullable=False),
    *_facts(),
    Column("source", KeptText, nullable=False),
    Column("eligible_time", BigInteger),
    Column("node_list", KeptText),
    Column("exit_code", BigInteger),
    Column("exit_signal", BigInteger),
    Column("restarts", BigInteger),
    Column("claim", BigInteger, nullable=False),  # see merge.py
    Column("claims", KeptText, nullable=False),  # JSON: fields whose claim is weaker than `claim`
    UniqueConstraint(*SLOT, "submit_time", name="uq_attempts_key"),
)

attempt_tres = _table(
    "attempt_tres",
    Column("attempt_id", RowId, ForeignKey("attempts.id", ondelete="CASCADE")),
    Column("kind", String(16)),  # requested, allocated
    Column("position", Integer),
    Column("name", KeptText, nullable=False),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint("attempt_id", "kind", "position"),
)

predictions = _table(
    "predictions",
    Column("id", RowId, primary_key=True),
    *_slot(),
    Column("epoch", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("model_id", String(255), nullable=False),
    Column("mean", Double, nullable=False),
    Column("source", KeptText, nullable=False),
    Column("similar_jobs", BigInteger, nullable=False),
    Column("as_of", BigInteger, nullable=False),
    Column("made_at", BigInteger, nullable=False),
    UniqueConstraint(*SLOT, "attempt", "kind", "model_id", name="uq_predictions_key"),
)

prediction_quantiles = _table(
    "prediction_quantiles",
    Column("prediction_id", RowId, ForeignKey("predictions.id", ondelete="CASCADE")),
    Column("position", Integer),
    Column("probability", Double, nullable=False),
    Column("value", Double, nullable=False),
    PrimaryKeyConstraint("prediction_id", "position"),
)

rounds = _table(
    "rounds",
    Column("round_id", String(128), primary_key=True),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False),
    Column("policy", String(128), nullable=False),
    Column("model_id", String(255), nullable=False),
    Column("acting", Boolean, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),  # NULL: the round was interrupted
    Column("summary", KeptText),  # JSON
    Index("ix_rounds_started_at", "cluster_id", "started_at"),
)

actions = _table(
    "actions",
    Column("id", RowId, primary_key=True),
    Column("change_id", String(255), nullable=False, unique=True),
    Column("round_id", String(128), ForeignKey("rounds.round_id"), nullable=False),
    *_slot(),
    Column("epoch", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("channel", String(64), nullable=False),
    Column("before", BigInteger),
    Column("after", BigInteger, nullable=False),
    Column("reason_code", KeptText, nullable=False),
    Column("reason_params", KeptText, nullable=False),  # JSON
    Column("takes_back", Boolean, nullable=False),
    Column("state", String(16), nullable=False),
    Column("decided_at", BigInteger, nullable=False),
    Column("settled_at", BigInteger),
    Column("detail", KeptText, nullable=False),
    Index("ix_actions_job", *SLOT, "epoch", "channel"),
    Index("ix_actions_state", "state", "cluster_id"),
    Index("ix_actions_decided_at", "cluster_id", "decided_at"),
)
"""Journalled changes with their present state."""

standings = _table(
    "standings",
    *_slot(),
    Column("epoch", BigInteger),
    Column("channel", String(64)),
    Column("attempt", BigInteger, nullable=False),
    Column("found", BigInteger, nullable=False),
    Column("written", BigInteger, nullable=False),
    Column("may_be", KeptText, nullable=False),  # JSON list
    Column("base_action", RowId, nullable=False),  # last confirmed action, 0 = none
    PrimaryKeyConstraint(*SLOT, "epoch", "channel"),
)
"""What gsched's values on present jobs are: `actions` folded, so that a round reads few rows."""

requests = _table(
    "requests",
    Column("id", RowId, primary_key=True),
    *_slot(),
    Column("epoch", BigInteger, nullable=False),
    Column("user_id", RowId, ForeignKey("users.id"), nullable=False),
    Column("token", KeptText, nullable=False),
    Column("wants", KeptText, nullable=False),  # JSON
    Column("unknown", Integer, nullable=False),
    Column("first_seen", BigInteger, nullable=False),
    Index("ix_requests_job", *SLOT, "epoch"),
    Index("ix_requests_first_seen", "cluster_id", "first_seen"),
)
"""What users asked of gsched, from their jobs' comments; the last request of a job counts."""

audit_events = _table(
    "audit_events",
    Column("id", RowId, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("round_id", String(128), ForeignKey("rounds.round_id"), nullable=False),
    Column("change_id", String(255), ForeignKey("actions.change_id"), index=True),
    Column("from_state", String(16)),
    Column("to_state", String(16), nullable=False),
    Column("detail", KeptText, nullable=False),
)
"""Append-only: every transition of an action, and the end of every round (no change_id)."""

policy_memory = _table(
    "policy_memory",
    Column("cluster_id", RowId, ForeignKey("clusters.id")),
    Column("policy", String(128)),
    Column("round_id", String(128), ForeignKey("rounds.round_id"), nullable=False),
    Column("memory", KeptText, nullable=False),  # JSON
    PrimaryKeyConstraint("cluster_id", "policy"),
)

ingest_cursors = _table(
    "ingest_cursors",
    Column("source_digest", String(64), primary_key=True),  # columns.text_digest(source_key)
    Column("source_key", KeptText, nullable=False),
    Column("cursor", KeptText, nullable=False),
)

rejects = _table(
    "rejects",
    Column("id", RowId, primary_key=True),
    Column("content_digest", String(64), nullable=False, unique=True),
    Column("source", KeptText, nullable=False),
    Column("line", BigInteger, nullable=False),
    Column("reason", KeptText, nullable=False),
    Column("raw", KeptText, nullable=False),
)
