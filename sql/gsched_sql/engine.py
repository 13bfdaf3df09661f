"""Connections: SQLite in WAL mode or a server, and their failures as gsched's errors.

SQLite runs with synchronous=FULL: a commit is on disk before it returns. In WAL mode NORMAL would
survive the death of a process but not a power cut, and an intent that is lost after its write went
out leaves a value in Slurm that nobody remembers. A round commits a few times, so the price is a
few fsyncs each half minute.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched_sql.mounts import network_file_system

BUSY_TIMEOUT_S = 10.0
"""For so long a command waits while another process writes."""

_WRITES = "gsched_writes"
_NO_ACCESS = (
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_AUTH,
    sqlite3.SQLITE_CANTOPEN,
)
_INIT_HINT = "run `gsched db init`"


def open_engine(
    url: str, *, create: bool = False, busy_timeout_s: float = BUSY_TIMEOUT_S
) -> Engine:
    """An engine for `url`. With `create`, a missing SQLite file and its folder are made.

    Raises ConfigError for a URL that does not work, for a missing database and for an SQLite file
    on a network file system; PermissionDeniedError or UnavailableError when the file cannot be
    made. No error shows a password.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise ConfigError(
            "the database URL is not one", "write sqlite:////var/lib/gsched/history.db"
        ) from None
    is_sqlite = parsed.get_backend_name() == "sqlite"
    if is_sqlite:
        _prepare_file(_file_of(parsed), create)
    try:
        engine = create_engine(
            parsed, connect_args={"timeout": busy_timeout_s} if is_sqlite else {}
        )
    except NoSuchModuleError:
        raise ConfigError(
            f"the database URL names an unknown kind of database: {parsed.drivername}",
            "gsched works with sqlite, postgresql and mariadb",
        ) from None
    except ModuleNotFoundError as e:
        raise ConfigError(
            f"the driver of {parsed.drivername} is not installed: no module {e.name}",
            f"pip install {e.name}",
        ) from None
    if is_sqlite:
        _set_up_sqlite(engine)
    return engine


def _file_of(url: URL) -> Path:
    name = url.database
    if not name or name == ":memory:" or name.startswith("file:"):
        raise ConfigError(
            "the history needs a database file", "write sqlite:////var/lib/gsched/history.db"
        )
    return Path(name)


def _prepare_file(path: Path, create: bool) -> None:
    """See that there is a safe file. The whole folder counts: WAL keeps two more files there."""
    try:
        if not path.exists():
            if not create:
                raise ConfigError(f"there is no job history at {path}", _INIT_HINT)
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
        kind = network_file_system(path)
        if kind:
            raise ConfigError(
                f"{path} is on {kind}, a network file system: SQLite loses data there",
                "put state_dir on a local disk, or use a PostgreSQL or MariaDB server",
            )
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o640))
        found = path.stat()
    except PermissionError as e:
        raise PermissionDeniedError(
            f"cannot use {path}: {e.strerror}", "run as the user that owns gsched's state_dir"
        ) from e
    except OSError as e:
        raise UnavailableError(f"cannot use {path}: {e.strerror}") from e
    if not stat.S_ISREG(found.st_mode):
        raise ConfigError(f"{path} is not a file", "set url in [database] or state_dir")
    if found.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"anybody may write to {path}: its contents cannot be trusted", f"chmod o-w {path}"
        )


def _set_up_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(dbapi: sqlite3.Connection, _record: Any) -> None:
        dbapi.isolation_level = None  # transactions begin below, not when the driver thinks
        dbapi.execute("PRAGMA foreign_keys = ON")
        dbapi.execute("PRAGMA synchronous = FULL")

    @event.listens_for(engine, "begin")
    def begin(conn: Connection) -> None:
        # A transaction that will write takes the lock first: one that began by reading could not
        # wait for it later.
        writes = conn.get_execution_options().get(_WRITES)
        conn.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def use_wal(engine: Engine) -> None:
    """Put an SQLite file into WAL mode, which it keeps: readers and the writer do not wait."""
    if engine.dialect.name != "sqlite":
        return
    with translated(engine.url):
        raw = engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode = WAL")
        finally:
            raw.close()


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One transaction that sees one state of the database."""
    with translated(engine.url), engine.connect() as conn, conn.begin():
        yield conn


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that is on disk when the block ends, and undone when it raises."""
    with (
        translated(engine.url),
        engine.connect().execution_options(**{_WRITES: True}) as conn,
        conn.begin(),
    ):
        yield conn


def location(url: URL) -> str:
    """How messages name a database: the file, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.render_as_string(hide_password=True)


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Raise gsched's errors in place of the driver's."""
    try:
        yield
    except IntegrityError as e:
        raise GschedError(f"the database {location(url)} refused a row: {e.orig}") from e
    except DBAPIError as e:
        raise _as_gsched_error(e.orig, location(url)) from e
    except sqlite3.Error as e:
        raise _as_gsched_error(e, location(url)) from e


def _as_gsched_error(error: BaseException | None, where: str) -> GschedError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return TryAgainError(
            f"the database {where} is locked by another process",
            f"try again; `fuser {where}` shows who holds it",
        )
    if code in _NO_ACCESS:  # even reading needs the write-ahead log's index beside the file
        return PermissionDeniedError(
            f"no permission to use the database {where}",
            "run as the user that owns gsched's state_dir",
        )
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return DataError(
            f"{where} is damaged or no database of gsched: {error}",
            "restore it from a backup, or move it away and run `gsched db init`",
        )
    return UnavailableError(f"the database {where} does not work: {error}")
