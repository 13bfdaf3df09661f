"""Backup and restore: the same rows on whatever engine, or nothing and a clear error."""

from __future__ import annotations

import gc
import json
import os
import random
import shutil
import sqlite3
import stat
import threading
import zipfile

import pytest
import zstandard
from alembic import command
from alembic.config import Config
from hypothesis import given, settings
from hypothesis import strategies as st
from support.history import attempt, batch, dump, scalar, select, url_of
from support.whole_history import HOSTILE, contents, fill

from gsched.errors import ConfigError, DataError, GschedError, UnavailableError, UsageError
from gsched.model.past import HistoryFilter
from gsched_sql import History, backup, maintenance, migrate
from gsched_sql.backup_file import opened
from gsched_sql.engine import open_engine, writing
from gsched_sql.schema import REVISION, metadata


@pytest.fixture(scope="module")
def made(tmp_path_factory, sqlite_template):
    """A backup of a history with rows in every table, and the history."""
    folder = tmp_path_factory.mktemp("made")
    path = folder / "history.db"
    path.write_bytes(sqlite_template.read_bytes())
    fill(path)
    maintenance.backup(url_of(path), folder / "whole.gsb")
    return folder / "whole.gsb", path


@pytest.mark.parametrize("engine", ["sqlite", "postgresql", "mariadb"])
def test_every_row_comes_back_on_every_engine_and_goes_on_to_sqlite(
    engine, made, tmp_path, request
):
    path = made[0]
    source = shutil.copy(made[1], tmp_path / "source.db")
    url = {
        "sqlite": lambda: f"sqlite:///{tmp_path / 'new' / 'history.db'}",
        "postgresql": lambda: request.getfixturevalue("postgres_url"),
        "mariadb": lambda: request.getfixturevalue("mariadb_url"),
    }[engine]()
    done = maintenance.restore(url, path)
    expected = contents(source, tmp_path)
    filled = {name for name, (rows, _) in expected.items() if rows}
    assert metadata.tables.keys() - filled == {"prune_marks", "usage_days"}
    assert contents(url, tmp_path) == expected
    assert done.rows == sum(rows for rows, _ in expected.values())
    with History.open(url) as history:  # and it can be written to
        history.ingest(batch(attempt(999)), source_key=None)
        found = history.jobs(HistoryFilter(job_id=7))
    assert found[0].attempts[0].name == HOSTILE
    onward = tmp_path / "onward.gsb"
    maintenance.backup(url, onward)
    maintenance.restore(f"sqlite:///{tmp_path / 'back.db'}", onward)
    with History.open(url_of(source)) as history:
        history.ingest(batch(attempt(999)), source_key=None)
    assert dump(tmp_path / "back.db") == dump(source)


def test_a_backup_is_a_private_file_that_common_tools_read(made):
    path, _ = made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [name.name for name in path.parent.iterdir() if name.name.startswith(".")] == []
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        with archive.open("tables/fairness_entries.jsonl.zst") as packed:
            lines = zstandard.ZstdDecompressor().stream_reader(packed).read().splitlines()
    assert (manifest["format"], manifest["schema"]) == ("gsched-backup", REVISION)
    assert [json.loads(line) for line in lines] == [[1, 1, 0, 3600, 1.5, 2.0, 0.1, -0.0, 0.0]]


def test_no_file_is_overwritten_without_being_told(made, database, tmp_path):
    target = tmp_path / "there.gsb"
    target.write_text("mine")
    with pytest.raises(UsageError, match="exists"):
        maintenance.backup(url_of(database), target)
    assert target.read_text() == "mine"
    maintenance.backup(url_of(database), target, replace=True)
    assert zipfile.is_zipfile(target)


def test_a_file_made_meanwhile_is_not_overwritten(database, tmp_path):
    target = tmp_path / "there.gsb"
    with pytest.raises(UsageError, match="exists"):
        maintenance.backup(
            url_of(database), target, on_progress=lambda *_: target.write_text("mine")
        )
    assert target.read_text() == "mine"
    assert list(tmp_path.glob(".there*")) == []


