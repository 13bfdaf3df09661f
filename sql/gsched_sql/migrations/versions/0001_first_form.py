"""first form

Revision ID: 0001
Revises:
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
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
        "clusters",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("name_digest", sa.String(length=64), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_clusters")),
        sa.UniqueConstraint("name_digest", name=op.f("uq_clusters_name_digest")),
        **MARIADB,
    )
    op.create_table(
        "ingest_cursors",
        sa.Column("source_digest", sa.String(length=64), nullable=False),
        sa.Column("source_key", TEXT, nullable=False),
        sa.Column("cursor", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("source_digest", name=op.f("pk_ingest_cursors")),
        **MARIADB,
    )
    op.create_table(
        "rejects",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("content_digest", sa.String(length=64), nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("line", sa.BigInteger(), nullable=False),
        sa.Column("reason", TEXT, nullable=False),
        sa.Column("raw", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rejects")),
        sa.UniqueConstraint("content_digest", name=op.f("uq_rejects_content_digest")),
        **MARIADB,
    )
    op.create_table(
        "tenants",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("name_digest", sa.String(length=64), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
        sa.UniqueConstraint("name_digest", name=op.f("uq_tenants_name_digest")),
        **MARIADB,
    )
    op.create_table(
        "users",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("name_digest", sa.String(length=64), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("name_digest", name=op.f("uq_users_name_digest")),
        **MARIADB,
    )
    op.create_table(
        "jobs",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("array_task", sa.BigInteger(), nullable=False),
        sa.Column("het_offset", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("user_id", ROW_ID, nullable=True),
        sa.Column("tenant_id", ROW_ID, nullable=True),
        sa.Column("partition", TEXT, nullable=True),
        sa.Column("qos", TEXT, nullable=True),
        sa.Column("name", TEXT, nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("state_text", TEXT, nullable=False),
        sa.Column("start_time", sa.BigInteger(), nullable=True),
        sa.Column("end_time", sa.BigInteger(), nullable=True),
        sa.Column("time_limit_s", sa.BigInteger(), nullable=True),
        sa.Column("num_nodes", sa.BigInteger(), nullable=True),
        sa.Column("num_cpus", sa.BigInteger(), nullable=True),
        sa.Column("num_gpus", sa.BigInteger(), nullable=True),
        sa.Column("num_attempts", sa.Integer(), nullable=False),
        sa.Column("queueing_s", sa.BigInteger(), nullable=True),
        sa.Column("duration_s", sa.BigInteger(), nullable=True),
        sa.Column("gpu_time_s", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_jobs_cluster_id")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_jobs_tenant_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_jobs_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint(
            "cluster_id", "job_id", "array_task", "het_offset", "epoch", name="uq_jobs_key"
        ),
        **MARIADB,
    )
    op.create_index("ix_jobs_end_time", "jobs", ["cluster_id", "end_time"], unique=False)
    op.create_index("ix_jobs_epoch", "jobs", ["epoch"], unique=False)
    op.create_index("ix_jobs_user", "jobs", ["user_id", "epoch"], unique=False)
    op.create_table(
        "predictions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("array_task", sa.BigInteger(), nullable=False),
        sa.Column("het_offset", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("model_id", sa.String(length=255), nullable=False),
        sa.Column("mean", sa.Double(), nullable=False),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("similar_jobs", sa.BigInteger(), nullable=False),
        sa.Column("as_of", sa.BigInteger(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_predictions_cluster_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_predictions")),
        sa.UniqueConstraint(
            "cluster_id",
            "job_id",
            "array_task",
            "het_offset",
            "attempt",
            "kind",
            "model_id",
            name="uq_predictions_key",
        ),
        **MARIADB,
    )
    op.create_table(
        "rounds",
        sa.Column("round_id", sa.String(length=128), nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("policy", sa.String(length=128), nullable=False),
        sa.Column("model_id", sa.String(length=255), nullable=False),
        sa.Column("acting", sa.Boolean(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("summary", TEXT, nullable=True),
        sa.ForeignKeyConstraint(["cluster_id"], ["clusters.id"], name=op.f("fk_rounds_cluster_id")),
        sa.PrimaryKeyConstraint("round_id", name=op.f("pk_rounds")),
        **MARIADB,
    )
    op.create_index("ix_rounds_started_at", "rounds", ["cluster_id", "started_at"], unique=False)
    op.create_table(
        "standings",
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("array_task", sa.BigInteger(), nullable=False),
        sa.Column("het_offset", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("found", sa.BigInteger(), nullable=False),
        sa.Column("written", sa.BigInteger(), nullable=False),
        sa.Column("may_be", TEXT, nullable=False),
        sa.Column("base_action", ROW_ID, nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_standings_cluster_id")
        ),
        sa.PrimaryKeyConstraint(
            "cluster_id",
            "job_id",
            "array_task",
            "het_offset",
            "epoch",
            "channel",
            name=op.f("pk_standings"),
        ),
        **MARIADB,
    )
    op.create_table(
        "actions",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("change_id", sa.String(length=255), nullable=False),
        sa.Column("round_id", sa.String(length=128), nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("array_task", sa.BigInteger(), nullable=False),
        sa.Column("het_offset", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.BigInteger(), nullable=False),
        sa.Column("channel", sa.String(length=64), nullable=False),
        sa.Column("before", sa.BigInteger(), nullable=True),
        sa.Column("after", sa.BigInteger(), nullable=False),
        sa.Column("reason_code", TEXT, nullable=False),
        sa.Column("reason_params", TEXT, nullable=False),
        sa.Column("takes_back", sa.Boolean(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("decided_at", sa.BigInteger(), nullable=False),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.Column("detail", TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_actions_cluster_id")
        ),
        sa.ForeignKeyConstraint(
            ["round_id"], ["rounds.round_id"], name=op.f("fk_actions_round_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_actions")),
        sa.UniqueConstraint("change_id", name=op.f("uq_actions_change_id")),
        **MARIADB,
    )
    op.create_index("ix_actions_decided_at", "actions", ["cluster_id", "decided_at"], unique=False)
    op.create_index(
        "ix_actions_job",
        "actions",
        ["cluster_id", "job_id", "array_task", "het_offset", "epoch", "channel"],
        unique=False,
    )
    op.create_index("ix_actions_state", "actions", ["state", "cluster_id"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("logical_job", ROW_ID, nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("job_id", sa.BigInteger(), nullable=False),
        sa.Column("array_task", sa.BigInteger(), nullable=False),
        sa.Column("het_offset", sa.BigInteger(), nullable=False),
        sa.Column("submit_time", sa.BigInteger(), nullable=False),
        sa.Column("user_id", ROW_ID, nullable=True),
        sa.Column("tenant_id", ROW_ID, nullable=True),
        sa.Column("partition", TEXT, nullable=True),
        sa.Column("qos", TEXT, nullable=True),
        sa.Column("name", TEXT, nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("state_text", TEXT, nullable=False),
        sa.Column("start_time", sa.BigInteger(), nullable=True),
        sa.Column("end_time", sa.BigInteger(), nullable=True),
        sa.Column("time_limit_s", sa.BigInteger(), nullable=True),
        sa.Column("num_nodes", sa.BigInteger(), nullable=True),
        sa.Column("num_cpus", sa.BigInteger(), nullable=True),
        sa.Column("num_gpus", sa.BigInteger(), nullable=True),
        sa.Column("source", TEXT, nullable=False),
        sa.Column("eligible_time", sa.BigInteger(), nullable=True),
        sa.Column("node_list", TEXT, nullable=True),
        sa.Column("exit_code", sa.BigInteger(), nullable=True),
        sa.Column("exit_signal", sa.BigInteger(), nullable=True),
        sa.Column("restarts", sa.BigInteger(), nullable=True),
        sa.Column("claim", sa.BigInteger(), nullable=False),
        sa.Column("claims", TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_attempts_cluster_id")
        ),
        sa.ForeignKeyConstraint(["logical_job"], ["jobs.id"], name=op.f("fk_attempts_logical_job")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_attempts_tenant_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_attempts_user_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attempts")),
        sa.UniqueConstraint(
            "cluster_id",
            "job_id",
            "array_task",
            "het_offset",
            "submit_time",
            name="uq_attempts_key",
        ),
        **MARIADB,
    )
    op.create_index(op.f("ix_attempts_logical_job"), "attempts", ["logical_job"], unique=False)
    op.create_table(
        "policy_memory",
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("policy", sa.String(length=128), nullable=False),
        sa.Column("round_id", sa.String(length=128), nullable=False),
        sa.Column("memory", TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"], ["clusters.id"], name=op.f("fk_policy_memory_cluster_id")
        ),
        sa.ForeignKeyConstraint(
            ["round_id"], ["rounds.round_id"], name=op.f("fk_policy_memory_round_id")
        ),
        sa.PrimaryKeyConstraint("cluster_id", "policy", name=op.f("pk_policy_memory")),
        **MARIADB,
    )
    op.create_table(
        "prediction_quantiles",
        sa.Column("prediction_id", ROW_ID, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("probability", sa.Double(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["prediction_id"],
            ["predictions.id"],
            name=op.f("fk_prediction_quantiles_prediction_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("prediction_id", "position", name=op.f("pk_prediction_quantiles")),
        **MARIADB,
    )
    op.create_table(
        "attempt_tres",
        sa.Column("attempt_id", ROW_ID, nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", TEXT, nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
            name=op.f("fk_attempt_tres_attempt_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("attempt_id", "kind", "position", name=op.f("pk_attempt_tres")),
        **MARIADB,
    )
    op.create_table(
        "audit_events",
        sa.Column("id", ROW_ID, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("round_id", sa.String(length=128), nullable=False),
        sa.Column("change_id", sa.String(length=255), nullable=True),
        sa.Column("from_state", sa.String(length=16), nullable=True),
        sa.Column("to_state", sa.String(length=16), nullable=False),
        sa.Column("detail", TEXT, nullable=False),
        sa.ForeignKeyConstraint(
            ["change_id"], ["actions.change_id"], name=op.f("fk_audit_events_change_id")
        ),
        sa.ForeignKeyConstraint(
            ["round_id"], ["rounds.round_id"], name=op.f("fk_audit_events_round_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_events")),
        **MARIADB,
    )
    op.create_index(op.f("ix_audit_events_change_id"), "audit_events", ["change_id"], unique=False)


def downgrade() -> None:
    op.drop_index(op.f("ix_audit_events_change_id"), table_name="audit_events")
    op.drop_table("audit_events")
    op.drop_table("attempt_tres")
    op.drop_table("prediction_quantiles")
    op.drop_table("policy_memory")
    op.drop_index(op.f("ix_attempts_logical_job"), table_name="attempts")
    op.drop_table("attempts")
    op.drop_index("ix_actions_state", table_name="actions")
    op.drop_index("ix_actions_job", table_name="actions")
    op.drop_index("ix_actions_decided_at", table_name="actions")
    op.drop_table("actions")
    op.drop_table("standings")
    op.drop_index("ix_rounds_started_at", table_name="rounds")
    op.drop_table("rounds")
    op.drop_table("predictions")
    op.drop_index("ix_jobs_user", table_name="jobs")
    op.drop_index("ix_jobs_epoch", table_name="jobs")
    op.drop_index("ix_jobs_end_time", table_name="jobs")
    op.drop_table("jobs")
    op.drop_table("users")
    op.drop_table("tenants")
    op.drop_table("rejects")
    op.drop_table("ingest_cursors")
    op.drop_table("clusters")
