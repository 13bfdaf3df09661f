"""texts once; conflicts, phases, steps, node events, samples, leases, fairness

Revision ID: 0003
Revises: 0002

The old tables are set aside, the new ones filled from them in pieces, and the old ones dropped.
SQLite and PostgreSQL undo all of it when it is interrupted. MariaDB does not undo the making of
tables: there every step sees what has been done already, so that running it again completes it.
"""

from __future__ import annotations

from alembic import op

from gsched.errors import ConfigError
from gsched_sql.migrations import copy_0003, form_0003

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    conn = op.get_bind()
    copy_0003.set_aside(conn)
    copy_0003.alter_kept(conn)
    made = [table for table in form_0003.metadata.sorted_tables if table not in form_0003.KEPT]
    form_0003.metadata.create_all(conn, tables=made)
    for index in (index for table in made for index in table.indexes):
        index.create(conn, checkfirst=True)  # killed between a table and its indexes
    copy_0003.copy_jobs(conn)
    copy_0003.copy_attempts(conn)
    copy_0003.drop_old(conn)


def downgrade() -> None:
    raise ConfigError(
        "schema 0003 holds what no earlier one has a place for",
        "restore the backup that was made before the upgrade",
    )
