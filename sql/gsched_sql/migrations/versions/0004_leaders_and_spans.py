"""leaders with their fence, spans of the daemon's work, expiry of changes, revoked leases

Revision ID: 0004
Revises: 0003

SQLite and PostgreSQL undo all of it when it is interrupted. MariaDB does not: there each step sees
what has been done already. The tables come first: one too many tells of an upgrade that was broken
off.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from gsched.errors import ConfigError

revision = "0004"
down_revision = "0003"
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
    _leaders()
    _daemon_spans()
    _add("actions", sa.Column("valid_until", sa.BigInteger(), nullable=True))
    _leases()


def _leaders() -> None:
    op.create_table(
        "leaders",
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("machine_id", sa.String(255), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("renewed_at", sa.BigInteger(), nullable=False),
        sa.Column("ttl_s", sa.BigInteger(), nullable=False),
        sa.Column("released", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_leaders_cluster_id")
        ),
        sa.PrimaryKeyConstraint("cluster_id", name=op.f("pk_leaders")),
        if_not_exists=True,
        **MARIADB,
    )


def _daemon_spans() -> None:
    op.create_table(
        "daemon_spans",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("mode", sa.String(16), nullable=False),
        sa.Column("policy", sa.String(128), nullable=False),
        sa.Column("begin_time", sa.BigInteger(), nullable=False),
        sa.Column("end_time", sa.BigInteger(), nullable=False),
        sa.Column("rounds", sa.BigInteger(), nullable=False),
        sa.Column("writes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_daemon_spans_cluster_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_daemon_spans")),
        if_not_exists=True,
        **MARIADB,
    )
    for column in ("begin_time", "end_time"):
        op.create_index(
            f"ix_daemon_spans_{column}", "daemon_spans", ["cluster_id", column], if_not_exists=True
        )


def _leases() -> None:
    for column in (
        sa.Column("restarts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("state_since", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("revoke_id", sa.String(128), nullable=True),
        sa.Column("grace_s", sa.BigInteger(), nullable=True),
        sa.Column("valid_until", sa.BigInteger(), nullable=True),
        sa.Column("beneficiary", TEXT, nullable=True),
    ):
        _add("leases", column)
    op.create_index("ix_leases_state", "leases", ["cluster_id", "state"], if_not_exists=True)
    op.execute(
        "UPDATE leases SET state_since = COALESCE((SELECT MAX(e.at) FROM lease_events e "
        "WHERE e.lease_row = leases.id), start_time) WHERE state_since = 0"
    )


def _add(table: str, column: sa.Column[Any]) -> None:
    there = {found["name"] for found in sa.inspect(op.get_bind()).get_columns(table)}
    if column.name not in there:
        op.add_column(table, column)


def downgrade() -> None:
    raise ConfigError(
        "schema 0004 holds what no earlier one has a place for",
        "restore the backup that was made before the upgrade",
    )
