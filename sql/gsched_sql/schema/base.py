"""What all tables share: names of constraints, options of MariaDB, dimension tables, slots."""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, Column, ForeignKey, MetaData, String, Table

from gsched_sql.columns import KeptText, RowId

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# Rows that keep every character, and text that compares as it is written, blanks at its end, too.
_MARIADB = {"engine": "InnoDB", "charset": "utf8mb4", "collate": "utf8mb4_nopad_bin"}
_OPTIONS: dict[str, Any] = {
    f"{dialect}_{name}": value
    for dialect in ("mariadb", "mysql")  # SQLAlchemy's two names for it
    for name, value in _MARIADB.items()
}

SLOT = ("cluster_id", "job_id", "array_task", "het_offset")


def table(name: str, about: str, *items: Any) -> Table:
    """A table; `about` is its line in the manual, as the `doc` of its columns is theirs."""
    return Table(name, metadata, *items, info={"about": about}, **_OPTIONS)


def row_id() -> Column[Any]:
    """The key of a table whose rows are referred to."""
    return Column("id", RowId, primary_key=True, doc="row number, of no meaning outside")


def names(name: str, about: str, *more: Column[Any]) -> Table:
    """A table that holds each text once, so that long tables refer to it by number."""
    return table(
        name,
        about,
        row_id(),
        Column("name_digest", String(64), nullable=False, unique=True, doc="SHA-256 key of name"),
        Column("name", KeptText, nullable=False, doc="the text as told"),
        *more,
    )


def slot() -> tuple[Column[Any], ...]:
    """The place in Slurm that one job id names."""
    return (
        Column("cluster_id", RowId, ForeignKey("clusters.id"), nullable=False, doc="cluster"),
        Column("job_id", BigInteger, nullable=False, doc="the id that users see"),
        Column("array_task", BigInteger, nullable=False, doc="array task, -1: none"),
        Column("het_offset", BigInteger, nullable=False, doc="het component, -1: none"),
    )
