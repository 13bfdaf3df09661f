"""How much room a database takes, and giving some of it back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import OperationalError

from gsched_sql.engine import reading
from gsched_sql.failures import translated
from gsched_sql.schema import metadata
from gsched_sql.urls import location

# Indexes count to their tables.
_TABLES = {
    "sqlite": (
        "SELECT m.tbl_name, SUM(s.pgsize) FROM dbstat s JOIN sqlite_schema m ON m.name = s.name "
        "WHERE s.aggregate = 1 GROUP BY m.tbl_name"
    ),
    "postgresql": (
        "SELECT relname, pg_total_relation_size(oid) FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    ),
    "mariadb": (
        "SELECT table_name, data_length + index_length FROM information_schema.tables "
        "WHERE table_schema = database() AND table_type = 'BASE TABLE'"
    ),
}


def database_bytes(conn: Connection) -> int:
    """An SQLite file with what its write-ahead log still holds; all tables of a server."""
    if conn.dialect.name == "sqlite":
        return _file_bytes(conn.engine)
    return sum(table_bytes(conn).values())


def table_bytes(conn: Connection) -> Mapping[str, int]:
    """The size of each table with its indexes; none where this SQLite cannot tell."""
    try:
        rows = conn.execute(text(_TABLES[conn.dialect.name])).all()
    except OperationalError:  # dbstat is a choice of whoever builds SQLite
        if conn.dialect.name != "sqlite":
            raise
        return {}
    found = {str(name): int(size or 0) for name, size in rows}
    return {name: found[name] for name in sorted(found) if name in metadata.tables}


def shrink(engine: Engine) -> tuple[int, int]:
    """Let an SQLite file shrink to what it holds; the bytes of the database before and after.

    Writers wait meanwhile, and as much room as the database takes is needed beside it.
    """
    with reading(engine) as conn:
        before = database_bytes(conn)
    if engine.dialect.name != "sqlite":
        return before, before
    with translated(engine.url):
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            raw.cursor().execute("VACUUM")
            raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            raw.close()
    return before, _file_bytes(engine)


def _file_bytes(engine: Engine) -> int:
    parts = (Path(location(engine.url) + suffix) for suffix in ("", "-wal"))
    return sum(p.stat().st_size for p in parts if p.exists())
