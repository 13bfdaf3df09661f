"""Real database servers for tests: Debian's PostgreSQL and MariaDB, each started once a session.

They listen on 127.0.0.1 alone, run as a user without rights, lie in a folder of their own and end
with the process that started them. Their fsync is off: a commit outlives kill -9, no power cut.

``postgres_url`` and ``mariadb_url`` name an empty database of the test's own, ``database_url`` one
that has gsched's tables: on SQLite, PostgreSQL and MariaDB in turn.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pymysql
import pytest

from support.server_processes import (
    HOST,
    certificate,
    environment_of,
    fast_folder,
    free_port,
    kill_all,
    postgres_programs,
    private_file,
    server_folder,
    server_user,
    spawn,
    standing_still,
    unprivileged,
    wait_until_it_answers,
)

ENGINES = ("sqlite", "postgresql", "mariadb")
each_engine = pytest.mark.parametrize("database", ENGINES, indirect=True)
"""Runs a test of ``tests/unit/sql`` on all of them, its fixtures `database` and `history`."""

_OWNER = "gsched"


def url(server: Server, database: str, user: str = _OWNER, password: str | None = None) -> str:
    """How gsched is told of a database of `server`."""
    secret = server.password if password is None else password
    return f"{server.scheme}://{user}:{secret}@{HOST}:{server.port}/{database}"


class PostgresServer:
    """A PostgreSQL below `folder`.

    Its administrator is `admin`, and `gsched` owns the databases; both have `password`.
    """

    scheme = "postgresql"
    settings: ClassVar[dict[str, str]] = {"fsync": "off", "shared_buffers": "32MB"}

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "postgres.log"
        self.password = secrets.token_hex(8)
        self.port = free_port()
        self.certificate, self._key = certificate(folder)
        self._bin = postgres_programs()
        self._names = (f"test_{n}" for n in itertools.count(1))
        self._template = ""
        self._process: subprocess.Popen[bytes] | None = None
        secret = private_file(folder / "password", self.password)
        make = (self._bin / "initdb", "--pgdata", folder / "data", "--username=admin")
        ways = ("--auth=scram-sha-256", f"--pwfile={secret}", "--encoding=UTF8", "--locale=C.UTF-8")
        subprocess.run(
            unprivileged(*make, *ways, "--no-sync"),
            check=True,
            capture_output=True,
            cwd="/",
            env=environment_of(folder),
        )
        self.start()
        self.execute(f"CREATE ROLE {_OWNER} LOGIN CREATEROLE PASSWORD '{self.password}'")

    def start(self) -> None:
        """Start, or start again; returns when it answers."""
        settings = {
            "listen_addresses": HOST,
            "port": self.port,
            "unix_socket_directories": "",
            "max_connections": 50,
            "lc_messages": "C",
            "dynamic_shared_memory_type": "mmap",  # in its folder: kill -9 leaves nothing behind
            "ssl": "on",
            "ssl_cert_file": self.certificate,
            "ssl_key_file": self._key,
            **self.settings,
        }
        options = (f"--{name}={value}" for name, value in settings.items())
        self._process = spawn(
            (self._bin / "postgres", "-D", self.folder / "data", *options), self.log
        )
        wait_until_it_answers(
            lambda: self.execute("SELECT 1"), self._process, psycopg.OperationalError, self.log
        )

    def kill(self) -> None:
        """kill -9 of all its processes."""
        assert self._process is not None
        kill_all(self._process)

    def standing_still(self) -> contextlib.AbstractContextManager[None]:
        """It hangs during the block."""
        assert self._process is not None
        return standing_still(self._process)

    def stop(self) -> None:
        """End it at once, and wait for that: it collects its own processes."""
        assert self._process is not None
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()

    def execute(
        self, *statements: str, database: str = "postgres", user: str = "admin"
    ) -> list[tuple[Any, ...]]:
        """Run statements as `user`, admin or gsched; the rows that the last one gives."""
        with psycopg.connect(
            host=HOST,
            port=self.port,
            user=user,
            password=self.password,
            dbname=database,
            autocommit=True,
        ) as conn:
            for statement in statements:
                cursor = conn.execute(statement)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    def create_database(self, *, with_tables: bool = False) -> str:
        """Make a database and return its name."""
        if with_tables and not self._template:
            template = self.create_database()
            _make_tables(url(self, template))
            self._template = template
        name = next(self._names)
        like = f" TEMPLATE {self._template}" if with_tables else ""
        self.execute(f"CREATE DATABASE {name} OWNER {_OWNER}{like}")
        return name

    def drop_database(self, name: str) -> None:
        """Remove it with all connections to it."""
        self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


class MariadbServer:
    """A MariaDB below `folder`, whose tables have no more room than `data_file` lets them have."""

    scheme = "mariadb"

    def __init__(self, folder: Path, data_file: str = "ibdata1:12M:autoextend") -> None:
        self.folder = folder
        self._data_file = data_file
        self.log = folder / "mariadb.log"
        self.password = secrets.token_hex(8)
        self.port = free_port()
        self.certificate, self._key = certificate(folder)
        self._names = (f"test_{n}" for n in itertools.count(1))
        self._tables: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        subprocess.run(
            (
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={folder / 'data'}",
                f"--user={server_user()}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
                "--skip-name-resolve",
                "--force",
            ),
            check=True,
            capture_output=True,
            cwd="/",
            env=environment_of(folder),
        )
        self.start()

    def start(self) -> None:
        """Start, or start again; returns when it answers."""
        accounts = "\n".join(
            (
                f"CREATE OR REPLACE USER admin@'{HOST}' IDENTIFIED BY '{self.password}';",
                f"GRANT ALL ON *.* TO admin@'{HOST}' WITH GRANT OPTION;",
                f"CREATE OR REPLACE USER {_OWNER}@'{HOST}' IDENTIFIED BY '{self.password}';",
                f"GRANT ALL ON `test\\_%`.* TO {_OWNER}@'{HOST}' WITH GRANT OPTION;",
                f"GRANT CREATE USER ON *.* TO {_OWNER}@'{HOST}';",
                "DROP USER IF EXISTS root@localhost;",
            )
        )
        self._process = spawn(
            (
                shutil.which("mariadbd") or "/usr/sbin/mariadbd",
                "--no-defaults",
                f"--datadir={self.folder / 'data'}",
                f"--socket={self.folder / 'socket'}",
                f"--init-file={private_file(self.folder / 'accounts.sql', accounts)}",
                f"--bind-address={HOST}",
                f"--port={self.port}",
                f"--ssl-cert={self.certificate}",
                f"--ssl-key={self._key}",
                "--skip-name-resolve",
                "--skip-log-bin",
                "--performance-schema=OFF",
                "--innodb-buffer-pool-size=64M",
                "--sync-frm=OFF",
                "--innodb-file-per-table=OFF",
                f"--innodb-data-file-path={self._data_file}",
                "--innodb-flush-method=nosync",
                "--innodb-flush-log-at-trx-commit=2",
            ),
            self.log,
        )
        wait_until_it_answers(
            lambda: self.execute("SELECT 1"), self._process, pymysql.err.OperationalError, self.log
        )

    def kill(self) -> None:
        """kill -9 of all its processes."""
        assert self._process is not None
        kill_all(self._process)

    def standing_still(self) -> contextlib.AbstractContextManager[None]:
        """It hangs during the block."""
        assert self._process is not None
        return standing_still(self._process)

    def stop(self) -> None:
        """End it at once, and wait for that: it is a single process."""
        self.kill()

    def execute(
        self, *statements: str, database: str = "", user: str = "admin"
    ) -> list[tuple[Any, ...]]:
        """Run statements as `user`, admin or gsched; the rows that the last one gives."""
        with (
            contextlib.closing(
                pymysql.connect(
                    host=HOST,
                    port=self.port,
                    user=user,
                    password=self.password,
                    database=database or None,
                    autocommit=True,
                )
            ) as conn,
            conn.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def create_database(self, *, with_tables: bool = False) -> str:
        """Make a database and return its name. MariaDB knows no templates: DDL is run again."""
        if with_tables and not self._tables:
            template = self.create_database()
            _make_tables(url(self, template))
            self._tables = self._definition(template)
        name = next(self._names)
        self.execute(f"CREATE DATABASE {name}")
        if with_tables:
            self.execute(*self._tables, database=name)
        return name

    def drop_database(self, name: str) -> None:
        """Remove it with all connections to it."""
        query = f"SELECT id FROM information_schema.processlist WHERE db LIKE '{name}%'"
        for (connection,) in self.execute(query):
            with contextlib.suppress(pymysql.err.OperationalError):  # it has gone by itself
                self.execute(f"KILL {connection}")
        self.execute(f"DROP DATABASE IF EXISTS {name}_reader", f"DROP DATABASE IF EXISTS {name}")

    def _definition(self, template: str) -> list[str]:
        statements = ["SET foreign_key_checks = 0"]
        for (table,) in self.execute("SHOW TABLES", database=template):
            made = self.execute(f"SHOW CREATE TABLE `{table}`", database=template)
            statements.append(str(made[0][1]))
        return [
            *statements,
            f"INSERT INTO alembic_version SELECT * FROM {template}.alembic_version",
        ]


Server = PostgresServer | MariadbServer

# -- fixtures --------------------------------------------------------------------------------------


@contextlib.contextmanager
def started(
    kind: type[PostgresServer] | type[MariadbServer], *, below: str = "", **options: str
) -> Iterator[Any]:
    """A server of its own for a with-block, for tests that kill it; its data lie `below`."""
    with server_folder(below or fast_folder()) as folder:
        server = kind(folder, **options)
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The PostgreSQL of this session; a test that kills it has to use `started`."""
    with started(PostgresServer) as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariadbServer]:
    """The MariaDB of this session; a test that kills it has to use `started`."""
    with started(MariadbServer) as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty database on PostgreSQL."""
    with _database(postgres_server) as found:
        yield found


@pytest.fixture
def mariadb_url(mariadb_server: MariadbServer) -> Iterator[str]:
    """An empty database on MariaDB."""
    with _database(mariadb_server) as found:
        yield found


@pytest.fixture(params=ENGINES)
def empty_database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty database (of SQLite: none yet) on each engine in turn."""
    with database_on(request.param, request, with_tables=False) as found:
        yield found


