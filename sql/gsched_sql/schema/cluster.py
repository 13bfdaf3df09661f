"""What is known of the machine itself: node events and utilisation samples."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    UniqueConstraint,
)

from gsched_sql.columns import KeptText, RowId
from gsched_sql.schema.base import row_id, table

node_events = table(
    "node_events",
    "Times in which a node was down, drained, failing or asleep.",
    row_id(),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("node_id", RowId, ForeignKey("nodes.id"), nullable=False, doc="node"),
    Column("start_time", BigInteger, nullable=False, doc="epoch"),
    Column("end_time", BigInteger, doc="epoch; NULL: still so"),
    Column("state", String(64), nullable=False, doc="as Slurm writes it: DOWN, DRAIN"),
    Column("reason", KeptText, doc="who drained it said why"),
    Column("user_id", RowId, ForeignKey("users.id"), doc="who set the state"),
    UniqueConstraint("cluster_id", "node_id", "start_time", "state", name="uq_node_events_key"),
)

series = table(
    "series",
    "What is sampled of what.",
    row_id(),
    Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
    Column("subject_digest", String(64), nullable=False, doc="SHA-256 key of subject"),
    Column("subject", KeptText, nullable=False, doc="node, node/gpu index, job"),
    Column("metric", String(64), nullable=False, doc="with unit: gpu_utilization_pct"),
    Column("source", String(64), nullable=False, doc="who measured: dcgm, slurm, runtime"),
    Column(
        "thinned_before",
        BigInteger,
        nullable=False,
        doc="epoch; samples of earlier times have been thinned out: no more are taken",
    ),
    UniqueConstraint("cluster_id", "subject_digest", "metric", "source", name="uq_series_key"),
)

sample_blocks = table(
    "sample_blocks",
    "Samples at even intervals, many in a row of the table.",
    Column("series_id", RowId, ForeignKey("series.id"), doc="series"),
    Column("interval_ms", BigInteger, doc="milliseconds from sample to sample"),
    Column("start_time", BigInteger, doc="epoch of the first sample: a multiple of interval_ms"),
    Column("num_samples", Integer, nullable=False, doc="samples that are not missing"),
    Column(
        "samples",
        LargeBinary(2**24 - 1),
        nullable=False,
        doc="zlib of 1000 little-endian float32, NaN: missing",
    ),
    PrimaryKeyConstraint("series_id", "interval_ms", "start_time"),
)
