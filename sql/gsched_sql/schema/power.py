"""Nodes that sleep: orders to them, what was seen of them, and whom a wake-up has delayed."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, String, UniqueConstraint

from gsched_sql.columns import KeptText, RowId
from gsched_sql.schema.base import SLOT, names, row_id, slot, table

node_pools = names("node_pools", "Pools: nodes alike, as cluster energy saving names them.")

node_orders = table(
    "node_orders",
    "Orders of cluster energy saving to nodes, with their present state.",
    row_id(),
    Column("order_id", String(128), nullable=False, doc="gsched's name of it"),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("node_id", RowId, ForeignKey("nodes.id"), nullable=False, doc="node"),
    Column("pool_id", RowId, ForeignKey("node_pools.id"), nullable=False, doc="its pool"),
    Column("verb", String(16), nullable=False, doc="sleep, wake"),
    Column("reason_code", KeptText, nullable=False, doc="why, for programs"),
    Column(
        "reason_params",
        KeptText,
        nullable=False,
        doc="JSON: the figures of the reason, but for the job, which is in power_jobs",
    ),
    Column("valid_until", BigInteger, nullable=False, doc="epoch; not sent later than that"),
    Column(
        "state",
        String(16),
        nullable=False,
        doc="how far it has come: observed, intent, sent, confirmed, …",
    ),
    Column("decided_at", BigInteger, nullable=False, doc="epoch"),
    Column("settled_at", BigInteger, doc="epoch; NULL: not settled"),
    Column("detail", KeptText, nullable=False, doc="what was answered, in words"),
    UniqueConstraint("cluster_id", "order_id", name="uq_node_orders_key"),
    Index("ix_node_orders_state", "cluster_id", "state"),
    Index("ix_node_orders_decided_at", "cluster_id", "decided_at"),
)

power_spans = table(
    "power_spans",
    "Times that nodes spent falling asleep, asleep or waking, as rounds have seen them.",
    row_id(),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("node_id", RowId, ForeignKey("nodes.id"), nullable=False, doc="node"),
    Column("start_time", BigInteger, nullable=False, doc="epoch"),
    Column("phase", String(16), nullable=False, doc="falling, asleep, waking"),
    Column("end_time", BigInteger, doc="epoch; NULL: still so"),
    Column("pool_id", RowId, ForeignKey("node_pools.id"), nullable=False, doc="its pool"),
    Column("cause", String(16), nullable=False, doc="who brought it there: ces, slurm, others"),
    Column(
        "outcome",
        String(16),
        nullable=False,
        doc="how waking ended: awake, failed, unknown; empty for other phases and while it lasts",
    ),
    UniqueConstraint("cluster_id", "node_id", "start_time", "phase", name="uq_power_spans_key"),
    Index("ix_power_spans_start_time", "cluster_id", "start_time"),
    Index("ix_power_spans_end_time", "cluster_id", "end_time"),
)

power_jobs = table(
    "power_jobs",
    "Jobs for which a node was ordered to wake (order_row) or woke (span_row).",
    row_id(),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("job_id", BigInteger, nullable=False, doc="the id that users see, 0: not understood"),
    Column("job", KeptText, nullable=False, doc="the job as it was told: 7, 7_3, 7+1"),
    Column(
        "order_row",
        RowId,
        ForeignKey("node_orders.id", ondelete="CASCADE"),
        unique=True,
        doc="order; NULL: of a span",
    ),
    Column(
        "span_row",
        RowId,
        ForeignKey("power_spans.id", ondelete="CASCADE"),
        unique=True,
        doc="span; NULL: of an order",
    ),
    Index("ix_power_jobs_job", "cluster_id", "job_id"),
)

pool_counts = table(
    "pool_counts",
    "How many nodes of a pool were in which state, until its next count.",
    row_id(),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("pool_id", RowId, ForeignKey("node_pools.id"), nullable=False, doc="pool"),
    Column("at", BigInteger, nullable=False, doc="epoch"),
    Column("running", BigInteger, nullable=False, doc="nodes with jobs, also those waking for one"),
    Column("idle", BigInteger, nullable=False, doc="nodes awake without a job"),
    Column("falling", BigInteger, nullable=False, doc="nodes that fall asleep"),
    Column("asleep", BigInteger, nullable=False, doc="nodes asleep"),
    Column("waking", BigInteger, nullable=False, doc="nodes that wake for no job that has them"),
    Column("excluded", BigInteger, nullable=False, doc="nodes that are left alone, in no other"),
    Column("wanted", BigInteger, nullable=False, doc="nodes that jobs waited for"),
    UniqueConstraint("cluster_id", "pool_id", "at", name="uq_pool_counts_key"),
    Index("ix_pool_counts_at", "cluster_id", "at"),
)

wake_delays = table(
    "wake_delays",
    "Jobs that had nodes but could not begin because some of them slept.",
    row_id(),
    *slot(),
    Column("submit_time", BigInteger, nullable=False, doc="submit time of the attempt"),
    Column("pool_id", RowId, ForeignKey("node_pools.id"), nullable=False, doc="pool of its nodes"),
    Column("nodes_waking", BigInteger, nullable=False, doc="nodes that it waited for"),
    Column("allocated_at", BigInteger, nullable=False, doc="epoch; when Slurm gave it its nodes"),
    Column(
        "started_at", BigInteger, doc="epoch; all were awake. NULL: gone before, or still waits"
    ),
    UniqueConstraint(*SLOT, "allocated_at", name="uq_wake_delays_key"),
    Index("ix_wake_delays_allocated_at", "cluster_id", "allocated_at"),
)

power_memory = table(
    "power_memory",
    "What cluster energy saving keeps between its looks.",
    Column("cluster_id", RowId, ForeignKey("clusters.id"), primary_key=True, doc="cluster"),
    Column("memory", KeptText, nullable=False, doc="JSON, of its own form"),
)
