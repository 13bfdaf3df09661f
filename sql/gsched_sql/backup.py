"""A database into one file and back: online, whole or not at all, from any engine to any other."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Column, Connection, Engine, MetaData, Table, exc, select

from gsched import __version__
from gsched.errors import ConfigError, DataError, PermissionDeniedError
from gsched.files import writing_whole
from gsched.model.progress import Progress, silent
from gsched_sql import migrate, roles
from gsched_sql.backup_file import (
    BackupReader,
    BackupWriter,
    Manifest,
    Rows,
    StreamHash,
    TableEntry,
    opened,
)
from gsched_sql.engine import check_server, open_engine, reading, use_wal, writing
from gsched_sql.inserts import insert_columns
from gsched_sql.schema import REVISION
from gsched_sql.stored_tables import is_of_another_form, kind_of, rows, stored_tables
from gsched_sql.urls import location

_DERIVED = frozenset({"derivations"})  # filled when the tables are made
_CACHE_KIB = 2**18
"""SQLite's own 2 MiB would read and write pages of indexes over and over."""
_INTEGERS = range(-(2**63), 2**63)
_CELLS: dict[str, frozenset[type]] = {
    "boolean": frozenset({bool, type(None)}),
    "integer": frozenset({int, type(None)}),
    "real": frozenset({float, int, type(None)}),
    "text": frozenset({str, type(None)}),
    "binary": frozenset({bytes, type(None)}),
}


@dataclass(frozen=True, slots=True)
class BackupSummary:
    """What a backup holds. `location` is the database, `schema` the revision of the backup."""

    location: str
    path: str
    schema: str
    made_at: int
    tables: int
    rows: int
    size_bytes: int


def write(
    engine: Engine,
    path: Path,
    *,
    replace: bool = False,
    on_progress: Progress = silent,
) -> BackupSummary:
    """Write one state of the database into `path`, while others go on reading and writing.

    The schema may be an older one. Raises ConfigError where the database has none or a newer one,
    or an upgrade was broken off; PermissionDeniedError for whoever sees only some rows; UsageError
    where `path` is there (unless `replace`); UnavailableError when it cannot be written.
    """
    made_at = int(time.time())
    with reading(engine) as conn:
        schema = migrate.revision(conn)
        tables = _all_tables(conn, schema)
        with (
            writing_whole(path, 0o600, replace=replace) as stream,
            BackupWriter(stream) as archive,
        ):
            entries = [_add(archive, conn, table, on_progress) for table in tables]
            archive.close(
                Manifest(str(schema), __version__, conn.dialect.name, made_at, tuple(entries))
            )
    size = path.stat().st_size
    total = sum(entry.rows for entry in entries)
    where = location(engine.url)
    return BackupSummary(where, str(path), str(schema), made_at, len(entries), total, size)


def _all_tables(conn: Connection, schema: str | None) -> list[Table]:
    where = location(conn.engine.url)
    if schema is None or schema > REVISION:
        raise ConfigError(
            f"{where} is empty" if schema is None else f"{where} is of a newer gsched",
            "there is nothing to back up" if schema is None else "use the newer gsched",
        )
    roles.see_all_rows(conn)
    if migrate.was_broken_off(conn, schema):
        raise migrate.broken_off(conn.engine, schema)
    if is_of_another_form(conn, schema):
        raise PermissionDeniedError(
            f"not all tables of {where} are there for this role", "run as the database's owner"
        )
    return stored_tables(conn)


def _add(
    archive: BackupWriter, conn: Connection, table: Table, on_progress: Progress
) -> TableEntry:
    columns = [(column.name, kind_of(column)) for column in table.columns]
    # Closed before the connection: a full disk leaves them where they are.
    with (
        closing(rows(conn, table)) as stored,
        closing(_counted(table.name, stored, on_progress)) as counted,
    ):
        return archive.add(table.name, columns, counted)


def _counted(what: str, parts: Iterable[Any], on_progress: Progress) -> Generator[Any, None, None]:
    done = 0
    for part in parts:
        yield part
        done += len(part)
        on_progress(what, done)


def restore(url: str, path: Path, *, on_progress: Progress = silent) -> BackupSummary:
    """Put a backup into the database at `url`, which must be empty; a missing one is made.

    All or nothing: every row, its type, the number of rows and the hash of each table are checked
    on the way in, and each table is read back and hashed again before the end. A backup of an
    older schema is restored as it was and then migrated.

    Raises DataError for a damaged or hostile file, ConfigError where the database is not empty or
    the backup is of a newer gsched.
    """
    with opened(path) as backup:
        _check_schema(backup)
        engine = open_engine(url, create=True)
        try:
            check_server(engine)
            use_wal(engine)
            with writing(engine) as conn:
                if conn.dialect.name == "sqlite":
                    conn.exec_driver_sql(f"PRAGMA cache_size = -{_CACHE_KIB}")
                with_roles = roles.are_there(conn)
                _clear(conn, location(engine.url))
                _fill(conn, backup, on_progress)
                if with_roles:  # their rights went with the tables
                    roles.grant(conn)
                migrate.settle(conn)
            migrate.check(engine)
        finally:
            engine.dispose()
        manifest = backup.manifest
        return BackupSummary(
            location(engine.url),
            str(path),
            manifest.schema,
            manifest.made_at,
            len(manifest.tables),
            sum(table.rows for table in manifest.tables),
            path.stat().st_size,
        )


