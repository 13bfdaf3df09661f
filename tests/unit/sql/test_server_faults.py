"""Real servers that die or fill their disk: nothing half stored, a clear word, and on it goes."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import threading

import pytest
from sqlalchemy import event
from support.history import CLUSTER, attempt, batch, scalar
from support.journal import CHANNEL, change, round_info
from support.machine import NO_NAMESPACES, has_mount_namespaces
from support.servers import MariadbServer, PostgresServer, started, url
from support.small_slurm import Slurm

from gsched.engine.settling import carry_out, settle_interrupted
from gsched.errors import ConfigError, UnavailableError
from gsched.model.past import HistoryFilter
from gsched.testbed.wait import wait_for
from gsched_sql import History, migrate
from gsched_sql.engine import reading


@pytest.fixture(scope="module", params=[PostgresServer, MariadbServer], ids=lambda k: k.scheme)
def server(request):
    """A server of this module's own: it gets killed."""
    with started(request.param) as running:
        yield running


@pytest.fixture
def location(server):
    name = server.create_database(with_tables=True)
    yield url(server, name)
    server.drop_database(name)


def kill_at(server, engine, name, number=1):
    """Kill the server at the `number`-th event of the engine that is called `name`."""
    seen = []

    def count(*_):
        seen.append(name)
        if len(seen) == number:
            server.kill()

    event.listen(engine, name, count)
    return lambda: event.remove(engine, name, count)


RECORDS = batch(*(attempt(n, name=f"job {n}") for n in range(300)), cursor="300")


@pytest.mark.parametrize("number", [1, 3, 8, 15])
def test_a_server_that_dies_in_the_midst_of_an_import(server, location, number):
    with History.open(location) as history:
        history.ingest(batch(attempt(1000), cursor="1"), source_key="s")
        forget = kill_at(server, history._engine, "before_cursor_execute", number)
        with pytest.raises(UnavailableError, match=r"was lost") as caught:
            history.ingest(RECORDS, source_key="s")
        assert caught.value.exit_code == 69
        assert "nothing is half stored" in caught.value.hint
        forget()
        server.start()
        # the same process goes on, on a new connection
        assert (history.cursor("s"), len(history.jobs(HistoryFilter()))) == ("1", 1)
        assert history.ingest(RECORDS, source_key="s").attempts_new == 300
        assert history.ingest(RECORDS, source_key="s").unchanged == 300
    assert scalar(location, "SELECT count(*) FROM job_names") == 301


def test_a_server_that_dies_at_the_commit_leaves_all_or_nothing(server, location):
    with History.open(location) as history:
        forget = kill_at(server, history._engine, "commit")
        with pytest.raises(UnavailableError, match="was lost"):
            history.ingest(RECORDS, source_key="s")
        forget()
        server.start()
        assert (history.cursor("s"), history.stats().rows["attempts"]) == ("", 0)
        assert history.ingest(RECORDS, source_key="s").attempts_new == 300


@pytest.mark.parametrize("number", [2, 9, 16, 23, 30])
def test_a_server_that_dies_in_the_midst_of_a_round(server, location, number):
    slurm = Slurm()
    with History.open(location) as history:
        fence = history.leadership(CLUSTER).take("elsewhere", "another machine", 1, 60, 0)
        journal = history.journal(fence)
        forget = kill_at(server, history._engine, "before_cursor_execute", number)
        with pytest.raises(UnavailableError, match=r"was lost|cannot be reached"):
            play_rounds(journal, slurm, 10, 20)
        forget()
        server.start()
        history.leadership(CLUSTER).renew(fence, 60, 0)
        settle_interrupted(slurm, journal, lambda: 2060)
        assert journal.unsettled(CLUSTER) == []
        for n, job in slurm.jobs.items():
            ours = journal.standing(CLUSTER).get((slurm.key(n), CHANNEL))
            assert job.value == 0 or job.value in {ours.written, *ours.may_be}
        play_rounds(journal, slurm, 30)
        found = journal.standing(CLUSTER).values()
        assert [(s.found, s.written, s.may_be) for s in found] == [(0, 30, ())] * len(slurm.jobs)
        assert history.errors == 1


def play_rounds(journal, slurm, *values):
    """Rounds that give every job the same value."""
    for value in values:
        name = f"r{value}"
        journal.begin_round(round_info(name))
        jobs = slurm.jobs.items()
        made = [change(f"{name}/{n}", job.value, value, key=slurm.key(n)) for n, job in jobs]
        carry_out(slurm, journal, name, made, lambda: 2000)
        journal.end_round(name, 2001, {}, {})


SLOW = {
    "postgresql": (
        "SELECT pg_sleep(300)",
        "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'",
    ),
    "mariadb": (
        "SELECT SLEEP(300)",
        "SELECT 1 FROM information_schema.processlist WHERE state = 'User sleep'",
    ),
}


