"""kill -9, a full disk, locks and others' writes in the midst of maintenance: nothing is lost."""

from __future__ import annotations

import functools
import gc
import inspect
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import traceback

import pytest
from sqlalchemy import Engine, event
from support.history import attempt, batch, scalar, select, url_of
from support.kills import killed, places
from support.machine import NO_NAMESPACES, has_mount_namespaces
from support.servers import each_engine
from support.whole_history import contents, fill, usage

from gsched.errors import ConfigError, TryAgainError, UnavailableError, UsageError
from gsched.model.phases import NO_RULES
from gsched_sql import History, maintenance, migrate, prune
from gsched_sql.backup_file import StreamHash, opened
from gsched_sql.canonical import canonical_dump
from gsched_sql.columns import text_digest
from gsched_sql.engine import open_engine, reading, writing
from gsched_sql.schema import REVISION
from gsched_sql.stored_tables import TABLES_OF, stored_tables

NOW = 1_800_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory, sqlite_template):
    """A history with rows in every table, its backup and its contents."""
    folder = tmp_path_factory.mktemp("made")
    path = shutil.copy(sqlite_template, folder / "history.db")
    fill(path)
    maintenance.backup(url_of(path), folder / "whole.gsb")
    return path, folder / "whole.gsb", contents(path, folder)


@pytest.fixture
def filled(made, tmp_path):
    return shutil.copy(made[0], tmp_path / "history.db")


OLD_JOBS = 40


def old_database(url, revision):
    """A history as gsched made it before, with jobs."""
    engine = open_engine(url, create=True)
    with writing(engine) as conn:
        migrate.run_migrations(conn, revision)
        for table, name in (("clusters", "alpha"), ("users", "ann")):
            conn.exec_driver_sql(f"INSERT INTO {table} VALUES (1, '{text_digest(name)}', '{name}')")
        for n in range(1, OLD_JOBS + 1):
            conn.exec_driver_sql(
                "INSERT INTO jobs (id, cluster_id, job_id, array_task, het_offset, epoch, user_id,"
                " name, state, state_text, start_time, end_time, num_gpus, num_attempts,"
                f" queueing_s, duration_s, gpu_time_s) VALUES ({n}, 1, {n}, -1, -1, 1000, 1,"
                f" 'train {n}', 'COMPLETED', 'COMPLETED', 1010, 1110, 2, 1, 10, 100, 200)"
            )
            conn.exec_driver_sql(
                "INSERT INTO attempts (id, logical_job, cluster_id, job_id, array_task,"
                " het_offset, submit_time, user_id, name, state, state_text, source, start_time,"
                f" end_time, num_gpus, claim, claims) VALUES ({n}, {n}, 1, {n}, -1, -1, 1000, 1,"
                f" 'train {n}', 'COMPLETED', 'COMPLETED', 'sacct', 1010, 1110, 2,"
                " 21990232560087, '')"
            )
            conn.exec_driver_sql(
                "INSERT INTO attempt_tres (attempt_id, kind, position, name, count)"
                f" VALUES ({n}, 'allocated', 0, 'cpu', {n % 5})"
            )
    engine.dispose()


def canonical(url):
    engine = open_engine(url)
    with reading(engine) as conn:
        lines = list(canonical_dump(conn))
    engine.dispose()
    return lines


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_a_migration_killed_anywhere_is_the_old_or_the_new_database(
    revision, empty_database_url, tmp_path
):
    url = empty_database_url
    old_database(url, revision)
    saved = tmp_path / "old.gsb"
    maintenance.backup(url, saved)
    maintenance.restore(url_of(tmp_path / "expected.db"), saved)  # migrated without a kill
    kills = 0
    for at in places(2, 2.2):
        if not killed(lambda: maintenance.upgrade(url, NO_RULES), at):
            break
        kills += 1
        never_half(url, tmp_path / f"{at}.gsb")
        if not url.startswith("mariadb"):  # which commits each step: there it goes on from it
            found = scalar(url, "SELECT version_num FROM alembic_version")
            assert found in (revision, REVISION)
            assert scalar(url, "SELECT count(*) FROM attempts") == OLD_JOBS
    assert kills >= 4
    assert canonical(url) == canonical(url_of(tmp_path / "expected.db"))
    assert scalar(url, "SELECT count(*) FROM job_names") == OLD_JOBS
    assert not maintenance.check(url, NO_RULES, NOW).is_damaged


def never_half(url, path):
    """A backup holds all jobs, or there is none and it is said why."""
    engine = open_engine(url)
    with reading(engine) as conn:
        is_half = migrate.was_broken_off(conn, str(migrate.revision(conn)))
    engine.dispose()
    if is_half:
        assert url.startswith("mariadb")
        with pytest.raises(ConfigError, match="was broken off") as caught:
            maintenance.backup(url, path)
        assert caught.value.hint == "finish it with `gsched db upgrade`"
        assert not path.exists()
        return
    maintenance.backup(url, path)
    with opened(path) as made:
        rows = {table.name: table.rows for table in made.manifest.tables}
    assert rows["jobs"] == rows["attempts"] == OLD_JOBS


