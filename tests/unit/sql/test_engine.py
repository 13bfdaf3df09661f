"""Opening a database: where it may be, who may write it, and what its failures are called."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.history import attempt, batch, scalar
from support.open_folders import open_to_all

from gsched.errors import (
    ConfigError,
    DataError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched.model.past import HistoryFilter
from gsched_sql import History, machine, sqlite_file
from gsched_sql.engine import open_engine, reading, writing
from gsched_sql.mounts import network_file_system

MOUNTS = """\
/dev/vda / ext4 rw 0 0
server:/export /mnt/nfs nfs4 rw 0 0
//nas/share /mnt/with\\040space cifs rw 0 0
scratch@tcp:/s /scratch lustre rw 0 0
user@host: /mnt/ssh fuse.sshfs rw 0 0
overlay /mnt/nfs/local overlay rw 0 0
tmpfs /covered nfs rw 0 0
tmpfs /covered tmpfs rw 0 0
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/gsched/history.db", ""),
        ("/mnt/nfs/history.db", "nfs4"),
        ("/mnt/nfsother/history.db", ""),
        ("/mnt/nfs/local/history.db", ""),
        ("/mnt/with space/history.db", "cifs"),
        ("/scratch/a/b/history.db", "lustre"),
        ("/mnt/ssh/history.db", "fuse.sshfs"),
        ("/covered/history.db", ""),
    ],
)
def test_network_file_systems_are_recognised(path, kind):
    assert network_file_system(Path(path), MOUNTS) == kind


def test_a_database_on_a_network_file_system_is_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite_file, "network_file_system", lambda _path: "nfs4")
    with pytest.raises(ConfigError, match="nfs4, a network file system"):
        History.create(f"sqlite:///{tmp_path / 'history.db'}")
    assert not (tmp_path / "history.db").exists()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_nobody_else_may_write_what_is_made(tmp_path, umask):
    folder = tmp_path / "lib" / "gsched"
    previous = os.umask(umask)
    try:
        History.create(f"sqlite:///{folder / 'history.db'}")
        with History.open(f"sqlite:///{folder / 'history.db'}") as history:
            history.ingest(batch(attempt()), source_key="s")
            modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in folder.iterdir()}
    finally:
        os.umask(previous)
    assert set(modes) >= {"history.db", "history.db-wal"}
    assert all(mode == 0o640 & ~umask for mode in modes.values()), modes
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750 & ~umask


def test_a_file_that_anybody_may_write_is_not_trusted(database):
    database.chmod(0o666)
    with pytest.raises(ConfigError, match="anybody may write"):
        History.open(f"sqlite:///{database}")


def test_connections_keep_what_they_promise(database):
    engine = open_engine(f"sqlite:///{database}")
    with reading(engine) as conn:
        settings = {
            name: conn.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "foreign_keys", "synchronous", "busy_timeout")
        }
    engine.dispose()
    assert settings == {
        "journal_mode": "wal",
        "foreign_keys": 1,
        "synchronous": 2,  # FULL
        "busy_timeout": 10_000,
    }


def test_a_missing_database_is_not_made_by_opening(tmp_path):
    path = tmp_path / "history.db"
    with pytest.raises(ConfigError, match="no job history") as caught:
        History.open(f"sqlite:///{path}")
    assert "gsched db init" in caught.value.hint
    assert not path.exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("not a url", "the database URL is not one"),
        ("sqlite://", "needs a database file"),
        ("sqlite:///:memory:", "needs a database file"),
        ("sqlite:///file:x?uri=true", "needs a database file"),
        ("sqlite:///history.db", "must be an absolute path, not history.db"),
        ("sqlite:////srv/history.db?timeout=5", "an SQLite URL takes none"),
        ("postgresql://db.example/history?port=abc", "an option of a wrong value"),
        ("mariadb://db.example/history?port=abc", "an option of a wrong value"),
        ("nonsense://host/db", "unknown kind of database: nonsense"),
        ("sqlite:////proc", "/proc is not a file"),
    ],
)
def test_a_url_that_cannot_work_is_a_configuration_error(url, message):
    with pytest.raises(ConfigError, match=message):
        History.create(url)


