"""What the manual says of the database: its tables, who may read them, and its queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.resources import files
from typing import Any

from sqlalchemy import Column, Index, Table, UniqueConstraint

from gsched_sql import schema
from gsched_sql.columns import KeptText
from gsched_sql.row_rules import rules

_GROUPS = {
    "jobs": "Jobs and their attempts",
    "cluster": "The cluster: node events and samples",
    "daemon": "The daemon: predictions, decisions, requests, audit",
    "fairness": "Leases and fairness",
    "targets": "Deadlines",
    "power": "Nodes that sleep: orders, what was seen of them, jobs that waited",
}
"""Module of ``gsched_sql.schema`` → what its tables are about."""


_GIVEN = re.compile(r"^\s*FROM (?:chosen|truth)\b|:[a-z_]+\b", re.MULTILINE)
"""What gsched puts into a named query: rows that it has chosen, or a parameter."""


@dataclass(frozen=True, slots=True)
class ColumnText:
    """One column: `kind` is its type and what it is (``integer, key, refers to jobs.id``)."""

    name: str
    kind: str
    doc: str


@dataclass(frozen=True, slots=True)
class TableText:
    """One table; `readers` is what a login in the role of readers sees of it."""

    name: str
    about: str
    columns: tuple[ColumnText, ...]
    indexes: tuple[str, ...]
    readers: str


def overview() -> str:
    """What holds for all tables, in paragraphs."""
    return (schema.__doc__ or "").rpartition("\n\n")[0].replace("``", "")


def tables() -> dict[str, tuple[TableText, ...]]:
    """The tables by what they are about, in the order in which the schema makes them."""
    groups: dict[str, list[TableText]] = {title: [] for title in _GROUPS.values()}
    for module, title in _GROUPS.items():
        for value in vars(import_module(f"gsched_sql.schema.{module}")).values():
            if isinstance(value, Table):
                groups[title].append(_described(value))
    return {title: tuple(found) for title, found in groups.items()}


def queries() -> dict[str, str]:
    """Those of the named queries behind the reports that can be run as they are, by name.

    Others read from rows that gsched has chosen, or are asked for given rows.
    """
    return {name: query for name, query in _texts("queries").items() if not _GIVEN.search(query)}


def examples() -> dict[str, str]:
    """Queries for the people of a site to begin with, by name."""
    return _texts("examples")


def _texts(folder: str) -> dict[str, str]:
    paths = sorted((files("gsched_sql") / folder).iterdir(), key=lambda path: path.name)
    return {
        path.name.removesuffix(".sql"): path.read_text("utf-8")
        for path in paths
        if path.name.endswith(".sql")
    }


def _described(table: Table) -> TableText:
    return TableText(
        name=table.name,
        about=table.info["about"],
        columns=tuple(ColumnText(c.name, _kind(c), c.doc or "") for c in table.columns),
        indexes=tuple(_indexes(table)),
        readers=_readers(rules("postgresql")[table.name]),
    )


def _kind(column: Column[Any]) -> str:
    words = [_type(column)]
    if column.primary_key:
        words.append("key")
    words += [f"refers to {key.target_fullname}" for key in column.foreign_keys]
    if column.nullable and not column.primary_key:
        words.append("or NULL")
    return ", ".join(words)


def _type(column: Column[Any]) -> str:
    if isinstance(column.type, KeptText):
        return "text"
    name = type(column.type).__name__
    length = getattr(column.type, "length", None)
    plain = {"BigInteger": "integer", "Integer": "integer", "Double": "number",
             "Boolean": "boolean", "LargeBinary": "bytes"}  # fmt: skip
    return plain.get(name) or f"text of up to {length} characters"


def _indexes(table: Table) -> Iterator[str]:
    for constraint in sorted(table.constraints, key=lambda c: str(c.name)):
        if isinstance(constraint, UniqueConstraint):
            yield f"unique ({', '.join(c.name for c in constraint.columns)})"
    for index in sorted(table.indexes, key=lambda i: str(i.name)):
        yield _index(index)


def _index(index: Index) -> str:
    unique = "unique " if index.unique else ""
    return f"{unique}({', '.join(c.name for c in index.columns)})"


def _readers(rule: str) -> str:
    if rule == "1 = 1":
        return "every row"
    return "no row" if rule == "1 = 0" else "what belongs to their own jobs"
