"""The schema of a database: which revision it is, and bringing it to the newest."""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, Engine, MetaData, inspect, select, text

from gsched.errors import ConfigError
from gsched_sql import roles, sqlite_file
from gsched_sql.engine import check_server, reading, use_wal, writing
from gsched_sql.schema import REVISION
from gsched_sql.stored_tables import is_of_another_form
from gsched_sql.urls import location

VERSION_TABLE = "alembic_version"


def revision(conn: Connection) -> str | None:
    """The revision of the database, None when it has none of gsched's tables.

    Raises ConfigError when the database belongs to something else.
    """
    tables = _tables(conn)
    if VERSION_TABLE in tables:
        found = conn.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608
        if found is not None:
            return str(found)
    if tables - {VERSION_TABLE}:
        raise ConfigError(
            f"the database {location(conn.engine.url)} holds another program's tables",
            "set url in [database] to an empty database or another file",
        )
    return None


def _tables(conn: Connection) -> set[str]:
    """Tables and views: MariaDB's readers see views under the names of the tables."""
    found = inspect(conn)
    return {*found.get_table_names(), *found.get_view_names()}


def check(engine: Engine) -> None:
    """Raise ConfigError unless the database has the schema of this gsched and is this host's."""
    check_server(engine)
    with reading(engine) as conn:
        found = revision(conn)
        if engine.dialect.name == "sqlite":
            sqlite_file.check_host(conn)
        is_broken_off = found is not None and was_broken_off(conn, found)
    where = location(engine.url)
    if found is None:
        raise ConfigError(f"{where} is empty", "run `gsched db init`")
    if is_broken_off:
        raise broken_off(engine, found)
    if found < REVISION:
        raise ConfigError(
            f"{where} was made by an older gsched (schema {found}, this one needs {REVISION})",
            "run `gsched db upgrade --backup FILE`: it keeps the data",
        )
    if found > REVISION:
        raise ConfigError(
            f"{where} was made by a newer gsched (schema {found}, this one knows {REVISION})",
            "use the newer gsched, or another database",
        )


def was_broken_off(conn: Connection, found: str) -> bool:
    """Whether an upgrade from revision `found` was killed halfway: MariaDB commits each step."""
    if conn.dialect.name != "mariadb" or found >= REVISION or _has_views_only(conn):
        return False
    return is_of_another_form(conn, found)


def _has_views_only(conn: Connection) -> bool:
    """Whether this is the database of readers."""
    return VERSION_TABLE in inspect(conn).get_view_names()


def broken_off(engine: Engine, found: str) -> ConfigError:
    """The error for a database that `was_broken_off`."""
    where = location(engine.url)
    return ConfigError(
        f"an upgrade of {where} from that of an older gsched (schema {found}) was broken off",
        "finish it with `gsched db upgrade`",
    )


def upgrade(engine: Engine) -> str | None:
    """Make or migrate the tables, all or nothing. Returns the revision found before.

    MariaDB cannot undo the making of tables. There, what a killed migration has left is dropped
    when it is a first one, and every later migration can be run again.
    """
    check_server(engine)
    use_wal(engine)
    with writing(engine) as conn:
        if engine.dialect.name == "mariadb":
            drop_half_made(conn)
        before = revision(conn)
        if before is None or before < REVISION:
            run_migrations(conn)
            settle(conn)
        elif engine.dialect.name == "sqlite":
            sqlite_file.claim_for_host(conn)
    check(engine)
    return before


def drop_half_made(conn: Connection) -> None:
    """Drop the tables of a first migration that came to no end: nobody has written to them."""
    tables = _tables(conn)
    if VERSION_TABLE not in tables:
        return
    if conn.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar() is not None:  # noqa: S608
        return
    found = MetaData()
    found.reflect(conn)
    if any(conn.execute(select(t).limit(1)).first() for t in found.tables.values()):
        return
    found.drop_all(conn)


def settle(conn: Connection) -> None:
    """Give the roles what they may do with the tables, and an SQLite file to this host."""
    if roles.are_there(conn):
        roles.grant(conn)
    if conn.dialect.name == "sqlite":
        sqlite_file.claim_for_host(conn)


def revisions() -> frozenset[str]:
    """All revisions that this gsched knows."""
    from alembic.script import ScriptDirectory

    folder = str(files("gsched_sql") / "migrations")
    return frozenset(script.revision for script in ScriptDirectory(folder).walk_revisions())


def run_migrations(conn: Connection, target: str = "head") -> None:
    """Bring the tables to a revision, from none or an earlier one."""
    from alembic import command
    from alembic.config import Config

    roles.withdraw(conn)
    config = Config()
    folder = str(files("gsched_sql") / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = conn
    command.upgrade(config, target)
