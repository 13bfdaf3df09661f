"""One writer at a time to a database on a server, as SQLite has it by itself."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from gsched.errors import TryAgainError
from gsched_sql.urls import location

IDLE_LIMIT_S = 120
"""A process that stands still in its transaction (SIGSTOP) for so long loses it, and the lock."""

_KEY = int.from_bytes(b"gsched", "big")  # PostgreSQL's advisory locks are numbers, by database


@contextmanager
def exclusive_transaction(conn: Connection, timeout_s: float) -> Iterator[None]:
    """A transaction on a server during which nobody else has one of these.

    It sees all that the one before has written. The server ends the lock with the connection, and
    the connection when it is idle for IDLE_LIMIT_S seconds: nobody waits for longer for a process
    that stands still. Raises TryAgainError, or the driver's error, after `timeout_s` seconds.
    """
    if conn.dialect.name == "postgresql":
        with conn.begin():
            # lock_timeout goes also for the tables that a migration changes
            conn.execute(
                text(
                    "SELECT set_config('lock_timeout', :wait, true), "
                    "set_config('idle_in_transaction_session_timeout', :idle, true), "
                    "pg_advisory_xact_lock(:key)"
                ),
                {
                    "wait": f"{math.ceil(timeout_s * 1000)}ms",
                    "idle": f"{IDLE_LIMIT_S}s",
                    "key": _KEY,
                },
            )
            yield
        return
    name = _mariadb_name(conn)
    try:
        with conn.begin():
            # What a transaction sees is settled by its first read of a table: not by this one.
            conn.execute(text("SET SESSION wait_timeout = :idle"), {"idle": IDLE_LIMIT_S})
            query = text("SELECT GET_LOCK(:name, :wait)")
            if conn.execute(query, {"name": name, "wait": timeout_s}).scalar() != 1:
                raise TryAgainError(
                    f"the database {location(conn.engine.url)} is locked by another process",
                    "try again; `gsched db` commands and the daemon write one after the other",
                )
            yield
    finally:
        _release(conn, name)


def _mariadb_name(conn: Connection) -> str:
    """A name for MariaDB's locks, which are the whole server's and at most 64 characters long."""
    database = str(conn.engine.url.database)
    return "gsched:" + hashlib.sha256(database.encode()).hexdigest()[:32]


def _release(conn: Connection, name: str) -> None:
    """Give MariaDB's lock back. It outlives transactions, but not connections."""
    try:
        if not conn.invalidated:
            conn.execute(text("SELECT RELEASE_LOCK(:name)"), {"name": name})
            conn.execute(text("SET SESSION wait_timeout = DEFAULT"))
    except DBAPIError:
        conn.invalidate()
