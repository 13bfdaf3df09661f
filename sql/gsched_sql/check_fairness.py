"""Checks of the ledger of tenants."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, Table, or_, select

from gsched.model.accounts import QUOTA_SOURCES
from gsched_sql.findings import Findings
from gsched_sql.schema import fairness_entries, fairness_quotas, fairness_weights

_AMOUNTS = tuple(c.name for c in fairness_entries.columns if c.name.endswith("_gpu_s"))


def check(conn: Connection, found: Findings) -> None:
    """All checks of these tables."""
    for table, time, wrong in _rules():
        for value in conn.execute(select(table.c[time]).where(wrong).limit(1000)).scalars():
            found.add("fairness", f"{table.name}: {time} {value}")


def _rules() -> Iterator[tuple[Table, str, ColumnElement[bool]]]:
    """Tables, the time by which a row is told, and what is wrong in a row of each."""
    e, q, w = fairness_entries.c, fairness_quotas.c, fairness_weights.c
    yield fairness_entries, "begin_time", or_(e.length_s <= 0, *(e[name] < 0 for name in _AMOUNTS))
    yield fairness_quotas, "since_time", (q.num_gpus < 0) | q.source.not_in(QUOTA_SOURCES)
    yield fairness_weights, "since_time", w.weight <= 0
