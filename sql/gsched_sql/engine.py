"""Connections to a database and its transactions: SQLite in WAL mode, PostgreSQL, MariaDB.

SQLite runs with synchronous=FULL: a commit is on disk before it returns. In WAL mode NORMAL would
survive the death of a process but not a power cut, and an intent that is lost after its write went
out leaves a value in Slurm that nobody remembers. A round commits a few times, so the price is a
few fsyncs each half minute.
"""

from __future__ import annotations

import inspect
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import URL, Connection, Engine, Pool, create_engine, event
from sqlalchemy.exc import ArgumentError, InvalidRequestError

from gsched.errors import ConfigError
from gsched_sql import sqlite_file
from gsched_sql.failures import translated
from gsched_sql.locks import exclusive_transaction
from gsched_sql.silence import limit_silence
from gsched_sql.urls import location, parse

BUSY_TIMEOUT_S = 10.0
"""For so long a command waits while another process writes."""

SILENCE_LIMIT_S = 60
"""So long a daemon's statement waits for a sign of a server: one that hangs (a disk that does not
answer, SIGSTOP) sends none, and keeps the connection. Imports and maintenance wait for hours."""

OLDEST_SERVERS = {"postgresql": (13,), "mariadb": (10, 5)}
"""Older ones lack what gsched needs (MariaDB: INSERT … RETURNING) or their makers' support."""

_BUSY_TIMEOUT = "gsched_busy_timeout_s"
_WRITES = "gsched_writes"

_NAMES = {"postgresql": "PostgreSQL", "mariadb": "MariaDB"}
_EXTRAS = {"postgresql": "gsched[postgres]", "mariadb": "gsched[mariadb]"}

# What of a driver is set unless the URL says otherwise. A peer that is gone without a word (a
# cable, a firewall that forgets) is noticed in minutes instead of hours.
_PSYCOPG = {
    "application_name": "gsched",
    "client_encoding": "utf8",
    "connect_timeout": "10",
    "keepalives_idle": "60",
    "keepalives_interval": "10",
    "keepalives_count": "6",
    "tcp_user_timeout": "120000",
}
_PYMYSQL = {"program_name": "gsched", "read_timeout": "3600", "write_timeout": "600"}


def open_engine(
    url: str,
    *,
    create: bool = False,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
    silence_limit_s: int | None = None,
) -> Engine:
    """An engine for `url`. With `create`, a missing SQLite file and its folder are made.

    A server that sends nothing for `silence_limit_s` seconds is taken for gone: UnavailableError.
    Raises ConfigError for a URL that does not work, for a missing database and for an SQLite file
    on a network file system; PermissionDeniedError or UnavailableError when the file cannot be
    made. No error shows a password. A server is asked for nothing yet.
    """
    parsed = parse(url)
    kind = parsed.get_backend_name()
    if kind == "sqlite":
        sqlite_file.prepare(sqlite_file.file_of(parsed), create)
        engine = create_engine(
            parsed, connect_args={"timeout": busy_timeout_s}, hide_parameters=True
        )
        _set_up_sqlite(engine)
        return engine
    engine = _server_engine(parsed, kind, silence_limit_s)
    if kind == "mariadb":
        _set_up_mariadb(engine, busy_timeout_s)
    return engine.execution_options(**{_BUSY_TIMEOUT: busy_timeout_s})


def _server_engine(url: URL, kind: str, silence_limit_s: int | None) -> Engine:
    defaults = _PSYCOPG if kind == "postgresql" else _PYMYSQL
    if silence_limit_s is not None and kind == "mariadb":
        limit = str(silence_limit_s)
        defaults = {**defaults, "read_timeout": limit, "write_timeout": limit}
    url = url.update_query_dict({**defaults, **url.query})
    try:
        engine = create_engine(
            url,
            pool_pre_ping=True,  # the server may have been started again
            isolation_level="READ COMMITTED" if kind == "postgresql" else "REPEATABLE READ",
            hide_parameters=True,
        )
        options = engine.dialect.create_connect_args(url)[1]
        if kind == "mariadb":
            _check_options(engine, options)
        elif silence_limit_s is not None:
            limit_silence(engine, silence_limit_s)
    except ModuleNotFoundError as e:
        raise ConfigError(
            f"the driver for {_NAMES[kind]} is not installed: no module {e.name}",
            f"pip install '{_EXTRAS[kind]}'",
        ) from None
    except (ArgumentError, ValueError) as e:
        raise ConfigError(f"the database URL has an option of a wrong value: {e}") from None
    return engine


