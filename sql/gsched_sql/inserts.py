"""Many rows into one table, by the quickest way that its driver has.

Row numbers are given here and not by the engine: the writer's lock (``engine.writing``) is held, so
that the greatest one plus 1 is free, and nothing has to be read back.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from sqlalchemy import Connection, Table, func, select, text

from gsched.model.trace import Cells, Constant
from gsched_sql.columns import KeptText, stored_text

_WORD = re.compile("[A-Za-z0-9_]+")
_MANY = 100  # rows for which a statement of their own is worth its preparation
_COPIED = 500
"""So many rows are copied. PostgreSQL ends a process that stands still in its transaction, but not
one that stands still between COPY and its rows: what the daemon writes each round is inserted.
"""


def next_id(conn: Connection, table: Table) -> int:
    """The first row number that is free."""
    last: int | None = conn.execute(select(func.max(table.c.id))).scalar()
    return (last or 0) + 1


def insert_rows(
    conn: Connection, table: Table, names: Sequence[str], rows: Sequence[Sequence[Any]]
) -> None:
    """Insert rows, each the values of the columns `names`."""
    if rows:
        columns = zip(*rows, strict=True)
        insert_columns(conn, table, len(rows), dict(zip(names, columns, strict=True)))


def insert_columns(
    conn: Connection, table: Table, count: int, columns: Mapping[str, Cells]
) -> None:
    """Insert `count` rows given column by column."""
    if not count:
        return
    told = {
        column.name: storable(table, column.name, columns[column.name])
        for column in table.c
        if column.name in columns
    }
    driver: Any = conn.connection.driver_connection
    may_copy = conn.dialect.driver == "psycopg" and count >= _COPIED
    if may_copy and not _has_row_rules(conn, table):
        _copy(driver, table, list(told), _rows(count, told.values()))
    else:
        # PyMySQL makes one statement of many rows, where each value has a mark
        has_many = count >= _MANY and conn.dialect.driver != "pymysql"
        if has_many:
            told = {name: _simple(cells) for name, cells in told.items()}
        statement, bound = _statement(conn, table, told, with_values=has_many)
        rows = _rows(count, bound)
        if conn.dialect.name == "sqlite":  # takes the rows one by one: no list of them is made
            driver.executemany(statement, rows)
        else:
            conn.exec_driver_sql(statement, list(rows))
    if "id" in told and conn.dialect.name == "postgresql":
        _advance_sequence(conn, table)


def _rows(count: int, columns: Collection[Cells]) -> Iterator[tuple[Any, ...]]:
    cells = (repeat(c.value, count) if isinstance(c, Constant) else c for c in columns)
    return zip(*cells, strict=True) if columns else repeat((), count)


def _simple(cells: Cells) -> Cells:
    """One value where all cells have the same."""
    if isinstance(cells, Constant) or cells[0] != cells[-1]:
        return cells
    return Constant(cells[0]) if cells.count(cells[0]) == len(cells) else cells


def _statement(
    conn: Connection, table: Table, columns: Mapping[str, Cells], *, with_values: bool
) -> tuple[str, list[Cells]]:
    """An INSERT, and the columns whose values it has marks for.

    What many rows share stands in it as it is (`with_values`): to hand each value over is most of
    what an insert costs.
    """
    quoted = conn.dialect.identifier_preparer.quote
    mark = "?" if conn.dialect.paramstyle == "qmark" else "%s"
    values, bound = [], []
    for cells in columns.values():
        plain = _plain(cells.value) if with_values and isinstance(cells, Constant) else None
        values.append(plain or mark)
        if plain is None:
            bound.append(cells)
    names = ", ".join(map(quoted, columns))
    statement = f"INSERT INTO {quoted(table.name)} ({names}) VALUES ({', '.join(values)})"  # noqa: S608
    return statement, bound


def _plain(value: object) -> str | None:
    """A value as SQL, None where that would take quoting."""
    if value is None:
        return "NULL"
    if type(value) is int:
        return str(value)
    return f"'{value}'" if isinstance(value, str) and _WORD.fullmatch(value) else None


def storable(table: Table, name: str, cells: Cells) -> Cells:
    """A column as the driver is given it."""
    if not isinstance(table.c[name].type, KeptText):
        return cells
    if isinstance(cells, Constant):
        return Constant(stored_text(cells.value))
    return list(map(stored_text, cells))


def _has_row_rules(conn: Connection, table: Table) -> bool:
    """Whether this login is held to rules (``gsched_sql.roles``): COPY then refuses to work."""
    return bool(conn.execute(select(func.row_security_active(table.name))).scalar())


def _copy(driver: Any, table: Table, names: Sequence[str], rows: Any) -> None:
    from psycopg import sql

    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(
        sql.Identifier(table.name), sql.SQL(", ").join(map(sql.Identifier, names))
    )
    with driver.cursor() as cursor, cursor.copy(statement) as copy:
        for row in rows:
            copy.write_row(row)


def _advance_sequence(conn: Connection, table: Table) -> None:
    """For whoever inserts into the table without giving a number."""
    sequence = func.pg_get_serial_sequence(text(f"'{table.name}'"), text("'id'"))
    conn.execute(select(func.setval(sequence, select(func.max(table.c.id)).scalar_subquery())))
