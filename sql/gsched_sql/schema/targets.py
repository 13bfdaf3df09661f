"""Deadlines: what was asked, promised and planned, and what came of it."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    PrimaryKeyConstraint,
    String,
)

from gsched_sql.columns import KeptText, RowId
from gsched_sql.schema.base import SLOT, row_id, slot, table

targets = table(
    "targets",
    "Requests for deadlines, with what was promised and what has become of it.",
    row_id(),
    *slot(),
    Column("epoch", BigInteger, nullable=False, doc="first submit time of the job"),
    Column("asked_time", BigInteger, nullable=False, doc="epoch; when gsched first saw it"),
    Column("user_id", RowId, ForeignKey("users.id"), nullable=False, doc="the job's user"),
    Column("deadlines", KeptText, nullable=False, doc="JSON: [[epoch, reward], …], rising"),
    Column("num_gpus", BigInteger, nullable=False, doc="GPUs of the job"),
    Column(
        "state",
        String(16),
        nullable=False,
        doc="standing, refused; over: kept, missed, withdrawn, failed, unknown",
    ),
    Column("state_since", BigInteger, nullable=False, doc="epoch of the last change of state"),
    Column("admitted_time", BigInteger, doc="epoch; NULL: never admitted"),
    Column("promised_finish_time", BigInteger, doc="epoch; promised then. NULL: never admitted"),
    Column("promised_probability", Double, doc="0 to 1; promised then. NULL: never admitted"),
    Column("budget_gpu_s", Double, doc="GPU-seconds for which it was admitted; NULL: never"),
    Column("restarts", BigInteger, doc="restarts of the job at admission; NULL: never admitted"),
    Column("used_gpu_s", Double, doc="GPU-seconds held since admission; NULL: not known"),
    Column("used_attempt", BigInteger, doc="submit time of the attempt counted last; NULL: none"),
    Column("used_attempt_gpu_s", Double, doc="GPU-seconds held in that attempt; NULL: none"),
    Column("finish_time", BigInteger, doc="epoch; planned end, as of the last plan. NULL: none"),
    Column("probability", Double, doc="0 to 1; of that plan. NULL: none"),
    Column("risk", String(16), nullable=False, doc="on-target, at-risk, late"),
    Column("earliest", BigInteger, doc="epoch; of a refusal, the first end to be had. NULL: none"),
    Column("why", String(128), nullable=False, doc="code of the refusal; empty: none"),
    Column(
        "answer",
        KeptText,
        doc="JSON: params of that code, and alternatives; NULL: no refusal",
    ),
    Column("end_time", BigInteger, doc="epoch; end of the job. NULL: it has not, or is not known"),
    Column("reward", Double, doc="what that end was worth by the deadlines; NULL: no end"),
    Column("warned", String(16), nullable=False, doc="level of the last warning, on-target: none"),
    Column("warned_time", BigInteger, doc="epoch of it; NULL: none"),
    Column(
        "gone_time",
        BigInteger,
        doc="epoch at which the job was missed in the queue, its end not known; NULL: it was not",
    ),
    Index("ix_targets_job", *SLOT, "epoch"),
    Index("ix_targets_state", "cluster_id", "state"),
    Index("ix_targets_asked_time", "cluster_id", "asked_time"),
)

target_runs = table(
    "target_runs",
    "The present calendar: when each standing target is to hold GPUs.",
    Column("target_row", RowId, ForeignKey("targets.id"), doc="target"),
    Column("start_time", BigInteger, doc="epoch"),
    Column("end_time", BigInteger, nullable=False, doc="epoch"),
    Column("num_gpus", BigInteger, nullable=False, doc="GPUs"),
    PrimaryKeyConstraint("target_row", "start_time"),
)

target_events = table(
    "target_events",
    "Append-only: what befell each target, and which of it its user was told of.",
    row_id(),
    Column("target_row", RowId, ForeignKey("targets.id"), nullable=False, index=True, doc="target"),
    Column("at", BigInteger, nullable=False, doc="epoch"),
    Column(
        "what",
        String(16),
        nullable=False,
        doc="a state of the target; at-risk, late, on-target; (un)reserved: nodes in Slurm",
    ),
    Column("finish_time", BigInteger, doc="epoch; planned end then. NULL: none"),
    Column("probability", Double, doc="0 to 1; of that plan. NULL: none"),
    Column(
        "told_time",
        BigInteger,
        doc="epoch at which the site's command took the warning; NULL: it did not, or not yet",
    ),
    Index("ix_target_events_at", "at"),
)
