"""The tables of a database as they are stored, of whatever revision its schema is.

Backups are taken of older schemas too, so that the columns come from the database itself. Texts
are read and written as stored (``columns.KeptText`` escapes alike on every engine).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    LargeBinary,
    MetaData,
    Table,
    Text,
    inspect,
    select,
)
from sqlalchemy.dialects.mysql import TINYINT
from sqlalchemy.types import TypeEngine

from gsched_sql.schema import REVISION, metadata

_FIRST = frozenset(
    {
        "actions",
        "attempt_tres",
        "attempts",
        "audit_events",
        "clusters",
        "ingest_cursors",
        "jobs",
        "policy_memory",
        "prediction_quantiles",
        "predictions",
        "rejects",
        "rounds",
        "standings",
        "tenants",
        "users",
    }
)
_OF_0004 = frozenset({"daemon_spans", "leaders"})
_OF_0005 = frozenset({"fits"})
_OF_0006 = frozenset(
    {
        "node_orders",
        "node_pools",
        "pool_counts",
        "power_jobs",
        "power_memory",
        "power_spans",
        "wake_delays",
    }
)
_OF_0007 = frozenset({"fairness_quotas", "fairness_weights"})
_OF_0008 = frozenset({"target_events", "target_runs", "targets"})
_ALL = frozenset(metadata.tables)
_TO_0007 = _ALL - _OF_0008
TABLES_OF: Mapping[str, frozenset[str]] = {
    "0001": _FIRST,
    "0002": _FIRST | {"requests"},
    "0003": _TO_0007 - _OF_0004 - _OF_0005 - _OF_0006 - _OF_0007,
    "0004": _TO_0007 - _OF_0005 - _OF_0006 - _OF_0007,
    "0005": _TO_0007 - _OF_0006 - _OF_0007,
    "0006": _TO_0007 - _OF_0007,
    "0007": _TO_0007,
    REVISION: _ALL,
}
"""The tables of each revision."""

_SET_ASIDE = frozenset({"attempts_0002", "jobs_0002"})  # in the midst of an upgrade

KNOWN = frozenset().union(*TABLES_OF.values())
"""Tables of gsched; whatever else lies in a database is somebody else's."""

ROWS_AT_ONCE = 1000

_PLAIN: dict[str, TypeEngine[Any]] = {
    "boolean": Boolean(),
    "integer": BigInteger(),
    "real": Double(),
    "text": Text(),
    "binary": LargeBinary(),
}
_BY_PYTHON_TYPE = {
    bool: "boolean",
    int: "integer",
    float: "real",
    Decimal: "real",  # how MariaDB's DOUBLE is reflected
    str: "text",
    bytes: "binary",
}


def kind_of(column: Column[Any]) -> str:
    """What a column of `stored_tables` holds: boolean, integer, real, text or binary."""
    return str(column.info["kind"])


def is_of_another_form(conn: Connection, revision: str) -> bool:
    """Whether gsched's tables in the database are not those of the revision that it tells."""
    known = KNOWN | _SET_ASIDE
    there = known & set(inspect(conn).get_table_names())
    return there != TABLES_OF.get(revision, there)


def stored_tables(conn: Connection) -> list[Table]:
    """gsched's tables in the database, those that others refer to first, with plain types."""
    there = KNOWN & set(inspect(conn).get_table_names())
    reflected = MetaData()
    reflected.reflect(conn, only=sorted(there))
    return [_plain(table) for table in reflected.sorted_tables if table.name in there]


def _plain(table: Table) -> Table:
    columns = []
    for column in table.columns:
        kind = kind_of_type(column.type)
        columns.append(
            Column(column.name, _PLAIN[kind], primary_key=column.primary_key, info={"kind": kind})
        )
    return Table(table.name, MetaData(), *columns)


def kind_of_type(told: TypeEngine[Any]) -> str:
    """The same of a type that an engine reports."""
    if isinstance(told, TINYINT) and told.display_width == 1:  # MariaDB's BOOLEAN
        return "boolean"
    return _BY_PYTHON_TYPE[told.python_type]


def rows(conn: Connection, table: Table) -> Generator[list[tuple[Any, ...]], None, None]:
    """All rows in the order of the primary key, some at a time; the same order on every engine."""
    is_postgresql = conn.dialect.name == "postgresql"  # its texts are in the order of a language
    key = [
        column.collate("C") if is_postgresql and kind_of(column) == "text" else column
        for column in table.primary_key.columns
    ]
    query = select(table).order_by(*key).execution_options(yield_per=ROWS_AT_ONCE)
    with conn.execute(query) as result:
        for some in result.partitions():
            yield [tuple(row) for row in some]
