"""the ledger of tenants: quotas and worths of GPUs over time, what is due by them; how far a job
was when it was told to give up its lease

Revision ID: 0007
Revises: 0006

On MariaDB, which cannot undo a change of a table, it sees what has been done already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from gsched.errors import ConfigError

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
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
    entries = "fairness_entries"
    _add(entries, sa.Column("due_gpu_s", sa.Double(), server_default="0", nullable=False))
    _add("leases", sa.Column("told_step", sa.BigInteger()))
    _add("leases", sa.Column("told_run", sa.String(128)))
    _add("leases", sa.Column("told_seq", sa.BigInteger()))
    op.create_index(
        "ix_fairness_entries_begin_time", entries, ["cluster_id", "begin_time"], if_not_exists=True
    )
    _make(
        "fairness_quotas",
        sa.Column("tenant_id", ROW_ID, nullable=False),
        sa.Column("num_gpus", sa.Double(), nullable=False),
        sa.Column("source", sa.String(16), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_fairness_quotas_tenant_id")
        ),
        key="tenant_id",
    )
    _make(
        "fairness_weights",
        sa.Column("gpu_type", sa.String(128), nullable=False),
        sa.Column("weight", sa.Double(), nullable=False),
        key="gpu_type",
    )


def _add(table: str, column: sa.Column[Any]) -> None:
    there = {known["name"] for known in sa.inspect(op.get_bind()).get_columns(table)}
    if column.name not in there:
        op.add_column(table, column)


def _make(table: str, *items: Any, key: str) -> None:
    """A table of what holds in a cluster from some time on."""
    op.create_table(
        table,
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("since_time", sa.BigInteger(), nullable=False),
        *items,
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f(f"fk_{table}_cluster_id")
        ),
        sa.PrimaryKeyConstraint("cluster_id", key, "since_time", name=op.f(f"pk_{table}")),
        if_not_exists=True,
        **MARIADB,
    )


def downgrade() -> None:
    raise ConfigError(
        "schema 0007 holds what no earlier one has a place for",
        "restore the backup that was made before the upgrade",
    )