@pytest.mark.parametrize("statement", ["RENAME TO jobs_0002", "DROP TABLE attempt_tres"])
def test_an_upgrade_that_was_broken_off_is_finished_without_a_backup(
    statement, mariadb_url, tmp_path
):
    old_database(mariadb_url, "0002")
    engine = open_engine(mariadb_url)

    class Killed(BaseException):
        pass

    def kill(_conn, _cursor, text, *_):
        if statement in text:
            raise Killed

    event.listen(Engine, "after_cursor_execute", kill)
    try:
        with pytest.raises(Killed):
            maintenance.upgrade(mariadb_url, NO_RULES, tmp_path / "before.gsb")
    finally:
        event.remove(Engine, "after_cursor_execute", kill)
        engine.dispose()
    first = (tmp_path / "before.gsb").read_bytes()
    with pytest.raises(ConfigError, match="was broken off") as caught:
        History.open(mariadb_url)
    assert caught.value.hint == "finish it with `gsched db upgrade`"
    with pytest.raises(ConfigError, match="was broken off"):
        maintenance.backup(mariadb_url, tmp_path / "other.gsb")
    done = maintenance.upgrade(mariadb_url, NO_RULES, tmp_path / "before.gsb")
    assert (done.is_resumed, done.backup, done.before) == (True, None, "0002")
    assert (tmp_path / "before.gsb").read_bytes() == first
    assert not (tmp_path / "other.gsb").exists()
    assert scalar(mariadb_url, "SELECT count(*) FROM attempts") == OLD_JOBS


def test_an_upgrade_whose_backup_is_there_already_names_no_option(tmp_path):
    old_database(url_of(tmp_path / "h.db"), "0002")
    (tmp_path / "b.gsb").touch()
    with pytest.raises(UsageError, match="exists") as caught:
        maintenance.upgrade(url_of(tmp_path / "h.db"), NO_RULES, tmp_path / "b.gsb")
    assert caught.value.hint == "choose another name for the backup"


def test_the_tables_of_each_revision_are_known(tmp_path):
    assert TABLES_OF.keys() == migrate.revisions()
    for revision, tables in TABLES_OF.items():
        engine = open_engine(url_of(tmp_path / revision), create=True)
        with writing(engine) as conn:
            migrate.run_migrations(conn, revision)
            assert {t.name for t in stored_tables(conn)} == tables
        engine.dispose()


def test_a_backup_killed_anywhere_leaves_no_file_of_that_name(filled, tmp_path):
    target = tmp_path / "out" / "b.gsb"
    target.parent.mkdir()
    kills = 0
    for at in places(1, 1.6):
        if not killed(lambda: maintenance.backup(url_of(filled), target), at):
            break
        kills += 1
        assert not target.exists()
    assert kills >= 5
    assert target.exists()
    assert all(
        name.name.startswith(".b.gsb.") for name in target.parent.iterdir() if name != target
    )


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "mariadb"])
def test_a_restore_killed_anywhere_leaves_an_empty_database_or_a_whole_one(
    engine, made, tmp_path, request
):
    url = {
        "sqlite": lambda: url_of(tmp_path / "n.db"),
        "postgresql": lambda: request.getfixturevalue("postgres_url"),
        "mariadb": lambda: request.getfixturevalue("mariadb_url"),
    }[engine]()
    kills = 0
    for at in places(2, 2):
        if not killed(lambda: maintenance.restore(url, made[1]), at):
            break
        kills += 1
        tables = {row[0] for row in select(url, TABLES[engine])}
        assert not tables & {"jobs"} or scalar(url, "SELECT count(*) FROM jobs") == 0
    assert kills >= 5
    assert contents(url, tmp_path) == made[2]


TABLES = {
    "sqlite": "SELECT name FROM sqlite_schema",
    "postgresql": "SELECT tablename FROM pg_tables",
    "mariadb": "SELECT table_name FROM information_schema.tables WHERE table_schema = database()",
}


def test_a_prune_killed_anywhere_leaves_each_job_whole_or_in_the_sums(database_url, monkeypatch):
    monkeypatch.setattr(prune, "_JOBS_AT_ONCE", 2)
    fill(database_url)
    before = usage(database_url)
    kills = 0
    for at in places(2, 1.3):
        if not killed(lambda: maintenance.prune(database_url, 12_000), at):
            break
        kills += 1
        assert usage(database_url) == before
        with History.open(database_url) as history:  # and none comes back meanwhile
            assert history.ingest(batch(attempt(100, 11_000)), source_key=None).attempts_new == 0
    assert kills >= 5
    assert usage(database_url) == before
    assert scalar(database_url, "SELECT count(*) FROM jobs WHERE end_time < 12000") == 0
    report = maintenance.check(database_url, NO_RULES, NOW)
    assert not report.is_damaged
    assert not {f.kind for f in report.findings} & {"prunable", "unused"}


