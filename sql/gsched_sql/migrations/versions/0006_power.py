"""nodes that sleep: orders, spans, counts, delays

Revision ID: 0006
Revises: 0005

On MariaDB, which cannot undo the making of a table, it sees what has been done already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from gsched.errors import ConfigError

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
TEXT = sa.Text().with_variant(sa.Text(2**24 - 1), "mysql", "mariadb")
MARIADB: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mariadb", "mysql")
    for name, value in (
        ("engine", "InnoDB"),
        ("charset", "utf8mb4"),
        ("collate", "utf8mb4_nopad_bin"),
    )
}


def upgrade() -> None:
    _make(
        "node_pools",
        _text("name_digest", 64),
        sa.Column("name", TEXT, nullable=False),
        sa.UniqueConstraint("name_digest", name=op.f("uq_node_pools_name_digest")),
    )
    _node_orders()
    _power_spans()
    _power_jobs()
    _make(
        "pool_counts",
        *_refers_to("pool_counts", "clusters", "node_pools"),
        _number("at"),
        *map(_number, ("running", "idle", "falling", "asleep", "waking", "excluded", "wanted")),
        sa.UniqueConstraint("cluster_id", "pool_id", "at", name="uq_pool_counts_key"),
    )
    _index("pool_counts", "at")
    _wake_delays()
    op.create_table(
        "power_memory",
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("memory", TEXT, nullable=False),
        _key("power_memory", "cluster_id", "clusters"),
        sa.PrimaryKeyConstraint("cluster_id", name=op.f("pk_power_memory")),
        if_not_exists=True,
        **MARIADB,
    )


def _node_orders() -> None:
    _make(
        "node_orders",
        _text("order_id", 128),
        *_refers_to("node_orders", "clusters", "nodes", "node_pools"),
        _text("verb", 16),
        sa.Column("reason_code", TEXT, nullable=False),
        sa.Column("reason_params", TEXT, nullable=False),
        _number("valid_until"),
        _text("state", 16),
        _number("decided_at"),
        sa.Column("settled_at", sa.BigInteger()),
        sa.Column("detail", TEXT, nullable=False),
        sa.UniqueConstraint("cluster_id", "order_id", name="uq_node_orders_key"),
    )
    _index("node_orders", "state")
    _index("node_orders", "decided_at")


def _power_spans() -> None:
    _make(
        "power_spans",
        *_refers_to("power_spans", "clusters", "nodes", "node_pools"),
        _number("start_time"),
        _text("phase", 16),
        sa.Column("end_time", sa.BigInteger()),
        _text("cause", 16),
        _text("outcome", 16),
        sa.UniqueConstraint(
            "cluster_id", "node_id", "start_time", "phase", name="uq_power_spans_key"
        ),
    )
    _index("power_spans", "start_time")
    _index("power_spans", "end_time")


def _power_jobs() -> None:
    _make(
        "power_jobs",
        *_refers_to("power_jobs", "clusters"),
        _number("job_id"),
        sa.Column("job", TEXT, nullable=False),
        sa.Column("order_row", ROW_ID),
        sa.Column("span_row", ROW_ID),
        _key("power_jobs", "order_row", "node_orders", ondelete="CASCADE"),
        _key("power_jobs", "span_row", "power_spans", ondelete="CASCADE"),
        sa.UniqueConstraint("order_row", name=op.f("uq_power_jobs_order_row")),
        sa.UniqueConstraint("span_row", name=op.f("uq_power_jobs_span_row")),
    )
    op.create_index("ix_power_jobs_job", "power_jobs", ["cluster_id", "job_id"], if_not_exists=True)


def _wake_delays() -> None:
    place = ("job_id", "array_task", "het_offset")
    _make(
        "wake_delays",
        *_refers_to("wake_delays", "clusters", "node_pools"),
        *map(_number, (*place, "submit_time", "nodes_waking", "allocated_at")),
        sa.Column("started_at", sa.BigInteger()),
        sa.UniqueConstraint("cluster_id", *place, "allocated_at", name="uq_wake_delays_key"),
    )
    _index("wake_delays", "allocated_at")


_REFERENCES = {"clusters": "cluster_id", "nodes": "node_id", "node_pools": "pool_id"}


def _refers_to(table: str, *others: str) -> tuple[Any, ...]:
    """The columns of `table` that name rows of `others`, with their foreign keys."""
    columns = [_REFERENCES[other] for other in others]
    return (
        *(sa.Column(column, ROW_ID, nullable=False) for column in columns),
        *(_key(table, column, other) for column, other in zip(columns, others, strict=True)),
    )


def _key(
    table: str, column: str, other: str, ondelete: str | None = None
) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_{column}")
    return sa.ForeignKeyConstraint([column], [f"{other}.id"], name=name, ondelete=ondelete)


def _number(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _text(name: str, length: int) -> sa.Column[Any]:
    return sa.Column(name, sa.String(length), nullable=False)


def _make(table: str, *items: Any) -> None:
    """A table with row numbers."""
    op.create_table(
        table,
        sa.Column("id", ROW_ID, nullable=False),
        *items,
        sa.PrimaryKeyConstraint("id", name=op.f(f"pk_{table}")),
        if_not_exists=True,
        **MARIADB,
    )


def _index(table: str, column: str) -> None:
    op.create_index(f"ix_{table}_{column}", table, ["cluster_id", column], if_not_exists=True)


def downgrade() -> None:
    raise ConfigError(
        "schema 0006 holds what no earlier one has a place for",
        "restore the backup that was made before the upgrade",
    )
