"""The schema of a database: which revision it is, and bringing it to the newest."""

from __future__ import annotations

from importlib.resources import files

from sqlalchemy import Connection, Engine, inspect, text

from gsched.errors import ConfigError
from gsched_sql.engine import location, reading, use_wal, writing
from gsched_sql.schema import REVISION

_VERSION_TABLE = "alembic_version"


def revision(conn: Connection) -> str | None:
    """The revision of the database, None when it has none of gsched's tables.

    Raises ConfigError when the database belongs to something else.
    """
    tables = inspect(conn).get_table_names()
    if _VERSION_TABLE in tables:
        found = conn.execute(text(f"SELECT version_num FROM {_VERSION_TABLE}")).scalar()  # noqa: S608
        if found is not None:
            return str(found)
    if tables and tables != [_VERSION_TABLE]:
        raise ConfigError(
            f"the database {location(conn.engine.url)} holds another program's tables",
            "set url in [database] to an empty database or another file",
        )
    return None


def check(engine: Engine) -> None:
    """Raise ConfigError unless the database has the schema of this gsched."""
    with reading(engine) as conn:
        found = revision(conn)
    where = location(engine.url)
    if found is None:
        raise ConfigError(f"{where} is empty", "run `gsched db init`")
    if found < REVISION:
        raise ConfigError(
            f"{where} was made by an older gsched (schema {found}, this one needs {REVISION})",
            "run `gsched db init`: it keeps the data and brings the schema up to date",
        )
    if found > REVISION:
        raise ConfigError(
            f"{where} was made by a newer gsched (schema {found}, this one knows {REVISION})",
            "use the newer gsched, or another database",
        )


def upgrade(engine: Engine) -> str | None:
    """Make or migrate the tables, all or nothing. Returns the revision found before."""
    use_wal(engine)
    with writing(engine) as conn:
        before = revision(conn)
        if before is None or before < REVISION:
            _run_migrations(conn)
    check(engine)
    return before


def _run_migrations(conn: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    folder = str(files("gsched_sql") / "migrations")
    config.set_main_option("script_location", folder.replace("%", "%%"))
    config.attributes["connection"] = conn
    command.upgrade(config, "head")