def _check_options(engine: Engine, options: Mapping[str, Any]) -> None:
    """PyMySQL answers an unknown option by a TypeError, psycopg by an error of its own."""
    known = inspect.signature(engine.dialect.loaded_dbapi.connect).parameters
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise ConfigError(f"the database URL has an option that is none: {', '.join(unknown)}")
    int(options.get("port", 0))  # else PyMySQL finds fault with it when it connects


def _set_up_sqlite(engine: Engine) -> None:
    @event.listens_for(engine, "connect")
    def connect(dbapi: sqlite3.Connection, _record: Any) -> None:
        dbapi.isolation_level = None  # transactions begin below, not when the driver thinks
        dbapi.execute("PRAGMA foreign_keys = ON")
        dbapi.execute("PRAGMA synchronous = FULL")
        # The indexes of millions of jobs: with SQLite's own 2 MiB, an import reads them again and
        # again. Memory is taken as pages are read.
        dbapi.execute("PRAGMA cache_size = -65536")

    @event.listens_for(engine, "begin")
    def begin(conn: Connection) -> None:
        # A transaction that will write takes the lock first: one that began by reading could not
        # wait for it later.
        writes = conn.get_execution_options().get(_WRITES)
        conn.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _set_up_mariadb(engine: Engine, busy_timeout_s: float) -> None:
    wait_s = math.ceil(busy_timeout_s)

    @event.listens_for(engine, "connect")
    def connect(dbapi: Any, _record: Any) -> None:
        with dbapi.cursor() as cursor:
            # A text too long or a number too large is an error, not cut off in silence.
            cursor.execute(
                "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', "
                f"lock_wait_timeout = {wait_s}, innodb_lock_wait_timeout = {wait_s}"
            )


def check_server(engine: Engine) -> None:
    """Raise ConfigError for a server that is too old, no MariaDB, or keeps no Unicode."""
    kind = engine.dialect.name
    if kind == "sqlite":
        return
    with translated(engine.url):
        try:
            conn = engine.connect()
        except (InvalidRequestError, RuntimeError) as e:  # a MySQL; a login plug-in PyMySQL lacks
            raise ConfigError(f"{location(engine.url)} cannot be used: {e}") from None
        with conn:
            _check_version(conn, kind)
            if kind == "postgresql":
                _check_encoding(conn)


def _check_version(conn: Connection, kind: str) -> None:
    found = conn.dialect.server_version_info or ()
    oldest = OLDEST_SERVERS[kind]
    if found < oldest:
        raise ConfigError(
            f"{location(conn.engine.url)} is a {_NAMES[kind]} {_dotted(found)}",
            f"gsched needs {_NAMES[kind]} {_dotted(oldest)} or newer",
        )


def _check_encoding(conn: Connection) -> None:
    encoding = conn.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        raise ConfigError(
            f"the database {location(conn.engine.url)} has the encoding {encoding}",
            "make it anew: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
        )


def _dotted(version: Sequence[int | str]) -> str:
    return ".".join(str(part) for part in version[:3])


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


_failures: WeakKeyDictionary[Pool, int] = WeakKeyDictionary()


def failures(engine: Engine) -> int:
    """How many transactions of `engine` have met an error of the database so far."""
    return _failures.get(engine.pool, 0)


def _translated(engine: Engine) -> AbstractContextManager[None]:
    def count() -> None:
        _failures[engine.pool] = failures(engine) + 1

    return translated(engine.url, count)


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One transaction that sees one state of the database."""
    # MariaDB's connections are REPEATABLE READ from the start.
    options = (
        {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
        if engine.dialect.name == "postgresql"
        else {}
    )
    with (
        _translated(engine),
        engine.connect() as conn,
        conn.execution_options(**options).begin(),
    ):
        yield conn


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction that is on disk when the block ends, and undone when it raises.

    Only one process writes to a database at a time; TryAgainError when another does so for long.
    """
    with (
        _translated(engine),
        engine.connect().execution_options(**{_WRITES: True}) as conn,
        _transaction(engine, conn),
    ):
        yield conn


@contextmanager
def _transaction(engine: Engine, conn: Connection) -> Iterator[None]:
    if engine.dialect.name == "sqlite":
        with conn.begin():
            yield
    else:
        timeout_s = engine.get_execution_options()[_BUSY_TIMEOUT]
        with exclusive_transaction(conn, timeout_s):
            yield
