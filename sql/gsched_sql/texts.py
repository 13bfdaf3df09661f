"""Columns that refer to a row of a table of texts, by the field that they stand for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, Select, Table, select

from gsched_sql.names import intern
from gsched_sql.schema import job_names, node_lists, partitions, qos, tenants, tres_lists, users

TEXT_TABLES: Mapping[str, Table] = {
    "user": users,
    "tenant": tenants,
    "partition": partitions,
    "qos": qos,
    "name": job_names,
    "node_list": node_lists,
    "requested": tres_lists,
    "allocated": tres_lists,
}
"""The table of each field whose column ``<field>_id`` refers to a text."""

JOB_TEXTS = ("user", "tenant", "partition", "qos", "name")
"""The fields of `jobs` that do."""

TextIds = Mapping[str, Mapping[str, int]]
"""Field → text → row."""


def with_texts(table: Table, fields: Iterable[str]) -> Select[Any]:
    """All columns of `table`, with the texts of `fields` under the fields' names."""
    columns = []
    joined: Any = table
    for field in fields:
        texts = TEXT_TABLES[field].alias(f"{field}_texts")
        joined = joined.outerjoin(texts, texts.c.id == table.c[f"{field}_id"])
        columns.append(texts.c.name.label(field))
    return select(table, *columns).select_from(joined)


def intern_fields(conn: Connection, texts: Mapping[str, Iterable[str | None]]) -> TextIds:
    """Rows of the texts of each field, made where there is none yet."""
    wanted: dict[str, set[str | None]] = {}
    for field, told in texts.items():
        wanted.setdefault(TEXT_TABLES[field].name, set()).update(told)
    tables = {table.name: table for table in TEXT_TABLES.values()}
    ids = {name: intern(conn, tables[name], told) for name, told in wanted.items()}
    return {field: ids[TEXT_TABLES[field].name] for field in texts}