def test_only_an_empty_database_is_filled(made, database):
    path, _ = made
    maintenance.restore(url_of(database), path)  # one that `db init` has just made
    with pytest.raises(ConfigError, match="is not empty"):
        maintenance.restore(url_of(database), path)
    assert scalar(database, "SELECT count(*) FROM jobs") == 32


def test_another_programs_database_is_left_alone(made, tmp_path):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as conn:
        conn.execute("CREATE TABLE songs (title TEXT)")
    conn.close()
    with pytest.raises(ConfigError, match="another program"):
        maintenance.restore(url_of(other), made[0])


def test_nothing_is_backed_up_of_an_empty_or_newer_database(database, tmp_path):
    empty = tmp_path / "empty.db"
    empty.touch()
    with pytest.raises(ConfigError, match="is empty"):
        maintenance.backup(url_of(empty), tmp_path / "b.gsb")
    with sqlite3.connect(database) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
    conn.close()
    with pytest.raises(ConfigError, match="newer gsched"):
        maintenance.backup(url_of(database), tmp_path / "b.gsb")
    assert not (tmp_path / "b.gsb").exists()


@pytest.mark.parametrize("revision", ["0001", "0002"])
def test_a_backup_of_an_older_schema_is_restored_and_brought_up(revision, tmp_path):
    old = tmp_path / "old.db"
    engine = open_engine(url_of(old), create=True)
    with writing(engine) as conn:
        migrate.run_migrations(conn, revision)
        for statement in OLD_ROWS:
            conn.exec_driver_sql(statement)
    engine.dispose()
    saved = maintenance.backup(url_of(old), tmp_path / "old.gsb")
    assert saved.schema == revision
    maintenance.restore(url_of(tmp_path / "new.db"), tmp_path / "old.gsb")
    History.create(url_of(old))
    assert dump(tmp_path / "new.db") == dump(old)
    with History.open(url_of(tmp_path / "new.db")) as history:
        (job,) = history.jobs(HistoryFilter())
    assert (job.user, job.name, job.attempts[0].allocated[0].count) == ("ann", "train", 8)


OLD_ROWS = (
    "INSERT INTO clusters VALUES (1, 'd', 'alpha')",
    "INSERT INTO users VALUES (1, 'd', 'ann')",
    "INSERT INTO jobs (id, cluster_id, job_id, array_task, het_offset, epoch, user_id, name, state,"
    " state_text, start_time, end_time, num_gpus, num_attempts, queueing_s, duration_s, gpu_time_s)"
    " VALUES (1, 1, 7, -1, -1, 1000, 1, 'train', 'COMPLETED', 'COMPLETED', 1010, 1110, 2, 1, 10,"
    " 100, 200)",
    "INSERT INTO attempts (id, logical_job, cluster_id, job_id, array_task, het_offset,"
    " submit_time, user_id, name, state, state_text, source, start_time, end_time, num_gpus, claim,"
    " claims) VALUES (1, 1, 1, 7, -1, -1, 1000, 1, 'train', 'COMPLETED', 'COMPLETED', 'sacct',"
    " 1010, 1110, 2, 21990232560087, '')",
    "INSERT INTO attempt_tres (attempt_id, kind, position, name, count)"
    " VALUES (1, 'allocated', 0, 'cpu', 8)",
)


def test_a_backup_of_a_newer_gsched_says_so(made, tmp_path):
    changed = altered(made[0], tmp_path, lambda m: m | {"schema": "9999"})
    with pytest.raises(ConfigError, match="newer gsched"):
        maintenance.restore(url_of(tmp_path / "n.db"), changed)


def altered(path, folder, change, members=()):
    """A copy of a backup with another manifest, or other members."""
    target = folder / "altered.gsb"
    replaced = dict(members)
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w") as made:
        for name in source.namelist():
            data = source.read(name)
            if name == "manifest.json":
                data = json.dumps(change(json.loads(data))).encode()
            made.writestr(name, replaced.get(name, data))
    return target


def row_of(name, change):
    """A manifest in which the entry of table `name` is changed."""

    def changed(manifest):
        for entry in manifest["tables"]:
            if entry["name"] == name:
                change(entry)
        return manifest

    return changed


def packed(text):
    return zstandard.ZstdCompressor().compress(text.encode())


