"""fits of the run-time model

Revision ID: 0005
Revises: 0004

On MariaDB, which cannot undo the making of a table, it sees what has been done already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from gsched.errors import ConfigError

revision = "0005"
down_revision = "0004"
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
    numbers = ("as_of", "data_from", "data_until", "num_jobs")
    op.create_table(
        "fits",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("model_id", sa.String(255), nullable=False),
        sa.Column("fitted_at", sa.BigInteger(), nullable=False),
        sa.Column("took_s", sa.Double(), nullable=False),
        sa.Column("started_by", sa.String(16), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in numbers),
        sa.Column("features", TEXT, nullable=False),
        sa.Column("details", TEXT, nullable=False),
        sa.Column("outcome", sa.String(16), nullable=False),
        sa.Column("why", TEXT, nullable=False),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_fits_cluster_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fits")),
        if_not_exists=True,
        **MARIADB,
    )
    op.create_index("ix_fits_fitted_at", "fits", ["cluster_id", "fitted_at"], if_not_exists=True)


def downgrade() -> None:
    raise ConfigError(
        "schema 0005 holds what no earlier one has a place for",
        "restore the backup that was made before the upgrade",
    )
