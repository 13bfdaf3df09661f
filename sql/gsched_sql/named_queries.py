"""The report queries in ``queries/*.sql``: plain SQL that all engines understand."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from sqlalchemy import CTE, TextClause, TextualSelect, text


@cache
def named_query(name: str) -> TextClause:
    """The query in ``queries/<name>.sql``."""
    return text((files("gsched_sql") / "queries" / f"{name}.sql").read_text("utf-8"))


def over(name: str, table: CTE) -> TextualSelect:
    """The query in ``queries/<name>.sql``, with `table` for the one of its name that it reads."""
    return named_query(name).columns().add_cte(table)