def test_prune_and_ingest_at_once_lose_and_double_nothing(database_url, monkeypatch):
    monkeypatch.setattr(prune, "_JOBS_AT_ONCE", 5)
    old = [attempt(n, 1000 + n) for n in range(100)]
    with History.open(database_url) as history:
        history.ingest(batch(*old), source_key=None)

    def write():
        with History.open(database_url) as history:
            for n in range(0, 100, 10):
                new = [attempt(n + k, 50_000 + n + k) for k in range(10)]
                history.ingest(batch(*old[n : n + 10], *new), source_key=None)

    writer = threading.Thread(target=write)
    writer.start()
    maintenance.prune(database_url, 10_000)
    writer.join()
    assert scalar(database_url, "SELECT sum(jobs) FROM usage_days") == 100
    assert scalar(database_url, "SELECT count(*) FROM jobs") == 100
    assert not maintenance.check(database_url, NO_RULES, NOW).is_damaged


def test_a_locked_database_is_read_but_not_changed(filled, tmp_path, monkeypatch):
    monkeypatch.setattr(
        maintenance, "open_engine", functools.partial(open_engine, busy_timeout_s=0.1)
    )
    url = url_of(filled)
    other = sqlite3.connect(filled, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    maintenance.backup(url, tmp_path / "b.gsb")
    assert not maintenance.check(url, NO_RULES, NOW).is_damaged
    for change in (
        lambda: maintenance.prune(url, 12_000),
        lambda: maintenance.upgrade(url, NO_RULES),
        lambda: maintenance.give_space_back(url),
    ):
        with pytest.raises(TryAgainError, match="is locked") as caught:
            change()
        assert caught.value.hint
    other.execute("ROLLBACK")
    other.close()
    assert maintenance.prune(url, 12_000).counts["jobs"] == 10


@pytest.mark.filterwarnings("error")
@each_engine
def test_a_disk_that_fills_up_in_the_midst_of_a_table_leaves_nothing_open(
    database, tmp_path, monkeypatch
):
    with History.open(url_of(database)) as history:
        history.ingest(batch(*(attempt(n) for n in range(3000))), source_key=None)
    real = StreamHash.encoded

    def full(self, rows):
        if self.rows >= 1000:
            raise OSError(28, os.strerror(28))
        return real(self, rows)

    monkeypatch.setattr(StreamHash, "encoded", full)
    with pytest.raises(UnavailableError, match="No space left") as caught:
        maintenance.backup(url_of(database), tmp_path / "b.gsb")
    assert left_open(caught.value) == []
    del caught
    gc.collect()


def left_open(error):
    """Reads of tables in the frames of an error that have not come to their end."""
    found = []
    while error is not None:
        for frame, _ in traceback.walk_tb(error.__traceback__):
            found += [v for v in frame.f_locals.values() if inspect.isgenerator(v) and v.gi_frame]
        error = error.__cause__
    return [generator for generator in found if generator.__name__ in ("rows", "_counted")]


FULL_DISK = """
import json, os, shutil, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
from gsched.errors import GschedError
from gsched.model.phases import NO_RULES
from gsched_sql import maintenance
from support.history import url_of, scalar
from support.whole_history import usage

source, backup, disk = map(Path, sys.argv[2:])
told = []

def attempt(work):
    try:
        work()
        told.append("done")
    except GschedError as e:
        told.append([e.exit_code, e.message, e.hint])

filler = disk / "filler"
history = disk / "history.db"
shutil.copy(source, history)
before = usage(history)
with open(filler, "wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
attempt(lambda: maintenance.backup(url_of(source), disk / "b.gsb"))
attempt(lambda: maintenance.prune(url_of(history), 12_000))
attempt(lambda: maintenance.restore(url_of(disk / "n.db"), backup))
left = sorted(path.name for path in disk.iterdir() if "gsb" in path.name)
filler.unlink()
assert usage(history) == before
attempt(lambda: maintenance.restore(url_of(disk / "n.db"), backup))
attempt(lambda: maintenance.prune(url_of(history), 12_000))
assert usage(history) == before
attempt(lambda: maintenance.backup(url_of(history), disk / "b.gsb"))
print(json.dumps({"told": told, "left": left}))
"""


@pytest.mark.skipif(not has_mount_namespaces(), reason=NO_NAMESPACES)
def test_a_full_disk_changes_nothing_and_room_on_it_mends_all(made, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    script = tmp_path / "script.py"
    script.write_text(FULL_DISK)
    mounted = 'mount -t tmpfs -o size=4m none "$0" && exec "$@"'
    argv = ["unshare", "-m", "sh", "-c", mounted, disk, sys.executable, script]
    done = subprocess.run(
        [*argv, json.dumps(sys.path), made[0], made[1], disk],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["left"] == []
    refused, mended = answer["told"][:3], answer["told"][3:]
    assert mended == ["done"] * 3
    for code, message, _ in refused:
        assert code == 69, message
        assert "\n" not in message
    assert "No space left" in refused[0][1]