def _check_schema(backup: BackupReader) -> None:
    schema = backup.manifest.schema
    if schema in migrate.revisions():
        return
    if schema.isdigit() and schema > REVISION:
        raise ConfigError(
            f"the backup is of a newer gsched (schema {schema}, this one knows {REVISION})",
            "restore it with the newer gsched",
        )
    raise backup.damaged(f"there is no schema {schema!r}")


def _clear(conn: Connection, where: str) -> None:
    """See that there is not a row in the database, and leave no table in it."""
    commits_each_table = conn.dialect.name == "mariadb"  # so that a killed restore leaves some
    if commits_each_table:
        migrate.drop_half_made(conn)
    if migrate.revision(conn) is None:
        return
    for table in stored_tables(conn):
        if table.name not in _DERIVED and conn.execute(select(table).limit(1)).first() is not None:
            raise ConfigError(
                f"{where} is not empty: a backup is restored into an empty database alone",
                "name another one by GSCHED_DATABASE_URL or [database] url, or move this one away",
            )
    if commits_each_table:
        migrate.run_migrations(conn)
    roles.withdraw(conn)
    there = MetaData()
    there.reflect(conn, only=[table.name for table in stored_tables(conn)])
    there.drop_all(conn)
    conn.exec_driver_sql(f"DROP TABLE {migrate.VERSION_TABLE}")  # last: it tells whose they were


def _fill(conn: Connection, backup: BackupReader, on_progress: Progress) -> None:
    migrate.run_migrations(conn, backup.manifest.schema)
    tables = stored_tables(conn)
    entries = _matched(backup, tables)
    for table in tables:
        conn.execute(table.delete())  # what a migration has filled in itself
    for table in tables:
        entry = entries[table.name]
        for some in _counted(f"restoring {table.name}", backup.rows(entry), on_progress):
            _insert(conn, backup, table, entry, some)
    for table in tables:
        _verify(conn, table, entries[table.name], on_progress)
    if backup.manifest.schema != REVISION:
        on_progress(f"migrating to schema {REVISION}", 0)
        migrate.run_migrations(conn)


def _matched(backup: BackupReader, tables: Sequence[Table]) -> dict[str, TableEntry]:
    """The backup's tables by name, when they are those of its schema."""
    entries = {entry.name: entry for entry in backup.manifest.tables}
    if entries.keys() != {table.name for table in tables}:
        raise backup.damaged(f"its tables are not those of schema {backup.manifest.schema}")
    for table in tables:
        told = dict(entries[table.name].columns)
        if told != {column.name: kind_of(column) for column in table.columns}:
            raise backup.damaged(f"the columns of its table {table.name} are not those of gsched")
    return entries


def _insert(
    conn: Connection, backup: BackupReader, table: Table, entry: TableEntry, some: Rows
) -> None:
    columns = dict(zip((name for name, _ in entry.columns), zip(*some, strict=True), strict=True))
    for name, cells in columns.items():
        why = _not_storable(table.c[name], cells)
        if why:
            raise backup.damaged(f"column {name} of table {table.name} holds {why}")
    driver: Any = conn.dialect.loaded_dbapi
    refused = (driver.IntegrityError, driver.DataError, driver.ProgrammingError)
    try:
        insert_columns(conn, table, len(some), columns)
    except (exc.IntegrityError, exc.DataError, exc.ProgrammingError, *refused) as e:
        told = " ".join(str(getattr(e, "orig", e)).split())
        raise backup.damaged(f"rows of table {table.name} do not fit ({told})") from e


def _not_storable(column: Column[Any], cells: Sequence[Any]) -> str:
    """Why these values are none for a column, "" when they are."""
    kind = kind_of(column)
    others = set(map(type, cells)) - _CELLS[kind]
    if others:
        return f"{min(other.__name__ for other in others)} in place of {kind}"
    told = [cell for cell in cells if cell is not None]
    if kind == "integer" and told and not (min(told) in _INTEGERS and max(told) in _INTEGERS):
        return "a number beyond 64 bits"
    if kind == "text":
        joined = "".join(told)
        if "\0" in joined or not _is_unicode(joined):
            return "a character that no engine stores"
    return ""


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _verify(
    conn: Connection,
    table: Table,
    entry: TableEntry,
    on_progress: Progress,
) -> None:
    """Read a table back as a backup would, and compare."""
    stored = StreamHash([kind for _, kind in entry.columns])
    ordered = Table(table.name, MetaData(), *(_copy(table.c[name]) for name, _ in entry.columns))
    for some in _counted(f"verifying {table.name}", rows(conn, ordered), on_progress):
        stored.encoded(some)
    if (stored.rows, stored.sha256) != (entry.rows, entry.sha256):
        raise DataError(
            f"table {table.name} reads otherwise than it was backed up ({stored.rows} of "
            f"{entry.rows} rows): nothing has been restored",
            "the backup was changed, or this engine cannot hold its values",
        )


def _copy(column: Column[Any]) -> Column[Any]:
    return Column(column.name, column.type, primary_key=column.primary_key, info=dict(column.info))
