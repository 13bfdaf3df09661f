"""What an administrator does with a whole database: upgrade, back up, restore, check, prune.

Each call opens the database at `url` by itself, of whatever schema it is. All may raise the errors
of ``History``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Engine

from gsched.errors import ConfigError, UsageError
from gsched.model.phases import PhaseRules
from gsched.model.progress import Progress, silent
from gsched_sql import backup as backups
from gsched_sql import check as checks
from gsched_sql import derive, migrate, sizes
from gsched_sql import prune as prunes
from gsched_sql.backup import BackupSummary, restore
from gsched_sql.check import CheckReport
from gsched_sql.engine import check_server, open_engine, reading
from gsched_sql.schema import REVISION
from gsched_sql.urls import location
from gsched_sql.values import Pruned, PrunePlan

__all__ = [
    "BackupSummary",
    "CheckReport",
    "Upgraded",
    "backup",
    "check",
    "give_space_back",
    "plan_prune",
    "prune",
    "restore",
    "upgrade",
]


@dataclass(frozen=True, slots=True)
class Upgraded:
    """What an upgrade did. `derived` counts the rows that other rules have changed, by column.

    `is_resumed` where it finished one that had been broken off.
    """

    location: str
    before: str
    schema: str
    derived: dict[str, int]
    backup: BackupSummary | None
    is_resumed: bool


@contextmanager
def _opened(url: str) -> Iterator[Engine]:
    engine = open_engine(url)
    try:
        check_server(engine)
        yield engine
    finally:
        engine.dispose()


def upgrade(
    url: str, rules: PhaseRules, backup_file: Path | None = None, on_progress: Progress = silent
) -> Upgraded:
    """Bring schema and derived columns of a database that is there to those of this gsched.

    With `backup_file`, a backup is made first, but for an upgrade that was broken off: half of it
    is done, and a backup would hold neither state. Raises ConfigError where there is no database.
    """
    with _opened(url) as engine:
        with reading(engine) as conn:
            found = migrate.revision(conn)
            if found is None:
                raise ConfigError(f"{location(engine.url)} is empty", "run `gsched db init`")
            is_resumed = migrate.was_broken_off(conn, found)
        made = None
        if backup_file and not is_resumed:
            made = _backup_before(engine, backup_file, on_progress)
        before = migrate.upgrade(engine)
        derived = derive.refresh(engine, rules, on_progress)
        return Upgraded(location(engine.url), str(before), REVISION, derived, made, is_resumed)


def _backup_before(engine: Engine, path: Path, on_progress: Progress) -> BackupSummary:
    try:
        return backups.write(engine, path, on_progress=on_progress)
    except UsageError as e:
        raise UsageError(e.message, "choose another name for the backup") from e


def backup(
    url: str, path: Path, *, replace: bool = False, on_progress: Progress = silent
) -> BackupSummary:
    """Write one state of the database into a file (see ``gsched_sql.backup.write``)."""
    with _opened(url) as engine:
        return backups.write(engine, path, replace=replace, on_progress=on_progress)


def check(url: str, rules: PhaseRules, now: int, on_progress: Progress = silent) -> CheckReport:
    """Look at everything (see ``gsched_sql.check.check``)."""
    with _opened(url) as engine:
        migrate.check(engine)
        return checks.check(engine, rules, now, on_progress)


def plan_prune(url: str, before: int, clusters: Sequence[str] = ()) -> list[PrunePlan]:
    """What `prune` would take, by cluster."""
    with _opened(url) as engine:
        migrate.check(engine)
        return prunes.plan(engine, before, clusters)


def prune(
    url: str, before: int, clusters: Sequence[str] = (), on_progress: Progress = silent
) -> Pruned:
    """Delete the jobs that ended before `before` (see ``gsched_sql.prune.prune``)."""
    with _opened(url) as engine:
        migrate.check(engine)
        return prunes.prune(engine, before, clusters, on_progress)


def give_space_back(url: str) -> tuple[int, int]:
    """Let an SQLite file shrink to what it holds; its bytes before and after.

    Servers use the space of deleted rows for new ones by themselves.
    """
    with _opened(url) as engine:
        return sizes.shrink(engine)
