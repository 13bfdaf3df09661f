"""What a database driver complains of, in gsched's errors."""

from __future__ import annotations

import re
import sqlite3
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NoReturn

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched_sql.urls import location


@dataclass(frozen=True, slots=True)
class _Failure:
    """An error with its words; {where} is the database, {detail} what the driver said."""

    error: type[GschedError]
    message: str
    hint: str = ""


_LOCKED = _Failure(
    TryAgainError,
    "the database {where} is locked by another process",
    "try again; `gsched db` commands and the daemon write one after the other",
)
_LOCKED_FILE = _Failure(
    TryAgainError, _LOCKED.message, "try again; `fuser {where}` shows who holds it"
)
_INTERRUPTED = _Failure(
    TryAgainError, "the database {where} broke off a statement: {detail}", "try again"
)
_BUSY = _Failure(
    TryAgainError, "the server of {where} takes no connection now: {detail}", "try again later"
)
_LOST = _Failure(
    UnavailableError,
    "the connection to {where} was lost: {detail}",
    "nothing is half stored; run the command again when the server answers",
)
_UNREACHABLE = _Failure(
    UnavailableError,
    "the server of {where} cannot be reached: {detail}",
    "see that it runs, and that url in [database] names its host and port",
)
_FULL = _Failure(
    UnavailableError,
    "no room is left for the database {where}: {detail}",
    "make room on its disk and run the command again; nothing is half stored",
)
_LOGIN = _Failure(
    PermissionDeniedError,
    "the server of {where} does not let this user in: {detail}",
    "see url and password_file in [database], and the server's list of users",
)
_NO_FILE_ACCESS = _Failure(
    PermissionDeniedError,
    "no permission to use the database {where}",
    "run as the user that owns gsched's state_dir",
)
_NO_RIGHT = _Failure(
    PermissionDeniedError,
    "the database {where} does not allow this: {detail}",
    "a reader cannot write and a writer cannot change tables: use an account that may, see "
    "`gsched db init --help`",
)
_READ_ONLY = _Failure(
    PermissionDeniedError,
    "the database {where} takes no writes: {detail}",
    "it is a standby, or set to read-only: name the primary server in [database]",
)
_NO_DATABASE = _Failure(
    ConfigError,
    "there is no such database: {where}",
    "let the server's administrator make it (CREATE DATABASE), then run `gsched db init`",
)
_NO_DATABASE_FOR_USER = _Failure(
    PermissionDeniedError,
    "the server of {where} lets this user into no such database: {detail}",
    "let the server's administrator make it or grant it, see `gsched db init --help`",
)
_BAD_OPTION = _Failure(ConfigError, "the database URL has an option that cannot be: {detail}")
_DAMAGED_FILE = _Failure(
    DataError,
    "{where} is damaged or no database of gsched: {detail}",
    "restore it from a backup, or move it away and run `gsched db init`",
)
_DAMAGED = _Failure(
    DataError,
    "the database {where} is damaged: {detail}",
    "see the server's log, and restore a backup",
)
_REFUSED_ROW = _Failure(GschedError, "the database {where} refused a row: {detail}")
_OTHER = _Failure(UnavailableError, "the database {where} does not work: {detail}")

_SQLITE: Mapping[int, _Failure] = {
    sqlite3.SQLITE_BUSY: _LOCKED_FILE,
    sqlite3.SQLITE_LOCKED: _LOCKED_FILE,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR_SHMSIZE: _FULL,  # no room for the write-ahead log's index
    sqlite3.SQLITE_CONSTRAINT: _REFUSED_ROW,
    sqlite3.SQLITE_CORRUPT: _DAMAGED_FILE,
    sqlite3.SQLITE_NOTADB: _DAMAGED_FILE,
    # even reading needs the write-ahead log's index beside the file
    sqlite3.SQLITE_READONLY: _NO_FILE_ACCESS,
    sqlite3.SQLITE_PERM: _NO_FILE_ACCESS,
    sqlite3.SQLITE_AUTH: _NO_FILE_ACCESS,
    sqlite3.SQLITE_CANTOPEN: _NO_FILE_ACCESS,
}

_SQLSTATES: Mapping[str, _Failure] = {
    "08": _LOST,
    "22": _REFUSED_ROW,  # a number too large, a text that is none
    "23": _REFUSED_ROW,  # a rule of the schema
    "28": _LOGIN,
    "3D000": _NO_DATABASE,
    "25006": _READ_ONLY,
    "42501": _NO_RIGHT,
    "40001": _INTERRUPTED,  # serialisation
    "40P01": _INTERRUPTED,  # deadlock
    "55P03": _LOCKED,
    "57014": _INTERRUPTED,  # cancelled, or longer than statement_timeout
    "25P03": _LOST,  # it stood still in a transaction (`locks.IDLE_LIMIT_S`)
    "57P01": _LOST,
    "57P02": _LOST,
    "57P03": _BUSY,
    "57P05": _LOST,
    "53100": _FULL,
    "53300": _BUSY,
    "XX001": _DAMAGED,
    "XX002": _DAMAGED,
}
"""PostgreSQL's codes, or their classes (the first two characters)."""

