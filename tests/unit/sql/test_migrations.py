"""The schema: from nothing, again, from a crash; and the same on every engine."""

from __future__ import annotations

import sqlite3
from importlib.resources import files

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from support.history import attempt, batch, scalar

from gsched.errors import ConfigError
from gsched_sql import History, migrate
from gsched_sql.engine import open_engine, reading, writing
from gsched_sql.schema import REVISION, metadata


def test_from_nothing_to_the_newest_and_nothing_the_second_time(tmp_path):
    url = f"sqlite:///{tmp_path / 'new' / 'history.db'}"
    first = History.create(url)
    assert (first.before, first.revision, first.changed) == (None, REVISION, True)
    with History.open(url) as history:
        history.ingest(batch(attempt()), source_key="s")
    second = History.create(url)
    assert (second.before, second.revision, second.changed) == (REVISION, REVISION, False)
    assert scalar(tmp_path / "new" / "history.db", "SELECT count(*) FROM attempts") == 1


def test_the_migrations_make_the_tables_that_the_code_uses(database):
    engine = open_engine(f"sqlite:///{database}")
    with reading(engine) as conn:
        context = MigrationContext.configure(conn, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()


def test_the_revision_in_the_code_is_the_newest_migration():
    script = ScriptDirectory(str(files("gsched_sql") / "migrations"))
    assert script.get_current_head() == REVISION


@pytest.mark.parametrize("dialect", [postgresql.dialect(), mysql.dialect()], ids=lambda d: d.name)
def test_every_table_can_be_made_on_the_servers(dialect):
    # MariaDB refuses text without a length in a key, and here so does its compiler.
    for table in metadata.sorted_tables:
        made = str(CreateTable(table).compile(dialect=dialect))
        # PostgreSQL's text has no length; MariaDB's has 64 KiB unless it is told.
        assert ("TEXT(16777215)" in made) == (dialect.name == "mysql" and "TEXT" in made)
        for index in table.indexes:
            assert "CREATE INDEX" in str(CreateIndex(index).compile(dialect=dialect))
        for column in table.primary_key.columns:
            assert "TEXT" not in str(column.type.compile(dialect=dialect))


@pytest.mark.parametrize(
    ("revision", "message"),
    [("0000", "older gsched"), ("9999", "newer gsched")],
)
def test_another_schema_is_refused_with_what_to_do(database, revision, message):
    with sqlite3.connect(database) as conn:
        conn.execute("UPDATE alembic_version SET version_num = ?", [revision])
    conn.close()
    with pytest.raises(ConfigError, match=message) as caught:
        History.open(f"sqlite:///{database}")
    assert caught.value.hint


def test_another_programs_database_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as conn:
        conn.execute("CREATE TABLE songs (title TEXT)")
    conn.close()
    with pytest.raises(ConfigError, match="another program's tables"):
        History.create(f"sqlite:///{path}")
    assert scalar(path, "SELECT count(*) FROM sqlite_master") == 1


def test_a_crash_while_the_tables_are_made_leaves_nothing_half_made(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    real = migrate._run_migrations

    def crash(conn):
        real(conn)
        raise RuntimeError("killed")

    monkeypatch.setattr(migrate, "_run_migrations", crash)
    with pytest.raises(RuntimeError):
        History.create(f"sqlite:///{path}")
    assert scalar(path, "SELECT count(*) FROM sqlite_master") == 0
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="is empty"):
        History.open(f"sqlite:///{path}")
    assert History.create(f"sqlite:///{path}").before is None


def test_the_data_of_an_older_schema_stay(tmp_path):
    path = tmp_path / "history.db"
    engine = open_engine(f"sqlite:///{path}", create=True)
    config = Config()
    config.set_main_option("script_location", str(files("gsched_sql") / "migrations"))
    with writing(engine) as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "0001")
        conn.execute(text("INSERT INTO users (name_digest, name) VALUES ('d', 'ann')"))
    with pytest.raises(ConfigError, match="older gsched"):
        History.open(f"sqlite:///{path}")
    made = History.create(f"sqlite:///{path}")
    assert (made.before, made.revision) == ("0001", REVISION)
    assert scalar(path, "SELECT name FROM users") == "ann"
    with writing(engine) as conn:
        assert compare_metadata(MigrationContext.configure(conn), metadata) == []
        config.attributes["connection"] = conn
        command.downgrade(config, "0001")
    engine.dispose()
    assert scalar(path, "SELECT name FROM users") == "ann"