USERS = "tables/users.jsonl.zst"
HOSTILE_FILES = {
    "another format": (lambda m: m | {"format": "x"}, ()),
    "another version": (lambda m: m | {"version": 2}, ()),
    "unknown schema": (lambda m: m | {"schema": "../x"}, ()),
    "no tables": (lambda m: m | {"tables": []}, ()),
    "a list in place of an object": (lambda m: [m], ()),
    "deep nesting": (lambda m: m | {"tables": json.loads("[" * 500 + "]" * 500)}, ()),
    "a table twice": (lambda m: m | {"tables": m["tables"] + m["tables"][:1]}, ()),
    "a table of somebody else": (row_of("users", lambda e: e.update(name="sqlite_master")), ()),
    "a wrong hash": (row_of("users", lambda e: e.update(sha256="0" * 64)), ()),
    "a row too few": (row_of("users", lambda e: e.update(rows=e["rows"] + 1)), ()),
    "a row too many": (row_of("users", lambda e: e.update(rows=1)), ()),
    "another column": (row_of("users", lambda e: e["columns"][2].__setitem__(0, "nom")), ()),
    "another kind": (row_of("users", lambda e: e["columns"][2].__setitem__(1, "integer")), ()),
    "a member that is no zstd": (lambda m: m, [(USERS, b"plain")]),
    "a row that is no JSON": (lambda m: m, [(USERS, packed("[1,\n"))]),
    "a row of two lists": (lambda m: m, [(USERS, packed('[1,"d","x"],[2,"e","y"]\n'))]),
    "a short row": (lambda m: m, [(USERS, packed("[1]\n"))]),
    "text for a number": (lambda m: m, [(USERS, packed('["1","d","x"]\n'))]),
    "a number beyond 64 bits": (lambda m: m, [(USERS, packed(f'[{2**63},"d","x"]\n'))]),
    "a NUL": (lambda m: m, [(USERS, packed('[1,"d","\\u0000"]\n'))]),
    "a lone surrogate": (lambda m: m, [(USERS, packed('[1,"d","\\ud800"]\n'))]),
    "a row without an end": (lambda m: m, [(USERS, packed('[1,"d","x"]'))]),
    "a null where none may be": (lambda m: m, [(USERS, packed('[1,null,"x"]\n'))]),
    "a key twice": (lambda m: m, [(USERS, packed('[1,"d","x"]\n[1,"e","y"]\n'))]),
    "a number of 10,000 digits": (lambda m: m, [(USERS, packed(f'[{"9" * 10_000},"d","x"]\n'))]),
}


@pytest.mark.parametrize("name", HOSTILE_FILES)
def test_a_file_that_is_not_right_restores_nothing(name, made, tmp_path):
    change, members = HOSTILE_FILES[name]
    path = altered(made[0], tmp_path, change, members)
    target = tmp_path / "n.db"
    with pytest.raises(DataError, match=r"no backup|restored") as caught:
        maintenance.restore(url_of(target), path)
    assert str(path) in caught.value.message or "nothing has been restored" in caught.value.message
    assert caught.value.hint
    assert not target.exists() or scalar(target, "SELECT count(*) FROM sqlite_master") == 0


def test_an_engine_that_keeps_other_values_is_noticed(made, tmp_path, monkeypatch):
    real = backup.insert_columns

    def truncating(conn, table, count, columns):
        if table.name == "rejects":
            columns = columns | {"raw": [text[:5] for text in columns["raw"]]}
        real(conn, table, count, columns)

    monkeypatch.setattr(backup, "insert_columns", truncating)
    with pytest.raises(DataError, match="table rejects reads otherwise"):
        maintenance.restore(url_of(tmp_path / "n.db"), made[0])
    assert scalar(tmp_path / "n.db", "SELECT count(*) FROM sqlite_master") == 0


def test_a_cut_off_backup_restores_nothing(made, tmp_path):
    data = made[0].read_bytes()
    rng = random.Random(4)
    for length in (0, 1, len(data) - 1, *(rng.randrange(len(data)) for _ in range(5))):
        path = tmp_path / "cut.gsb"
        path.write_bytes(data[:length])
        with pytest.raises(DataError, match="no backup"):
            maintenance.restore(url_of(tmp_path / "n.db"), path)
    maintenance.restore(url_of(tmp_path / "n.db"), made[0])  # nothing is in the way of a good one


