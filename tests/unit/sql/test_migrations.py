"""The schema: from nothing, again, from a crash; and the same on every engine."""

from __future__ import annotations

import json
import shutil
import sqlite3
from importlib.resources import files

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import LargeBinary, event, literal_column
from sqlalchemy import select as sql_select
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateIndex, CreateTable
from support import old_history
from support.history import CLUSTER, attempt, batch, scalar, select, url_of

from gsched.errors import ConfigError
from gsched_sql import History, migrate
from gsched_sql.canonical import canonical_dump
from gsched_sql.columns import KeptText
from gsched_sql.engine import open_engine, reading, writing
from gsched_sql.migrations import copy_0003
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


def differences(conn):
    """How the tables differ from those that the code uses; types of one engine only are let be."""

    def own_type(context, inspected_column, metadata_column, inspected_type, metadata_type):
        return False if isinstance(metadata_type, KeptText | LargeBinary) else None

    context = MigrationContext.configure(conn, opts={"compare_type": own_type})
    return compare_metadata(context, metadata)


def test_the_migrations_make_the_tables_that_the_code_uses(database):
    engine = open_engine(f"sqlite:///{database}")
    with reading(engine) as conn:
        assert differences(conn) == []
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
    real = migrate.run_migrations

    def crash(conn):
        real(conn)
        raise RuntimeError("killed")

    monkeypatch.setattr(migrate, "run_migrations", crash)
    with pytest.raises(RuntimeError):
        History.create(f"sqlite:///{path}")
    assert scalar(path, "SELECT count(*) FROM sqlite_master") == 0
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="is empty"):
        History.open(f"sqlite:///{path}")
    assert History.create(f"sqlite:///{path}").before is None


@pytest.fixture(scope="module")
def told_anew(sqlite_template, tmp_path_factory):
    """What a database of this gsched says that was told the same as the old one."""
    database = shutil.copy(sqlite_template, tmp_path_factory.mktemp("anew") / "history.db")
    with History.open(f"sqlite:///{database}") as history:
        history.ingest(batch(*old_history.records()), source_key=None)
    return canonical(database)


@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004", "0005", "0006", "0007"])
def test_a_database_of_an_earlier_schema_says_the_same_as_one_told_anew(
    empty_database_url, revision, told_anew, monkeypatch
):
    monkeypatch.setattr(copy_0003, "ROWS_A_PIECE", 7)
    engine = open_engine(empty_database_url, create=True)
    old_history.make(engine, revision)
    with pytest.raises(ConfigError, match="older gsched"):
        History.open(empty_database_url)
    made = History.create(empty_database_url)
    assert (made.before, made.revision) == (revision, REVISION)
    assert canonical(empty_database_url) == told_anew
    with writing(engine) as conn:
        assert differences(conn) == []
        for name, rows in old_history.old_rows(revision).items():
            if name in metadata.tables and name not in ("jobs", "attempts"):
                stored = kept(conn, name, rows)
                assert sorted(stored, key=repr_of) == sorted(rows, key=repr_of), name
    engine.dispose()
    with History.open(empty_database_url) as history:  # and it can be written to
        summary = history.ingest(batch(*old_history.records(), attempt(999)), source_key=None)
        assert (summary.attempts_new, summary.attempts_updated) == (1, 0)
        assert history.cursor("sacct:alpha") == "42"
        assert history.rejects() == old_history.rejects()
        assert len(history.journal().standing(CLUSTER)) == 2
        assert len(history.requests(CLUSTER)) == (revision != "0001")
    assert select(empty_database_url, MEMBERS) == [("gpu01",), ("n1",), ("n2",), ("n3",), ("n7",)]
    assert select(empty_database_url, ODD_COUNTS) == [(8,), (2,), (3,)]
    assert scalar(empty_database_url, GROUP) == "other-&"


MEMBERS = """
    SELECT n.name FROM nodes n JOIN node_list_members m ON m.node_id = n.id
      JOIN node_lists l ON l.id = m.node_list_id WHERE l.name = 'n[1-3,7],gpu01' ORDER BY 1
"""
ODD_COUNTS = """
    SELECT c.count FROM tres_counts c JOIN tres_lists l ON l.id = c.tres_list_id
     WHERE l.id = (SELECT allocated_id FROM attempts WHERE job_id = 5 AND het_offset = 1)
     ORDER BY c.position
"""
GROUP = """
    SELECT g.name FROM name_groups g JOIN job_names n ON n.group_id = g.id
     WHERE n.name = 'other-20240131'
"""


