"""The job history and journal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gsched.app.doctor.findings import Finding, Level
from gsched.app.doctor.walk import Walk
from gsched.app.wiring import open_history
from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
)

_WHAT = "history database"
LOCK_WAIT_S = 1.0
"""A writer that holds the database for so long holds up a round."""
_CHECK = "`gsched db check` says what is damaged; `gsched db restore FILE` puts a backup in place"


def check(walk: Walk) -> Iterator[Finding]:
    """Whether the daemon can open, read and write it."""
    path = _file(walk.settings.database_url)
    kind = _network(path)
    if kind:
        yield Finding(
            "fail",
            "database-network",
            _WHAT,
            f"{path} is on {kind}, a network file system: SQLite loses data there",
            "set state_dir to a local disk, or url in [database] to a PostgreSQL or MariaDB",
        )
        return
    try:
        yield from _opened(walk)
    except GschedError as error:
        yield _problem(error, path, walk)


def _opened(walk: Walk) -> Iterator[Finding]:
    from gsched_sql import try_to_write

    with open_history(walk.settings) as history:
        stats = history.stats()
    if walk.is_of_the_daemon:
        try_to_write(walk.settings.database_url, LOCK_WAIT_S)
    jobs, rejects = stats.rows.get("jobs", 0), stats.rows.get("rejects", 0)
    found = f"{stats.location}: {jobs} jobs, {rejects} rejected rows"
    yield Finding("ok", "database", _WHAT, found)


def _problem(error: GschedError, path: Path | None, walk: Walk) -> Finding:
    if isinstance(error, PermissionDeniedError):
        level: Level = "fail" if walk.is_of_the_daemon else "note"
        return Finding(level, "database-unreadable", _WHAT, error.message, error.hint)
    if isinstance(error, TryAgainError):
        return Finding("warn", "database-locked", _WHAT, error.message, error.hint)
    if isinstance(error, DataError):
        return Finding("fail", "database-damaged", _WHAT, error.message, error.hint or _CHECK)
    if isinstance(error, ConfigError):
        if path is not None and not path.exists():
            return Finding("warn", "database-absent", _WHAT, error.message, error.hint)
        return Finding("fail", "database-schema", _WHAT, error.message, error.hint)
    return Finding("fail", "database-down", _WHAT, error.message, error.hint)


def _file(url: str) -> Path | None:
    """SQLite's file, None for a server."""
    return Path(url.removeprefix("sqlite:///")) if url.startswith("sqlite:///") else None


def _network(path: Path | None) -> str:
    if path is None:
        return ""
    from gsched_sql import network_file_system

    return network_file_system(path.parent)