@pytest.fixture(params=ENGINES)
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """A database with gsched's tables and no rows on each engine in turn."""
    with database_on(request.param, request) as found:
        yield found


@contextlib.contextmanager
def database_on(
    engine: str, request: pytest.FixtureRequest, *, with_tables: bool = True
) -> Iterator[str]:
    """A database of one of ENGINES, for a fixture."""
    if engine == "sqlite":
        path = request.getfixturevalue("tmp_path") / "history.db"
        if with_tables:
            shutil.copy(request.getfixturevalue("sqlite_template"), path)
        yield f"sqlite:///{path}"
    else:
        kinds = {"postgresql": "postgres_server", "mariadb": "mariadb_server"}
        server = request.getfixturevalue(kinds[engine])
        with _database(server, with_tables=with_tables) as found:
            yield found


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with gsched's tables and no rows, to copy."""
    path = tmp_path_factory.mktemp("template") / "history.db"
    _make_tables(f"sqlite:///{path}")
    return path


@contextlib.contextmanager
def _database(server: Server, *, with_tables: bool = False) -> Iterator[str]:
    name = server.create_database(with_tables=with_tables)
    try:
        yield url(server, name)
    finally:
        server.drop_database(name)


def _make_tables(database: str) -> None:
    from gsched_sql import History

    History.create(database)