def test_any_changed_byte_is_noticed_or_changes_nothing(made, tmp_path):
    data = made[0].read_bytes()
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    path = tmp_path / "bad.gsb"
    for _ in range(400):
        bad = bytearray(data)
        place = rng.randrange(len(bad))
        bad[place] ^= 1 << rng.randrange(8)
        path.write_bytes(bad)
        try:
            with opened(path) as found:
                rows = {t.name: [r for some in found.rows(t) for r in some]
                        for t in found.manifest.tables}  # fmt: skip
        except DataError:
            continue
        with opened(made[0]) as good:
            assert rows == {t.name: [r for some in good.rows(t) for r in some]
                            for t in good.manifest.tables}, place  # fmt: skip


@given(st.binary(max_size=300))
@settings(max_examples=60)
def test_what_is_no_backup_is_called_so(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("junk") / "x.gsb"
    path.write_bytes(data)
    with pytest.raises(DataError, match="no backup of gsched"), opened(path):
        pass


def test_a_backup_is_of_one_moment_while_others_write(database, tmp_path):
    """Jobs come in pairs, one transaction each: a backup never has half a pair."""
    ends = threading.Event()

    def write():
        with History.open(url_of(database)) as history:
            number = 0
            while not ends.is_set():
                number += 2
                history.ingest(batch(attempt(number), attempt(number + 1)), source_key=None)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(6):
            before = scalar(database, "SELECT count(*) FROM jobs")
            maintenance.backup(url_of(database), tmp_path / f"{n}.gsb")
            with opened(tmp_path / f"{n}.gsb") as made:
                counts = {t.name: t.rows for t in made.manifest.tables}
            assert counts["jobs"] == counts["attempts"] >= before
            assert counts["jobs"] % 2 == 0
    finally:
        ends.set()
        writer.join()
    maintenance.restore(url_of(tmp_path / "n.db"), tmp_path / "5.gsb")


def test_whoever_sees_only_own_rows_cannot_make_a_backup_of_them(
    postgres_url, postgres_server, tmp_path
):
    History.create(postgres_url, with_roles=True)
    fill(postgres_url, 1)
    database = postgres_url.rsplit("/", 1)[1]
    name = f"ann_{database}"
    postgres_server.execute(
        f"CREATE ROLE {name} LOGIN PASSWORD 'x'", f"GRANT gsched_reader TO {name}"
    )
    other = postgres_url.replace(postgres_url.split("//")[1].split("@")[0], f"{name}:x")
    with pytest.raises(GschedError, match=r"permission|row-level") as caught:
        maintenance.backup(other, tmp_path / "b.gsb")
    assert not (tmp_path / "b.gsb").exists()
    assert "x@" not in caught.value.message


def test_roles_keep_their_rights_in_a_database_that_is_filled(made, postgres_url):
    History.create(postgres_url, with_roles=True)
    rights = "SELECT tablename, policyname FROM pg_policies ORDER BY 1, 2"
    before = select(postgres_url, rights)
    maintenance.restore(postgres_url, made[0])
    assert select(postgres_url, rights) == before
    assert len(before) > 60


@pytest.mark.filterwarnings("error")
def test_where_the_backup_does_not_fit_nothing_is_left(database, tmp_path, monkeypatch):
    fill(database)

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(backup.BackupWriter, "close", full)
    with pytest.raises(UnavailableError, match="No space left"):
        maintenance.backup(url_of(database), tmp_path / "b.gsb")
    assert list(tmp_path.glob("*b.gsb*")) + list(tmp_path.glob(".*gsb*")) == []
    gc.collect()  # nor does anything complain later


def test_alembic_goes_on_from_a_restored_database(made, tmp_path):
    maintenance.restore(url_of(tmp_path / "n.db"), made[0])
    config = Config()
    config.set_main_option("script_location", "gsched_sql:migrations")
    engine = open_engine(url_of(tmp_path / "n.db"))
    with writing(engine) as conn:
        config.attributes["connection"] = conn
        command.upgrade(config, "head")
        assert migrate.revision(conn) == REVISION
    engine.dispose()
