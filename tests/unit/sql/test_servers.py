"""PostgreSQL and MariaDB as sites run them: their refusals by name, and what they promise."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import traceback

import pytest
from sqlalchemy.exc import InvalidRequestError
from support.history import attempt, batch, scalar
from support.servers import url

from gsched.errors import (
    ConfigError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
    UnavailableError,
)
from gsched_sql import History, failures
from gsched_sql import engine as engine_module
from gsched_sql.engine import open_engine, reading, writing
from gsched_sql.urls import parse

SECRET = "tr0ub4dor-and-3"


@pytest.fixture(params=["postgres", "mariadb"])
def server(request):
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def on_server(server):
    """The URL of a database with tables."""
    name = server.create_database(with_tables=True)
    yield url(server, name)
    server.drop_database(name)


@contextlib.contextmanager
def opened(database, **options):
    engine = open_engine(database, **options)
    try:
        yield engine
    finally:
        engine.dispose()


def refused(database, kind):
    """The error of opening a database; it shows no password, not even in a traceback."""
    with pytest.raises(kind) as caught:
        History.open(database)
    shown = caught.value.message + caught.value.hint
    assert SECRET not in shown + "".join(traceback.format_exception(caught.value))
    return caught.value


def test_a_login_that_is_refused(server, on_server):
    name = parse(on_server).database
    for login in (url(server, name, password=SECRET), url(server, name, "nobodyelse", SECRET)):
        error = refused(login, PermissionDeniedError)
        assert error.exit_code == 77
        assert "does not let this user in" in error.message
        assert "password_file" in error.hint


def test_a_database_that_is_not_there(server):
    with pytest.raises((ConfigError, PermissionDeniedError)) as caught:
        History.open(url(server, "test_none"))
    assert "no such database" in caught.value.message
    assert "server's administrator" in caught.value.hint


def test_an_empty_database_asks_for_init(server):
    name = server.create_database()
    try:
        with pytest.raises(ConfigError, match="is empty") as caught:
            History.open(url(server, name))
    finally:
        server.drop_database(name)
    assert "gsched db init" in caught.value.hint


def test_a_server_that_does_not_answer(server):
    nowhere = url(server, "gsched", password=SECRET)
    error = refused(nowhere.replace(f":{server.port}/", ":1/"), UnavailableError)
    assert error.exit_code == 69
    assert "cannot be reached" in error.message
    error = refused(nowhere.replace("127.0.0.1", "no-such-host.invalid"), UnavailableError)
    assert "no-such-host.invalid" in error.message


@pytest.mark.parametrize("option", ["sslmood=on", "connect_timeout=soon"])
def test_an_option_that_is_none_is_a_configuration_error(server, on_server, option):
    error = refused(f"{on_server}?{option}", ConfigError)
    assert "the database URL has an option" in error.message


def test_a_way_of_tls_that_is_none_is_a_configuration_error(postgres_url):
    error = refused(f"{postgres_url}?sslmode=bogus", ConfigError)
    assert "an option that cannot be: " in error.message


def test_a_server_that_is_too_old_is_named(on_server, monkeypatch):
    monkeypatch.setattr(
        engine_module, "OLDEST_SERVERS", {"postgresql": (99, 1), "mariadb": (99, 1)}
    )
    for use in (History.open, History.create):
        with pytest.raises(ConfigError, match=r"is a (PostgreSQL|MariaDB) \d+") as caught:
            use(on_server)
        assert "99.1 or newer" in caught.value.hint


def test_a_mysql_is_no_mariadb(mariadb_url, monkeypatch):
    def mysql(*_):  # as SQLAlchemy finds it out
        raise InvalidRequestError("MySQL version 8.0.36 is not a MariaDB variant.")

    with opened(mariadb_url) as engine:
        monkeypatch.setattr(type(engine.dialect), "_get_server_version_info", mysql)
    with pytest.raises(ConfigError, match=r"MySQL version 8\.0\.36"):
        History.open(mariadb_url)


def test_a_postgresql_without_unicode_is_refused(postgres_server):
    postgres_server.execute(
        "CREATE DATABASE test_ascii OWNER gsched ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' "
        "TEMPLATE template0"
    )
    try:
        with pytest.raises(ConfigError, match="has the encoding SQL_ASCII"):
            History.create(url(postgres_server, "test_ascii"))
    finally:
        postgres_server.drop_database("test_ascii")


# -- transactions ----------------------------------------------------------------------------------


def test_one_writes_and_the_other_waits_or_is_told(database_url):
    with opened(database_url, busy_timeout_s=0.1) as hasty, opened(database_url) as other:
        with writing(other), pytest.raises(TryAgainError) as caught, writing(hasty):
            pass
        assert caught.value.exit_code == 75
        assert "is locked by another process" in caught.value.message
        with writing(hasty):  # what was given back can be had
            pass


def test_who_waited_sees_what_the_one_before_has_written(database_url):
    """Numbers are given as the greatest one and 1: two writers must never give the same."""

    def write_some(name):
        with opened(database_url) as engine:
            for n in range(10):
                with writing(engine) as conn:
                    last = conn.exec_driver_sql("SELECT max(id) FROM clusters").scalar() or 0
                    conn.exec_driver_sql(
                        "INSERT INTO clusters (id, name_digest, name) "
                        f"VALUES ({last + 1}, '{name}{n}', '{name}')"
                    )

    writers = [threading.Thread(target=write_some, args=[name]) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert scalar(database_url, "SELECT count(*) FROM clusters") == 30
    assert scalar(database_url, "SELECT max(id) FROM clusters") == 30


def test_a_reader_sees_one_state_and_does_not_wait(database_url):
    count = "SELECT count(*) FROM jobs"
    with opened(database_url) as engine, History.open(database_url) as history:
        with reading(engine) as conn:
            assert conn.exec_driver_sql(count).scalar() == 0
            history.ingest(batch(attempt()), source_key="s")
            assert conn.exec_driver_sql(count).scalar() == 0
        with reading(engine) as conn:
            assert conn.exec_driver_sql(count).scalar() == 1


def test_what_fails_is_undone_whole(database_url):
    row = "INSERT INTO derivations (name, digest) VALUES ('x', 'y')"
    with History.open(database_url) as history:

        def fail():
            with writing(history._engine) as conn:
                conn.exec_driver_sql(row)
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        assert scalar(database_url, "SELECT count(*) FROM derivations WHERE name = 'x'") == 0
        history.ingest(batch(attempt()), source_key="s")  # and the lock is free


CHILD = """
import sys
from gsched_sql.engine import open_engine, writing
with writing(open_engine(sys.argv[1])) as conn:
    conn.exec_driver_sql("INSERT INTO derivations (name, digest) VALUES ('x', 'y')")
    print("written", flush=True)
    sys.stdin.read()
