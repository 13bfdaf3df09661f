"""Leases and the account of what tenants were given and owed."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
)

from gsched_sql.columns import KeptText, RowId
from gsched_sql.schema.base import SLOT, row_id, slot, table

leases = table(
    "leases",
    "Grants of GPUs for a time, with their present state.",
    row_id(),
    Column("lease_id", String(128), nullable=False, unique=True, doc="gsched's name of it"),
    *slot(),
    Column("epoch", BigInteger, nullable=False, doc="first submit time of the job"),
    Column("attempt", BigInteger, nullable=False, doc="submit time of the attempt"),
    Column(
        "state",
        String(16),
        nullable=False,
        doc="granted, ending, signalled, saved, requeued; over: regranted, renewed, kept, lapsed, "
        "refused, ended, cancelled, vanished",
    ),
    Column("start_time", BigInteger, nullable=False, doc="epoch"),
    Column("length_s", BigInteger, nullable=False, doc="seconds granted"),
    Column("num_gpus", BigInteger, nullable=False, doc="GPUs granted"),
    Column(
        "restarts",
        Integer,
        nullable=False,
        server_default="0",
        doc="Slurm's restart count of the attempt",
    ),
    Column(
        "state_since",
        BigInteger,
        nullable=False,
        server_default="0",
        doc="epoch of the last transition",
    ),
    Column("revoke_id", String(128), doc="idempotency key of the revoke; NULL: none"),
    Column("grace_s", BigInteger, doc="seconds given to save; NULL: no revoke"),
    Column("valid_until", BigInteger, doc="epoch; no revoke is begun later. NULL: no revoke"),
    Column(
        "beneficiary",
        KeptText,
        doc="job for whose good it is revoked, as Slurm spells it; NULL: nobody's, or no revoke",
    ),
    Column(
        "told_step",
        BigInteger,
        doc="steps that the job had finished when it was told to save, by its heartbeat; NULL: it "
        "tells none, or was not told",
    ),
    Column("told_run", String(128), doc="run of that heartbeat; NULL: none"),
    Column("told_seq", BigInteger, doc="its number in that file; NULL: none"),
    Index("ix_leases_job", *SLOT, "epoch"),
    Index("ix_leases_start_time", "cluster_id", "start_time"),
    Index("ix_leases_state", "cluster_id", "state"),
)

lease_events = table(
    "lease_events",
    "Append-only: every transition of a lease.",
    row_id(),
    Column("lease_row", RowId, ForeignKey("leases.id"), nullable=False, index=True, doc="lease"),
    Column("at", BigInteger, nullable=False, doc="epoch"),
    Column("from_state", String(16), doc="NULL: it began"),
    Column("to_state", String(16), nullable=False, doc="state"),
    Column("detail", KeptText, nullable=False, doc="why"),
)

fairness_entries = table(
    "fairness_entries",
    "What each tenant was given and owed in a time. A later entry of the same time replaces it.",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), doc="cluster"),
    Column("tenant_id", RowId, ForeignKey("tenants.id"), doc="account"),
    Column("begin_time", BigInteger, doc="epoch"),
    Column("length_s", BigInteger, nullable=False, doc="seconds"),
    Column("received_gpu_s", Double, nullable=False, doc="GPU-seconds given"),
    Column(
        "entitled_gpu_s",
        Double,
        nullable=False,
        doc="GPU-seconds of the quota that were asked for: the metric's account",
    ),
    Column("demanded_gpu_s", Double, nullable=False, doc="GPU-seconds asked for"),
    Column("borrowed_gpu_s", Double, nullable=False, doc="of the received, beyond the quota"),
    Column(
        "due_gpu_s",
        Double,
        nullable=False,
        server_default="0",
        doc="GPU-seconds of the quota, asked for or not: the rule's account",
    ),
    PrimaryKeyConstraint("cluster_id", "tenant_id", "begin_time"),
    Index("ix_fairness_entries_begin_time", "cluster_id", "begin_time"),
)

fairness_quotas = table(
    "fairness_quotas",
    "From when on each tenant has had which quota, as the daemon has noted it.",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), doc="cluster"),
    Column("tenant_id", RowId, ForeignKey("tenants.id"), doc="account"),
    Column("since_time", BigInteger, doc="epoch; until the tenant's next row"),
    Column("num_gpus", Double, nullable=False, doc="GPUs, by their worth; 0: none any more"),
    Column(
        "source",
        String(16),
        nullable=False,
        doc="who says so: settings (gsched.toml), limits (GrpTRES), shares, equal",
    ),
    PrimaryKeyConstraint("cluster_id", "tenant_id", "since_time"),
)

fairness_weights = table(
    "fairness_weights",
    "From when on a GPU of a type has been worth how much to the accounts of tenants.",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), doc="cluster"),
    Column("gpu_type", String(128), doc="as Slurm spells it behind gres/gpu:"),
    Column("since_time", BigInteger, doc="epoch; until the next row of the type"),
    Column("weight", Double, nullable=False, doc="GPUs of worth 1 that it counts as"),
    PrimaryKeyConstraint("cluster_id", "gpu_type", "since_time"),
)
