"""The daemon's journal, users' requests, predictions, and where readers stand."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    UniqueConstraint,
)

from gsched_sql.columns import KeptText, RowId
from gsched_sql.schema.base import SLOT, row_id, slot, table

predictions = table(
    "predictions",
    "Predictions as they were made.",
    row_id(),
    *slot(),
    Column("epoch", BigInteger, nullable=False, doc="first submit time of the job"),
    Column("attempt", BigInteger, nullable=False, doc="submit time of the attempt"),
    Column("kind", String(32), nullable=False, doc="duration, start, speed, iterations, demand"),
    Column("model_id", String(255), nullable=False, doc="the model that predicted"),
    Column(
        "mean",
        Double,
        nullable=False,
        doc="expected value, in the unit of the kind (seconds, epoch)",
    ),
    Column(
        "source", KeptText, nullable=False, doc="the rule that gave it: similar-name, user-gpus, …"
    ),
    Column("similar_jobs", BigInteger, nullable=False, doc="past jobs behind it"),
    Column("as_of", BigInteger, nullable=False, doc="epoch; those jobs ended before"),
    Column("made_at", BigInteger, nullable=False, doc="epoch"),
    UniqueConstraint(*SLOT, "attempt", "kind", "model_id", name="uq_predictions_key"),
)

prediction_quantiles = table(
    "prediction_quantiles",
    "Their quantiles.",
    Column(
        "prediction_id", RowId, ForeignKey("predictions.id", ondelete="CASCADE"), doc="prediction"
    ),
    Column("position", Integer, doc="0, 1, … in rising order"),
    Column("probability", Double, nullable=False, doc="between 0 and 1"),
    Column("value", Double, nullable=False, doc="not exceeded with that probability"),
    PrimaryKeyConstraint("prediction_id", "position"),
)

rounds = table(
    "rounds",
    "Rounds of the daemon.",
    Column("round_id", String(128), primary_key=True, doc="gsched's name of it"),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("policy", String(128), nullable=False, doc="policy that decided"),
    Column("model_id", String(255), nullable=False, doc="model that predicted, empty: none"),
    Column("acting", Boolean, nullable=False, doc="whether it wrote to Slurm, or only observed"),
    Column("seq", BigInteger, nullable=False, doc="number of the round since the daemon began"),
    Column("started_at", BigInteger, nullable=False, doc="epoch"),
    Column("ended_at", BigInteger, doc="epoch; NULL: interrupted"),
    Column("summary", KeptText, doc="JSON: what it did, in numbers"),
    Index("ix_rounds_started_at", "cluster_id", "started_at"),
)

actions = table(
    "actions",
    "Journalled changes with their present state.",
    row_id(),
    Column("change_id", String(255), nullable=False, unique=True, doc="gsched's name of it"),
    Column(
        "round_id",
        String(128),
        ForeignKey("rounds.round_id"),
        nullable=False,
        index=True,
        doc="the round that decided it",
    ),
    *slot(),
    Column("epoch", BigInteger, nullable=False, doc="first submit time of the job"),
    Column("attempt", BigInteger, nullable=False, doc="submit time of the attempt"),
    Column("channel", String(64), nullable=False, doc="what is changed: site_factor"),
    Column("before", BigInteger, doc="value before; NULL: could not be read"),
    Column("after", BigInteger, nullable=False, doc="value to be written"),
    Column("reason_code", KeptText, nullable=False, doc="why, for programs"),
    Column("reason_params", KeptText, nullable=False, doc="JSON: the figures of the reason"),
    Column("takes_back", Boolean, nullable=False, doc="whether it undoes gsched's own value"),
    Column("valid_until", BigInteger, doc="epoch; not sent later than that. NULL: no limit"),
    Column(
        "state",
        String(16),
        nullable=False,
        doc="how far it has come: observed, intent, sent, confirmed, …",
    ),
    Column("decided_at", BigInteger, nullable=False, doc="epoch"),
    Column("settled_at", BigInteger, doc="epoch; NULL: not settled"),
    Column("detail", KeptText, nullable=False, doc="what Slurm answered, in words"),
    Index("ix_actions_job", *SLOT, "epoch", "channel"),
    Index("ix_actions_state", "state", "cluster_id"),
    Index("ix_actions_decided_at", "cluster_id", "decided_at"),
)

standings = table(
    "standings",
    "What gsched's values on present jobs are: `actions` folded, so that a round reads few rows.",
    *slot(),
    Column("epoch", BigInteger, doc="first submit time of the job"),
    Column("channel", String(64), doc="what was changed"),
    Column("attempt", BigInteger, nullable=False, doc="submit time of the attempt"),
    Column("found", BigInteger, nullable=False, doc="value before gsched's first write"),
    Column("written", BigInteger, nullable=False, doc="value that gsched wrote last"),
    Column(
        "may_be",
        KeptText,
        nullable=False,
        doc="JSON list: values that Slurm may show while a write is unconfirmed",
    ),
    Column("base_action", RowId, nullable=False, doc="row of the last confirmed action, 0: none"),
    PrimaryKeyConstraint(*SLOT, "epoch", "channel"),
)

requests = table(
    "requests",
    "What users asked of gsched, from their jobs' comments; the last request of a job counts.",
    row_id(),
    *slot(),
    Column("epoch", BigInteger, nullable=False, doc="first submit time of the job"),
    Column("user_id", RowId, ForeignKey("users.id"), nullable=False, doc="who asked"),
    Column("token", KeptText, nullable=False, doc="as it stands in the comment"),
    Column("wants", KeptText, nullable=False, doc="JSON: what it asks for"),
    Column("unknown", Integer, nullable=False, doc="items that this gsched does not know"),
    Column("first_seen", BigInteger, nullable=False, doc="epoch"),
    Index("ix_requests_job", *SLOT, "epoch"),
    Index("ix_requests_first_seen", "cluster_id", "first_seen"),
)

audit_events = table(
    "audit_events",
    "Append-only: every transition of an action, and the end of every round (no change_id).",
    row_id(),
    Column("at", BigInteger, nullable=False, doc="epoch"),
    Column(
        "round_id",
        String(128),
        ForeignKey("rounds.round_id"),
        nullable=False,
        index=True,
        doc="round",
    ),
    Column(
        "change_id",
        String(255),
        ForeignKey("actions.change_id"),
        index=True,
        doc="action; NULL: the end of the round",
    ),
    Column("from_state", String(16), doc="NULL: it began"),
    Column("to_state", String(16), nullable=False, doc="state"),
    Column("detail", KeptText, nullable=False, doc="why, in words"),
)

leaders = table(
    "leaders",
    "Which daemon leads each cluster. Times are by the database server's clock.",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), primary_key=True, doc="cluster"),
    Column(
        "fence", BigInteger, nullable=False, doc="rises by one with each daemon that takes over"
    ),
    Column("host", String(255), nullable=False, doc="name of its host"),
    Column("machine_id", String(255), nullable=False, doc="/etc/machine-id of its host"),
    Column("pid", BigInteger, nullable=False, doc="its process there"),
    Column("since", BigInteger, nullable=False, doc="epoch; when it took over"),
    Column("renewed_at", BigInteger, nullable=False, doc="epoch; when it was last heard of"),
    Column("ttl_s", BigInteger, nullable=False, doc="seconds after which another may take over"),
    Column("released", Boolean, nullable=False, doc="whether it has ended in order"),
)

daemon_spans = table(
    "daemon_spans",
    "Times in which the daemon ran rounds in one mode by one policy.",
    row_id(),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("mode", String(16), nullable=False, doc="act, observe, frozen, halted, off, control"),
    Column("policy", String(128), nullable=False, doc="policy"),
    Column("begin_time", BigInteger, nullable=False, doc="epoch of the first round"),
    Column("end_time", BigInteger, nullable=False, doc="epoch of the last round"),
    Column("rounds", BigInteger, nullable=False, doc="rounds"),
    Column("writes", BigInteger, nullable=False, doc="changes that they sent"),
    Index("ix_daemon_spans_begin_time", "cluster_id", "begin_time"),
    Index("ix_daemon_spans_end_time", "cluster_id", "end_time"),
)

fits = table(
    "fits",
    "Fits of the run-time model, whether it was put in use or not.",
    row_id(),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("model_id", String(255), nullable=False, doc="the model, a hash of what it was made of"),
    Column("fitted_at", BigInteger, nullable=False, doc="epoch"),
    Column("took_s", Double, nullable=False, doc="seconds that the fit took"),
    Column("started_by", String(16), nullable=False, doc="what started it: command, timer"),
    Column("as_of", BigInteger, nullable=False, doc="epoch; it knows jobs that ended before"),
    Column("data_from", BigInteger, nullable=False, doc="epoch; first submit of its jobs"),
    Column("data_until", BigInteger, nullable=False, doc="epoch; last end of its jobs"),
    Column("num_jobs", BigInteger, nullable=False, doc="jobs that it was fitted to"),
    Column("features", KeptText, nullable=False, doc="JSON list: what the regression looks at"),
    Column("details", KeptText, nullable=False, doc="JSON: scores, lambda, versions, left out"),
    Column(
        "outcome",
        String(16),
        nullable=False,
        doc="adopting, adopted, pinned (another model is), interrupted",
    ),
    Column("why", KeptText, nullable=False, doc="in words"),
    Index("ix_fits_fitted_at", "cluster_id", "fitted_at"),
)

policy_memory = table(
    "policy_memory",
    "What a policy keeps between rounds.",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), doc="cluster"),
    Column("policy", String(128), doc="policy"),
    Column(
        "round_id",
        String(128),
        ForeignKey("rounds.round_id"),
        nullable=False,
        doc="the round that left it",
    ),
    Column("memory", KeptText, nullable=False, doc="JSON, of the policy's own form"),
    PrimaryKeyConstraint("cluster_id", "policy"),
)

ingest_cursors = table(
    "ingest_cursors",
    "Where each reader goes on.",
    Column("source_digest", String(64), primary_key=True, doc="SHA-256 key of source_key"),
    Column(
        "source_key", KeptText, nullable=False, doc="what is read: sacct, jobcomp:/path, import:…"
    ),
    Column(
        "cursor",
        KeptText,
        nullable=False,
        doc="where the next read begins, of the reader's own form",
    ),
    Column("updated_at", BigInteger, doc="epoch of the last read; NULL: before schema 0003"),
)

rejects = table(
    "rejects",
    "Rows that no reader has understood.",
    row_id(),
    Column(
        "content_digest",
        String(64),
        nullable=False,
        unique=True,
        doc="SHA-256 key of source, reason and raw",
    ),
    Column("source", KeptText, nullable=False, doc="reader and file"),
    Column("line", BigInteger, nullable=False, doc="line, or element, where the row begins"),
    Column("reason", KeptText, nullable=False, doc="why it was not understood"),
    Column("raw", KeptText, nullable=False, doc="the row as it came"),
)