_REFUSALS: tuple[tuple[str, _Failure], ...] = (
    (r"server closed|connection (is|has been) (lost|closed)|consuming input|sending", _LOST),
    (r"database .* does not exist", _NO_DATABASE),
    (r"starting up|shutting down|recovery|too many|reserved for|not accepting", _BUSY),
    (r"authentication|password|pg_hba\.conf|role .* does not exist|permission denied", _LOGIN),
    (r"invalid .*connection option|invalid \w+ value|bad value for", _BAD_OPTION),
)
"""What libpq says of a connection that did not come about or has gone: there it tells no code."""

_MARIADB: Mapping[int, _Failure] = {
    0: _LOST,  # the driver's own: the connection is closed
    2006: _LOST,
    2013: _LOST,
    2014: _LOST,
    1053: _LOST,  # the server shuts down
    1927: _LOST,  # the connection was killed
    2002: _UNREACHABLE,
    2003: _UNREACHABLE,
    2026: _UNREACHABLE,  # TLS
    1040: _BUSY,  # too many connections
    1203: _BUSY,  # too many of this user
    1226: _BUSY,
    1205: _LOCKED,
    1213: _INTERRUPTED,  # deadlock
    1020: _INTERRUPTED,  # changed since it was read
    1317: _INTERRUPTED,
    1969: _INTERRUPTED,  # longer than max_statement_time
    1045: _LOGIN,
    1130: _LOGIN,  # this host
    1698: _LOGIN,
    4151: _LOGIN,  # the account is locked
    1044: _NO_DATABASE_FOR_USER,
    1142: _NO_RIGHT,
    1143: _NO_RIGHT,
    1227: _NO_RIGHT,
    1370: _NO_RIGHT,
    1290: _READ_ONLY,
    1792: _READ_ONLY,
    1836: _READ_ONLY,
    1048: _REFUSED_ROW,
    1062: _REFUSED_ROW,
    1406: _REFUSED_ROW,  # a text too long
    1264: _REFUSED_ROW,  # a number too large
    1451: _REFUSED_ROW,
    1452: _REFUSED_ROW,
    4025: _REFUSED_ROW,
    1049: _NO_DATABASE,
    1021: _FULL,
    1114: _FULL,
    3: _FULL,  # error while writing a file
    126: _DAMAGED,
    1034: _DAMAGED,
    1194: _DAMAGED,
    1712: _DAMAGED,
}


@contextmanager
def translated(url: URL, on_failure: Callable[[], None] | None = None) -> Iterator[None]:
    """Raise gsched's errors in place of the driver's; none shows the password of `url`.

    `on_failure` is called before that.
    """
    try:
        yield
    except DBAPIError as e:
        if on_failure is not None:
            on_failure()
        original = e.orig or e
        _raise(_failure_of(original, e.connection_invalidated), e, original, url)
    except _drivers_own(url) as e:
        if on_failure is not None:
            on_failure()
        _raise(_failure_of(e, False), e, e, url)


def _drivers_own(url: URL) -> tuple[type[Exception], ...]:
    """Errors of what SQLAlchemy does not do for us: COPY, a backup."""
    if url.get_backend_name() == "postgresql":
        import psycopg

        return (psycopg.Error,)
    return (sqlite3.Error,)


def _raise(failure: _Failure, error: Exception, original: BaseException, url: URL) -> NoReturn:
    words = original.args[-1] if original.args else original  # PyMySQL: (number, words)
    detail = _without_password(" ".join(str(words).split()), url)
    parts = {"where": location(url), "detail": detail}
    told = failure.error(failure.message.format(**parts), failure.hint.format(**parts))
    # A traceback (GSCHED_DEBUG=1) would show whatever the driver said.
    chain = "".join(traceback.format_exception(error))
    raise told from (error if chain == _without_password(chain, url) else None)


def _without_password(text: str, url: URL) -> str:
    password = str(url.password or "")
    return text.replace(password, "***") if password else text


def _failure_of(error: BaseException, is_lost: bool) -> _Failure:
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0)
        return _SQLITE.get(code) or _SQLITE.get(code & 0xFF, _OTHER)
    number = error.args[0] if error.args else None
    if isinstance(number, int):  # PyMySQL's
        return _LOST if is_lost else _MARIADB.get(number, _OTHER)
    sqlstate = getattr(error, "sqlstate", None)  # psycopg's
    if sqlstate:
        return _SQLSTATES.get(sqlstate) or _SQLSTATES.get(sqlstate[:2], _OTHER)
    if is_lost:
        return _LOST
    words = str(error)
    return next((found for pattern, found in _REFUSALS if re.search(pattern, words)), _UNREACHABLE)
