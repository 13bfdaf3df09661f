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
    Column("entitled_gpu_s", Double, nullable=False, doc="GPU-seconds due by quota and weight"),
    Column("demanded_gpu_s", Double, nullable=False, doc="GPU-seconds asked for"),
    Column("borrowed_gpu_s", Double, nullable=False, doc="of the received, beyond the quota"),
    PrimaryKeyConstraint("cluster_id", "tenant_id", "begin_time"),
)
