"""The tables of revision 0003 that are new or made anew, as they were when it was released."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
)

from gsched_sql.columns import KeptText, RowId

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mariadb", "mysql")
    for name, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_nopad_bin"),
    )
}
SLOT = ("cluster_id", "job_id", "array_task", "het_offset")


def _table(name: str, *items: Any) -> Table:
    return Table(name, metadata, *items, **_OPTIONS)


def _texts() -> tuple[Column[Any], ...]:
    return (
        Column("id", RowId, primary_key=True),
        Column("name_digest", String(64), nullable=False, unique=True),
        Column("name", KeptText, nullable=False),
    )


def _slot() -> tuple[Column[Any], ...]:
    return (
        Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False),
        Column("job_id", BigInteger, nullable=False),
        Column("array_task", BigInteger, nullable=False),
        Column("het_offset", BigInteger, nullable=False),
    )


clusters = _table("clusters", *_texts())
users = _table("users", *_texts())
tenants = _table("tenants", *_texts())
KEPT = (clusters, users, tenants)
"""Tables that stay as they are."""

derivations = _table(
    "derivations",
    Column("name", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
)

name_groups = _table(
    "name_groups",
    *_texts(),
)

node_lists = _table(
    "node_lists",
    *_texts(),
)

nodes = _table(
    "nodes",
    *_texts(),
)

partitions = _table(
    "partitions",
    *_texts(),
)

qos = _table(
    "qos",
    *_texts(),
)

tres_lists = _table(
    "tres_lists",
    *_texts(),
)

fairness_entries = _table(
    "fairness_entries",
    Column("cluster_id", RowId, ForeignKey("clusters.id")),
    Column("tenant_id", RowId, ForeignKey("tenants.id")),
    Column("begin_time", BigInteger),
    Column("length_s", BigInteger, nullable=False),
    Column("received_gpu_s", Double, nullable=False),
    Column("entitled_gpu_s", Double, nullable=False),
    Column("demanded_gpu_s", Double, nullable=False),
    Column("borrowed_gpu_s", Double, nullable=False),
    PrimaryKeyConstraint("cluster_id", "tenant_id", "begin_time"),
)

job_names = _table(
    "job_names",
    *_texts(),
    Column("group_id", RowId, ForeignKey("name_groups.id"), nullable=False, index=True),
)

leases = _table(
    "leases",
    Column("id", RowId, primary_key=True),
    Column("lease_id", String(128), nullable=False, unique=True),
    *_slot(),
    Column("epoch", BigInteger, nullable=False),
    Column("attempt", BigInteger, nullable=False),
    Column("state", String(16), nullable=False),
    Column("start_time", BigInteger, nullable=False),
    Column("length_s", BigInteger, nullable=False),
    Column("num_gpus", BigInteger, nullable=False),
    Index("ix_leases_job", *SLOT, "epoch"),
    Index("ix_leases_start_time", "cluster_id", "start_time"),
)

node_events = _table(
    "node_events",
    Column("id", RowId, primary_key=True),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False),
    Column("node_id", RowId, ForeignKey("nodes.id"), nullable=False),
    Column("start_time", BigInteger, nullable=False),
    Column("end_time", BigInteger),
    Column("state", String(64), nullable=False),
    Column("reason", KeptText),
    Column("user_id", RowId, ForeignKey("users.id")),
    UniqueConstraint("cluster_id", "node_id", "start_time", "state", name="uq_node_events_key"),
)

node_list_members = _table(
    "node_list_members",
    Column("node_list_id", RowId, ForeignKey("node_lists.id")),
    Column("node_id", RowId, ForeignKey("nodes.id"), index=True),
    PrimaryKeyConstraint("node_list_id", "node_id"),
)

prune_marks = _table(
    "prune_marks",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), primary_key=True),
    Column("ended_before", BigInteger, nullable=False),
)

series = _table(
    "series",
    Column("id", RowId, primary_key=True),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False),
    Column("subject_digest", String(64), nullable=False),
    Column("subject", KeptText, nullable=False),
    Column("metric", String(64), nullable=False),
    Column("source", String(64), nullable=False),
    Column("thinned_before", BigInteger, nullable=False),
    UniqueConstraint("cluster_id", "subject_digest", "metric", "source", name="uq_series_key"),
)

tres_counts = _table(
    "tres_counts",
    Column("tres_list_id", RowId, ForeignKey("tres_lists.id")),
    Column("position", Integer),
    Column("name", KeptText, nullable=False),
    Column("count", BigInteger, nullable=False),
    PrimaryKeyConstraint("tres_list_id", "position"),
)

usage_days = _table(
    "usage_days",
    Column("cluster_id", RowId, ForeignKey("clusters.id")),
    Column("day", BigInteger),
    Column("user_id", RowId),
    Column("tenant_id", RowId),
    Column("partition_id", RowId),
    Column("state", String(32)),
    Column("phase", String(16)),
    Column("num_gpus", BigInteger),
    Column("jobs", BigInteger, nullable=False),
    Column("attempts", BigInteger, nullable=False),
    Column("gpu_time_jobs", BigInteger, nullable=False),
    Column("gpu_time_s", BigInteger, nullable=False),
    Column("cpu_time_jobs", BigInteger, nullable=False),
    Column("cpu_time_s", BigInteger, nullable=False),
    Column("duration_jobs", BigInteger, nullable=False),
    Column("duration_s", BigInteger, nullable=False),
    Column("queueing_jobs", BigInteger, nullable=False),
    Column("queueing_s", BigInteger, nullable=False),
    PrimaryKeyConstraint(
        "cluster_id", "day", "user_id", "tenant_id", "partition_id", "state", "phase", "num_gpus"
    ),
)

jobs = _table(
    "jobs",
    Column("id", RowId, primary_key=True),
    *_slot(),
    Column("epoch", BigInteger, nullable=False),
    Column("user_id", RowId, ForeignKey("users.id")),
    Column("tenant_id", RowId, ForeignKey("tenants.id")),
    Column("partition_id", RowId, ForeignKey("partitions.id")),
    Column("qos_id", RowId, ForeignKey("qos.id")),
    Column("name_id", RowId, ForeignKey("job_names.id")),
    Column("state", String(32), nullable=False),
    Column("state_text", KeptText),
    Column("start_time", BigInteger),
    Column("end_time", BigInteger),
    Column("time_limit_s", BigInteger),
    Column("num_nodes", BigInteger),
    Column("num_cpus", BigInteger),
    Column("num_gpus", BigInteger),
    Column("phase", String(16)),
    Column("num_attempts", Integer, nullable=False),
    Column("queueing_s", BigInteger),
    Column("duration_s", BigInteger),
    Column("gpu_time_s", BigInteger),
    Column("cpu_time_s", BigInteger),
    UniqueConstraint(*SLOT, "epoch", name="uq_jobs_key"),
    Index("ix_jobs_end_time", "cluster_id", "end_time"),
    Index("ix_jobs_epoch", "epoch"),
    Index("ix_jobs_user", "user_id", "epoch"),
    Index("ix_jobs_user_end", "user_id", "end_time"),
)

lease_events = _table(
    "lease_events",
    Column("id", RowId, primary_key=True),
    Column("lease_row", RowId, ForeignKey("leases.id"), nullable=False, index=True),
    Column("at", BigInteger, nullable=False),
    Column("from_state", String(16)),
    Column("to_state", String(16), nullable=False),
    Column("detail", KeptText, nullable=False),
)

sample_blocks = _table(
    "sample_blocks",
    Column("series_id", RowId, ForeignKey("series.id")),
    Column("interval_ms", BigInteger),
    Column("start_time", BigInteger),
    Column("num_samples", Integer, nullable=False),
    Column("samples", LargeBinary(2**24 - 1), nullable=False),
    PrimaryKeyConstraint("series_id", "interval_ms", "start_time"),
)

attempts = _table(
    "attempts",
    Column("id", RowId, primary_key=True),
    Column("logical_job", RowId, ForeignKey("jobs.id"), nullable=False, index=True),
    *_slot(),
    Column("submit_time", BigInteger, nullable=False),
    Column("user_id", RowId, ForeignKey("users.id")),
    Column("tenant_id", RowId, ForeignKey("tenants.id")),
    Column("partition_id", RowId, ForeignKey("partitions.id")),
    Column("qos_id", RowId, ForeignKey("qos.id")),
    Column("name_id", RowId, ForeignKey("job_names.id")),
    Column("state", String(32), nullable=False),
    Column("state_text", KeptText),
    Column("start_time", BigInteger),
    Column("end_time", BigInteger),
    Column("time_limit_s", BigInteger),
    Column("num_nodes", BigInteger),
    Column("num_cpus", BigInteger),
    Column("num_gpus", BigInteger),
    Column("phase", String(16)),
    Column("source", String(64), nullable=False),
    Column("source_id", KeptText),
    Column("eligible_time", BigInteger),
    Column("node_list_id", RowId, ForeignKey("node_lists.id")),
    Column("requested_id", RowId, ForeignKey("tres_lists.id")),
    Column("allocated_id", RowId, ForeignKey("tres_lists.id")),
    Column("exit_code", BigInteger),
    Column("exit_signal", BigInteger),
    Column("restarts", BigInteger),
    Column("start_assumed", BigInteger),
    Column("extra", KeptText),
    Column("claim", BigInteger, nullable=False),
    Column("claims", KeptText),
    UniqueConstraint(*SLOT, "submit_time", name="uq_attempts_key"),
)

conflicts = _table(
    "conflicts",
    Column("attempt_id", RowId, ForeignKey("attempts.id", ondelete="CASCADE")),
    Column("field", String(32)),
    Column("value_digest", String(64)),
    Column("value", KeptText, nullable=False),
    Column("claim", BigInteger, nullable=False),
    PrimaryKeyConstraint("attempt_id", "field", "value_digest"),
)

steps = _table(
    "steps",
    Column("attempt_id", RowId, ForeignKey("attempts.id", ondelete="CASCADE")),
    Column("step", String(32)),
    Column("name", KeptText),
    Column("state", String(32), nullable=False),
    Column("start_time", BigInteger),
    Column("end_time", BigInteger),
    Column("exit_code", BigInteger),
    Column("exit_signal", BigInteger),
    Column("num_nodes", BigInteger),
    Column("num_cpus", BigInteger),
    Column("num_tasks", BigInteger),
    Column("cpu_time_s", Double),
    Column("max_rss_bytes", BigInteger),
    Column("rss_bytes", BigInteger),
    Column("gpu_utilization_pct", Double),
    Column("gpu_mem_bytes", BigInteger),
    PrimaryKeyConstraint("attempt_id", "step"),
)
