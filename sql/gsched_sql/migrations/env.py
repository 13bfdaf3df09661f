"""Alembic's entry point: run the migrations on the connection that gsched_sql.migrate gives."""

from __future__ import annotations

from alembic import context

from gsched_sql.schema import metadata

# One transaction around all revisions: SQLite, too, can undo the making of tables.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
