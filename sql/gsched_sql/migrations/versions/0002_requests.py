"""what users asked for

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
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
        ("collate", "utf8mb4_bin"),
    )
}


def upgrade() -> None:
    op.create_table(
        "requests",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("array_task", sa.BigInteger(), nullable=False),
        sa.Column("het_offset", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("user_id", ROW_ID, nullable=False),
        sa.Column("token", TEXT, nullable=False),
        sa.Column("wants", TEXT, nullable=False),
        sa.Column("unknown", sa.Integer(), nullable=False),
        sa.Column("first_seen", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_requests_cluster_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_requests_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
        if_not_exists=True,  # MariaDB keeps it when this is interrupted
        **MARIADB,
    )
    op.create_index(
        "ix_requests_job",
        "requests",
        ["cluster_id", "job_id", "array_task", "het_offset", "epoch"],
        if_not_exists=True,
    )
    op.create_index(
        "ix_requests_first_seen", "requests", ["cluster_id", "first_seen"], if_not_exists=True
    )


def downgrade() -> None:
    op.drop_index("ix_requests_first_seen", table_name="requests")
    op.drop_index("ix_requests_job", table_name="requests")
    op.drop_table("requests")