def canonical(database):
    engine = open_engine(url_of(database))
    with reading(engine) as conn:
        lines = list(canonical_dump(conn))
    engine.dispose()
    return lines


def kept(conn, name, rows):
    """The rows of a table by the columns that `rows` have, texts as they are stored."""
    columns = [literal_column(conn.dialect.identifier_preparer.quote(n)) for n in rows[0]]
    found = conn.execute(sql_select(*columns).select_from(metadata.tables[name]))
    return [dict(zip(rows[0], row, strict=True)) for row in found]


def repr_of(row):
    return json.dumps(row, default=float)


@pytest.mark.parametrize(
    ("revision", "stop_at"),
    [
        *(("0002", stop_at) for stop_at in (1, 10, 30, 50, 62, 68, 74, 80, 82)),
        *(("0003", stop_at) for stop_at in (1, 2, 3, 5, 6, 7, 10, 13, 14, 15)),
        *(("0004", stop_at) for stop_at in (1, 2, 3, 4)),
        *(("0005", stop_at) for stop_at in (1, 2, 4, 6, 8, 10, 12, 14)),
    ],
)
def test_a_migration_that_is_interrupted_anywhere_can_be_run_again(
    mariadb_url, revision, stop_at, told_anew
):
    # MariaDB undoes no making of tables; the others undo everything (see the kill tests).
    engine = open_engine(mariadb_url)
    old_history.make(engine, revision)
    statements = 0

    @event.listens_for(engine, "before_cursor_execute")
    def interrupt(conn, cursor, statement, parameters, context, executemany):
        nonlocal statements
        statements += statement.lstrip().split()[0] in WRITES
        if statements == stop_at:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        migrate.upgrade(engine)
    engine.dispose()
    with pytest.raises(ConfigError, match="was broken off" if stop_at > 2 else "older gsched"):
        History.open(mariadb_url)
    assert History.create(mariadb_url).before == revision
    assert canonical(mariadb_url) == told_anew
    after = open_engine(mariadb_url)
    with writing(after) as conn:
        assert differences(conn) == []
    after.dispose()


def test_a_lease_of_schema_0003_was_last_moved_when_its_transitions_tell(empty_database_url):
    engine = open_engine(empty_database_url, create=True)
    old_history.make(engine, "0003")
    with writing(engine) as conn:
        for statement in LEASES:
            conn.exec_driver_sql(statement)
    History.create(empty_database_url)
    rows = "SELECT lease_id, state_since, restarts, valid_until FROM leases ORDER BY lease_id"
    assert select(empty_database_url, rows) == [("l1", 1700, 0, None), ("l2", 1500, 0, None)]
    engine.dispose()


LEASES = (
    "INSERT INTO leases (id, lease_id, cluster_id, job_id, array_task, het_offset, epoch, attempt,"
    " state, start_time, length_s, num_gpus) VALUES"
    " (1, 'l1', 1, 1, -1, -1, 1000, 1000, 'ending', 1010, 600, 2),"
    " (2, 'l2', 1, 2, -1, -1, 1000, 1000, 'granted', 1500, 600, 2)",
    "INSERT INTO lease_events (id, lease_row, at, from_state, to_state, detail) VALUES"
    " (1, 1, 1010, NULL, 'granted', ''), (2, 1, 1700, 'granted', 'ending', '')",
)

WRITES = {"ALTER", "CREATE", "DROP", "INSERT", "UPDATE", "DELETE", "SET"}


def test_there_is_no_way_back_that_would_lose_what_is_new(database):
    engine = open_engine(f"sqlite:///{database}")
    config = Config()
    config.set_main_option("script_location", str(files("gsched_sql") / "migrations"))
    with writing(engine) as conn:
        config.attributes["connection"] = conn
        with pytest.raises(ConfigError, match=REVISION) as caught:
            command.downgrade(config, "0002")
    assert "backup" in caught.value.hint
    engine.dispose()