def test_a_server_that_dies_during_a_query(server, location):
    query, runs = SLOW[server.scheme]
    told = []

    def ask():
        with pytest.raises(UnavailableError) as caught, reading(history._engine) as conn:
            conn.exec_driver_sql(query)
        told.append(caught.value)

    with History.open(location) as history:
        asking = threading.Thread(target=ask)
        asking.start()
        wait_for(lambda: server.execute(runs), "the query to run")
        server.kill()
        asking.join()
        assert "was lost" in told[0].message
        with pytest.raises(UnavailableError, match="cannot be reached"):
            history.stats()
        server.start()
        assert history.stats().rows["jobs"] == 0


def test_a_server_that_hangs_is_given_up_by_who_cannot_wait(server, location, monkeypatch):
    monkeypatch.setattr("gsched_sql.history.SILENCE_LIMIT_S", 1)
    with History.open(f"{location}?connect_timeout=2", bounded=True) as history:
        fence = history.leadership(CLUSTER).take("elsewhere", "another machine", 1, 60, 0)
        with (
            server.standing_still(),
            pytest.raises(UnavailableError, match=r"was lost|cannot be reached"),
        ):
            history.leadership(CLUSTER).renew(fence, 60, 0)
        history.leadership(CLUSTER).renew(fence, 60, 0)  # goes on, on a new connection
        query, _ = SLOW[server.scheme]
        with pytest.raises(UnavailableError, match="was lost"), reading(history._engine) as conn:
            conn.exec_driver_sql(query)  # no sign is no sign, whatever the server does


def test_a_writer_that_was_killed_leaves_no_lock(server, location):
    """The server takes the lock of a connection that is gone."""
    with History.open(location) as dead, History.open(location) as history:
        forget = kill_at(server, dead._engine, "before_cursor_execute", 4)
        with pytest.raises(UnavailableError):
            dead.ingest(RECORDS, source_key="s")
        forget()
        server.start()
        assert history.ingest(RECORDS, source_key="s").attempts_new == 300


@pytest.mark.parametrize("number", [6, 30, 75])
def test_a_server_that_dies_while_the_tables_are_made(server, number, monkeypatch):
    name = server.create_database()
    location = url(server, name)
    real = migrate.run_migrations

    def run(conn, *args):
        kill_at(server, conn.engine, "before_cursor_execute", number)
        real(conn, *args)

    monkeypatch.setattr(migrate, "run_migrations", run)
    with pytest.raises(UnavailableError, match="was lost"):
        History.create(location)
    monkeypatch.undo()
    server.start()
    with pytest.raises(ConfigError, match=r"empty|another program|older gsched"):
        History.open(location)
    History.create(location)
    with History.open(location) as history:
        assert history.ingest(RECORDS, source_key="s").attempts_new == 300
    server.drop_database(name)


def test_another_programs_tables_are_left_alone(server):
    name = server.create_database()
    location = url(server, name)
    for made in ("songs (title varchar(9))", "alembic_version (version_num varchar(32))"):
        server.execute(f"CREATE TABLE {made}", user="gsched", database=name)
    server.execute("INSERT INTO songs VALUES ('kept')", user="gsched", database=name)
    with pytest.raises(ConfigError, match="another program's tables"):
        History.create(location)
    assert server.execute("SELECT title FROM songs", user="gsched", database=name) == [("kept",)]
    server.drop_database(name)


@contextlib.contextmanager
def small_disk(folder):
    """A file system of 24 MB on `folder`, which has the owner of the one above."""
    folder.mkdir()
    owner = folder.parent.stat()
    options = f"size=24m,uid={owner.st_uid},gid={owner.st_gid},mode=0700"
    subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", folder), check=True)
    try:
        yield
    finally:
        subprocess.run(("umount", "--lazy", folder), check=True)


@pytest.fixture
def small_postgresql():
    with started(PostgresServer) as server:
        folder = server.folder / "small"
        with small_disk(folder):
            server.execute(f"CREATE TABLESPACE small LOCATION '{folder}'")
            server.execute("CREATE DATABASE test_small OWNER gsched TABLESPACE small")
            yield url(server, "test_small")


@pytest.fixture
def small_mariadb():
    # On a disk that is full MariaDB 10.11 dies; a data file that may not grow is no less full.
    with started(MariadbServer, data_file="ibdata1:12M:autoextend:max:40M") as server:
        yield url(server, server.create_database())


@pytest.mark.parametrize(
    "small",
    [
        pytest.param(
            "small_postgresql",
            marks=pytest.mark.skipif(not has_mount_namespaces(), reason=NO_NAMESPACES),
        ),
        "small_mariadb",
    ],
)
def test_a_server_without_room_for_more(small, request):
    location = request.getfixturevalue(small)
    History.create(location)
    with History.open(location) as history:

        def fill():
            for n in itertools.count(1):
                names = (f"{n} {job} {'x' * 2000}" for job in range(300))
                records = [attempt(300 * n + job, name=name) for job, name in enumerate(names)]
                history.ingest(batch(*records, cursor=str(n)), source_key="s")

        with pytest.raises(UnavailableError) as caught:
            fill()
        assert "no room is left" in caught.value.message
        assert "nothing is half stored" in caught.value.hint
        whole = int(history.cursor("s"))
    assert whole > 0
    for table in ("jobs", "attempts", "job_names"):
        assert scalar(location, f"SELECT count(*) FROM {table}") == 300 * whole
