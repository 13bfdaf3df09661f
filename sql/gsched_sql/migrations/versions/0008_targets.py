"""deadlines: what was asked, promised and planned, and what came of it

Revision ID: 0008
Revises: 0007

On MariaDB, which cannot undo a change of a table, it sees what has been done already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from gsched.errors import ConfigError

revision = "0008"
down_revision = "0007"
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
    _targets()
    _runs()
    _events()


def _targets() -> None:
    op.create_table(
        "targets",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("array_task", sa.BigInteger(), nullable=False),
        sa.Column("het_offset", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("asked_time", sa.BigInteger(), nullable=False),
        sa.Column("user_id", ROW_ID, nullable=False),
        sa.Column("deadlines", TEXT, nullable=False),
        sa.Column("num_gpus", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("state_since", sa.BigInteger(), nullable=False),
        sa.Column("admitted_time", sa.BigInteger()),
        sa.Column("promised_finish_time", sa.BigInteger()),
        sa.Column("promised_probability", sa.Double()),
        sa.Column("budget_gpu_s", sa.Double()),
        sa.Column("restarts", sa.BigInteger()),
        sa.Column("used_gpu_s", sa.Double()),
        sa.Column("used_attempt", sa.BigInteger()),
        sa.Column("used_attempt_gpu_s", sa.Double()),
        sa.Column("finish_time", sa.BigInteger()),
        sa.Column("probability", sa.Double()),
        sa.Column("risk", sa.String(16), nullable=False),
        sa.Column("earliest", sa.BigInteger()),
        sa.Column("why", sa.String(128), nullable=False),
        sa.Column("answer", TEXT),
        sa.Column("end_time", sa.BigInteger()),
        sa.Column("reward", sa.Double()),
        sa.Column("warned", sa.String(16), nullable=False),
        sa.Column("warned_time", sa.BigInteger()),
        sa.Column("gone_time", sa.BigInteger()),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_targets_cluster_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_targets_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_targets")),
        if_not_exists=True,
        **MARIADB,
    )
    slot = ["cluster_id", "job_id", "array_task", "het_offset", "epoch"]
    _index("ix_targets_job", "targets", slot)
    _index("ix_targets_state", "targets", ["cluster_id", "state"])
    _index("ix_targets_asked_time", "targets", ["cluster_id", "asked_time"])


def _runs() -> None:
    op.create_table(
        "target_runs",
        sa.Column("target_row", ROW_ID, nullable=False),
        sa.Column("start_time", sa.BigInteger(), nullable=False),
        sa.Column("end_time", sa.BigInteger(), nullable=False),
        sa.Column("num_gpus", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["target_row"], ["targets.id"], name=op.f("fk_target_runs_target_row")
        ),
        sa.PrimaryKeyConstraint("target_row", "start_time", name=op.f("pk_target_runs")),
        if_not_exists=True,
        **MARIADB,
    )


def _events() -> None:
    op.create_table(
        "target_events",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("target_row", ROW_ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("what", sa.String(16), nullable=False),
        sa.Column("finish_time", sa.BigInteger()),
        sa.Column("probability", sa.Double()),
        sa.Column("told_time", sa.BigInteger()),
        sa.ForeignKeyConstraint(
            ["target_row"], ["targets.id"], name=op.f("fk_target_events_target_row")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_target_events")),
        if_not_exists=True,
        **MARIADB,
    )
    _index("ix_target_events_target_row", "target_events", ["target_row"])
    _index("ix_target_events_at", "target_events", ["at"])


def _index(name: str, table: str, columns: list[str]) -> None:
    op.create_index(name, table, columns, if_not_exists=True)


def downgrade() -> None:
    raise ConfigError(
        "schema 0008 holds what no earlier one has a place for",
        "restore the backup that was made before the upgrade",
    )
