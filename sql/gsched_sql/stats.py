"""What a database holds, in numbers."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

from sqlalchemy import Connection, Engine, TextClause, func, select, text

from gsched.model.history import Reject
from gsched_sql.columns import KeptText
from gsched_sql.engine import location, reading
from gsched_sql.schema import REVISION, metadata, rejects
from gsched_sql.values import HistoryStats


@cache
def named_query(name: str) -> TextClause:
    """The report query in ``queries/<name>.sql``."""
    return text((files("gsched_sql") / "queries" / f"{name}.sql").read_text("utf-8"))


def collect(engine: Engine) -> HistoryStats:
    """Counts and sums over the whole database."""
    with reading(engine) as conn:
        totals = conn.execute(named_query("totals")).one()
        texts = named_query("unknown_states").columns(state_text=KeptText)
        return HistoryStats(
            location=location(engine.url),
            revision=REVISION,
            rows=_rows(conn),
            states={row.state: row.jobs for row in conn.execute(named_query("states"))},
            unknown_states={row.state_text: row.attempts for row in conn.execute(texts)},
            first_submit=totals.first_submit,
            last_end=totals.last_end,
            finished_jobs=int(totals.finished_jobs or 0),
            gpu_time_jobs=int(totals.gpu_time_jobs or 0),
            gpu_time_s=int(totals.gpu_time_s or 0),
            size_bytes=_size_bytes(engine),
        )


def rejected_rows(conn: Connection, limit: int) -> list[Reject]:
    """Rows that no reader has understood, the last met first."""
    query = select(rejects).order_by(rejects.c.id.desc()).limit(limit)
    return [Reject(row.source, row.line, row.reason, row.raw) for row in conn.execute(query)]


def _rows(conn: Connection) -> dict[str, int]:
    return {
        table.name: conn.execute(select(func.count()).select_from(table)).scalar_one()
        for table in metadata.sorted_tables
    }


def _size_bytes(engine: Engine) -> int:
    """The file with what its write-ahead log still holds; 0 for a server."""
    if engine.dialect.name != "sqlite":
        return 0
    parts = (Path(location(engine.url) + suffix) for suffix in ("", "-wal"))
    return sum(p.stat().st_size for p in parts if p.exists())