"""


def test_a_writer_that_is_killed_leaves_neither_rows_nor_its_lock(database_url):
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, database_url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path)},
    ) as child:
        assert child.stdout.readline() == b"written\n"
        child.kill()
    with History.open(database_url) as history:
        history.ingest(batch(attempt()), source_key="s")
    assert scalar(database_url, "SELECT count(*) FROM derivations WHERE name = 'x'") == 0


def test_a_row_that_breaks_a_rule_is_refused(database_url):
    row = "INSERT INTO node_list_members (node_list_id, node_id) VALUES (1, 999)"
    with (
        opened(database_url) as engine,
        pytest.raises(GschedError, match="refused a row"),
        writing(engine) as conn,
    ):
        conn.exec_driver_sql(row)


# -- TLS -------------------------------------------------------------------------------------------

TLS = {
    "postgresql": (
        "sslmode=verify-full&sslrootcert={}",
        "SELECT ssl::int FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
    ),
    "mariadb": (
        "ssl_ca={}&ssl_check_hostname=true",
        "SELECT variable_value <> '' FROM information_schema.session_status "
        "WHERE variable_name = 'Ssl_cipher'",
    ),
}


def test_options_of_tls_reach_the_driver(server, on_server):
    options, query = TLS[server.scheme]
    assert scalar(f"{on_server}?{options.format(server.certificate)}", query) == 1


def test_a_server_that_is_not_the_trusted_one_gets_no_password(
    server, on_server, postgres_server, mariadb_server
):
    other = mariadb_server if server is postgres_server else postgres_server
    error = refused(
        f"{on_server}?{TLS[server.scheme][0].format(other.certificate)}", UnavailableError
    )
    assert "certificate" in error.message


# -- what cannot be brought about here -------------------------------------------------------------


class RefusalError(Exception):
    """As a driver raises it."""

    def __init__(self, *args, sqlstate=None):
        super().__init__(*args)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("refusal", "kind", "message"),
    [
        (
            RefusalError("could not extend file", sqlstate="53100"),
            UnavailableError,
            "no room is left",
        ),
        (
            RefusalError("sorry, too many clients", sqlstate="53300"),
            TryAgainError,
            "no connection now",
        ),
        (RefusalError("standby", sqlstate="25006"), PermissionDeniedError, "takes no writes"),
        (RefusalError("deadlock detected", sqlstate="40P01"), TryAgainError, "broke off"),
        (RefusalError("shutting down", sqlstate="57P01"), UnavailableError, "was lost"),
        (RefusalError("invalid page", sqlstate="XX001"), GschedError, "is damaged"),
        (
            RefusalError("of a new kind", sqlstate="P0001"),
            UnavailableError,
            "does not work: of a new",
        ),
        (
            RefusalError("FATAL: the database system is starting up"),
            TryAgainError,
            "no connection now",
        ),
        (RefusalError(1114, "The table is full"), UnavailableError, "no room is left"),
        (RefusalError(1021, "Disk full"), UnavailableError, "no room is left"),
        (RefusalError(1290, "--read-only"), PermissionDeniedError, "takes no writes"),
        (RefusalError(1213, "Deadlock"), TryAgainError, "broke off"),
        (RefusalError(1040, "Too many connections"), TryAgainError, "no connection now"),
        (RefusalError(2006, "gone away"), UnavailableError, "was lost"),
        (RefusalError(1712, "Index is corrupted"), GschedError, "is damaged"),
        (RefusalError(9999, "of a new kind"), UnavailableError, "does not work: of a new kind"),
    ],
)
def test_what_servers_say_gets_one_name(refusal, kind, message, monkeypatch):
    monkeypatch.setattr(failures, "_drivers_own", lambda _url: (RefusalError,))
    with (
        pytest.raises(kind, match=message) as caught,
        failures.translated(parse("mariadb://gsched:s3cret@db/history")),
    ):
        raise refusal
    assert "mariadb://gsched@db/history" in caught.value.message


def test_a_driver_that_tells_the_password_is_not_quoted(monkeypatch):
    monkeypatch.setattr(failures, "_drivers_own", lambda _url: (RefusalError,))
    with (
        pytest.raises(UnavailableError) as caught,
        failures.translated(parse(f"mariadb://gsched:{SECRET}@db/history")),
    ):
        raise RefusalError(9999, f"tried {SECRET} in vain")
    assert "tried *** in vain" in caught.value.message
    assert SECRET not in "".join(traceback.format_exception(caught.value))