def test_a_missing_driver_is_named_and_no_password_is_shown(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(ConfigError, match="no module psycopg") as caught:
        History.create("postgresql://gsched:secret@db.example/history")
    assert "secret" not in caught.value.message + caught.value.hint
    assert "gsched[postgres]" in caught.value.hint


def test_a_locked_database_asks_to_try_again(database):
    engine = open_engine(f"sqlite:///{database}", busy_timeout_s=0.05)
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(TryAgainError, match="locked by another process") as caught:  # noqa: SIM117
        with writing(engine):
            pass
    assert caught.value.exit_code == 75
    assert str(database) in caught.value.message
    with reading(engine) as conn:  # a reader does not wait for the writer
        assert conn.exec_driver_sql("SELECT count(*) FROM jobs").scalar() == 0
    other.execute("ROLLBACK")
    with writing(engine):
        pass
    other.close()
    engine.dispose()


def test_a_full_disk_is_reported_and_nothing_is_half_written(database, history):
    history.ingest(batch(attempt(1), cursor="1"), source_key="s")
    with writing(history._engine) as conn:
        pages = conn.exec_driver_sql("PRAGMA page_count").scalar()
        conn.exec_driver_sql(f"PRAGMA max_page_count = {pages}")
    many = [attempt(n, name="x" * 1000) for n in range(2, 500)]
    with pytest.raises(UnavailableError, match="full"):
        history.ingest(batch(*many, cursor="2"), source_key="s")
    assert history.cursor("s") == "1"
    assert len(history.jobs(HistoryFilter())) == 1


def test_a_file_that_is_no_database_is_named(tmp_path):
    path = tmp_path / "history.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(DataError, match="no database of gsched"):
        History.open(f"sqlite:///{path}")


def test_a_folder_that_may_not_be_written_is_a_lack_of_permission(tmp_path, monkeypatch):
    # As root nothing is forbidden, so that the refusal is the kernel's answer put in its mouth.
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(sqlite_file.os, "open", refuse)
    with pytest.raises(PermissionDeniedError, match="Permission denied"):
        History.create(f"sqlite:///{tmp_path / 'history.db'}")


@contextmanager
def without_roots_rights():
    """Root may read and write whatever the mode says; nobody else may."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("mode", [0o000, 0o444])
@pytest.mark.parametrize("use", [History.open, History.create])
def test_a_user_without_permission_is_told_so(database, tmp_path, mode, use):
    database.chmod(mode)
    open_to_all(tmp_path)
    tmp_path.chmod(0o555)
    try:
        with without_roots_rights(), pytest.raises(PermissionDeniedError) as caught:
            use(f"sqlite:///{database}")
    finally:
        tmp_path.chmod(0o755)
    assert caught.value.exit_code == 77
    assert str(database) in caught.value.message


def test_a_row_that_breaks_a_rule_is_refused_whole(database, history):
    with pytest.raises(Exception, match="refused a row"), writing(history._engine) as conn:
        conn.exec_driver_sql("INSERT INTO tres_counts VALUES (999, 0, 'cpu', 1)")
    assert scalar(database, "SELECT count(*) FROM tres_counts") == 0


def test_what_root_makes_in_an_owners_folder_is_the_owners(tmp_path):
    tmp_path.chmod(0o755)
    os.chown(tmp_path, 65534 if os.geteuid() == 0 else -1, -1)
    History.create(f"sqlite:///{tmp_path / 'history.db'}")
    assert {p.stat().st_uid for p in tmp_path.iterdir()} == {tmp_path.stat().st_uid}


def test_a_history_in_a_file_has_one_owner(database, tmp_path):
    """Whatever the modes would let others do: they are told to use a server."""
    database.chmod(0o660)
    open_to_all(tmp_path)
    os.chown(database, -1, 65534)  # the group of the other user
    with without_roots_rights(), pytest.raises(PermissionDeniedError, match="belongs to") as caught:
        History.open(f"sqlite:///{database}")
    assert "has one owner" in caught.value.message
    assert "PostgreSQL or MariaDB" in caught.value.hint


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Puts the process on a host of that machine id."""
    path = tmp_path / "machine-id"
    monkeypatch.setattr(machine, "_MACHINE_ID", path)

    def move_to(machine):
        path.write_text(f"{machine}\n")

    return move_to


def test_a_history_in_a_file_has_one_host(database, host):
    url = f"sqlite:///{database}"
    host("a" * 32)
    History.create(url)
    History.open(url).close()
    host("b" * 32)
    with pytest.raises(ConfigError, match="used by another host") as caught:
        History.open(url)
    assert "moved here for good, run `gsched db init`" in caught.value.hint
    History.create(url)  # it has been moved
    History.open(url).close()
    host("a" * 32)
    with pytest.raises(ConfigError, match="used by another host"):
        History.open(url)


@pytest.mark.parametrize("unknown", ["", "uninitialized"])
def test_where_nothing_tells_hosts_apart_nothing_is_said(database, host, unknown):
    url = f"sqlite:///{database}"
    host(unknown)
    History.create(url)
    History.open(url).close()
    host("a" * 32)
    History.open(url).close()
    History.create(url)
    host(unknown)
    History.open(url).close()
