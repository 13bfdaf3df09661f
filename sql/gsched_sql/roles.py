"""Roles on a server: readers who see their own rows, auditors who see all, writers of rows.

PostgreSQL keeps each reader to his rows by row-level security. MariaDB has none: there readers are
let into a second database alone, whose views have the names of the tables, so that the same gsched
works on them.

Who asks is known by the name of the login: it must be the user's name in Slurm.

Roles are a whole server's, and have the same names for each database there: a role lets its logins
into every gsched database of the server.

What PostgreSQL hides can still be guessed at: a condition by a leakproof operator (``=`` on names)
meets the hidden rows, and EXPLAIN counts how many it took out or expects to. MariaDB explains no
view to whoever may not read the tables below it.
"""
# ruff: noqa: S608 - of what comes from outside only names of databases, quoted, are in these texts

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sqlalchemy import Connection, inspect

from gsched.errors import ConfigError, PermissionDeniedError
from gsched_sql.failures import translated
from gsched_sql.row_rules import rules
from gsched_sql.schema import metadata
from gsched_sql.stored_tables import KNOWN
from gsched_sql.urls import location

READER = "gsched_reader"
AUDITOR = "gsched_auditor"
WRITER = "gsched_writer"
ROLES = (READER, AUDITOR, WRITER)
VERSION_TABLE = "alembic_version"

_OWN = "gsched_own"
_EVERY = "gsched_all"
_FENCED_IN_POSTGRES = (
    "SELECT 1 FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace "
    f"AND c.relname IN ({', '.join(repr(name) for name in sorted(KNOWN))}) "
    "AND row_security_active(c.oid) AND NOT EXISTS ("
    "SELECT 1 FROM pg_policy p JOIN pg_roles r ON r.oid = ANY (p.polroles) "
    f"WHERE p.polrelid = c.oid AND p.polname = '{_EVERY}' AND pg_has_role(r.oid, 'USAGE'))"
)
_VIEWS_OF_READERS = (
    "SELECT 1 FROM information_schema.views "
    f"WHERE table_schema = DATABASE() AND table_name = '{VERSION_TABLE}'"
)
_RIGHTS = {
    "postgresql": (
        "the login of gsched has to own the tables and needs CREATEROLE: let the server's "
        "administrator run ALTER ROLE gsched CREATEROLE"
    ),
    "mariadb": (
        "the login of gsched needs CREATE USER on *.* and, WITH GRANT OPTION, ALL on {base}.* and "
        "on {views}.*: let the server's administrator grant them"
    ),
}
"""What `grant` needs, by server."""
_LIMIT = 2**64 - 1

# The key of a name in `users`: SHA-256 of the length of the name and the name (text_digest).
_POSTGRES_DIGEST = (
    "encode(sha256(int8send(octet_length(current_user::text)::bigint) || "
    "convert_to(current_user::text, 'UTF8')), 'hex')"
)
# The login is USER() without its host, which stands behind the last @. CURRENT_USER() would be the
# one who made the view.
_MARIADB_LOGIN = "LEFT(USER(), CHAR_LENGTH(USER()) - LOCATE('@', REVERSE(USER())))"
_MARIADB_DIGEST = (
    f"SHA2(CONCAT(UNHEX(LPAD(HEX(OCTET_LENGTH({_MARIADB_LOGIN})), 16, '0')), {_MARIADB_LOGIN}), "
    "256)"
)


def sees_all_rows(conn: Connection) -> bool:
    """Whether this login is shown all rows of gsched's tables, not only those of its user."""
    query = {"postgresql": _FENCED_IN_POSTGRES, "mariadb": _VIEWS_OF_READERS}.get(conn.dialect.name)
    return not query or conn.exec_driver_sql(query).first() is None


def see_all_rows(conn: Connection) -> None:
    """Raise PermissionDeniedError for whoever sees only some of the rows of gsched's tables."""
    if not sees_all_rows(conn):
        raise PermissionDeniedError(
            f"{location(conn.engine.url)} shows this login only the rows of its own user "
            "(row-level permission)",
            f"use the login that owns the tables, or one in the role {AUDITOR}, on the database "
            "itself" + (", not its readers' one" if conn.dialect.name == "mariadb" else ""),
        )


def are_there(conn: Connection) -> bool:
    """Whether `grant` has been called for this database."""
    if conn.dialect.name == "postgresql":  # where tables are made anew, the database remembers
        query = (
            "SELECT 1 FROM pg_database d, aclexplode(d.datacl) a JOIN pg_roles r "
            "ON r.oid = a.grantee WHERE d.datname = current_database() "
            f"AND r.rolname = '{READER}' UNION ALL "
            f"SELECT 1 FROM pg_policies WHERE policyname = '{_EVERY}'"
        )
    elif conn.dialect.name == "mariadb":
        query = (
            "SELECT 1 FROM information_schema.views "
            f"WHERE table_schema = {_literal(reader_database(conn))}"
        )
    else:
        return False
    return conn.exec_driver_sql(query).first() is not None


def grant(conn: Connection) -> None:
    """Make the roles with their rights to every table; does nothing anew that stands.

    Needs the owner of the tables; who makes the roles needs CREATEROLE (PostgreSQL), CREATE USER
    and the right to the database of readers (MariaDB), and may grant them. Raises ConfigError for
    SQLite, PermissionDeniedError that names the rights.
    """
    if conn.dialect.name == "sqlite":
        raise ConfigError(
            "an SQLite history has one user and no roles",
            "name a PostgreSQL or MariaDB server in [database]",
        )
    engine = conn.dialect.name
    statements = _for_postgres if engine == "postgresql" else _for_mariadb
    try:
        with translated(conn.engine.url):
            for statement in statements(conn):
                conn.exec_driver_sql(statement)
    except PermissionDeniedError as e:
        names = {"base": str(conn.engine.url.database), "views": reader_database(conn)}
        raise PermissionDeniedError(e.message, _RIGHTS[engine].format(**names)) from e


def withdraw(conn: Connection) -> None:
    """Before tables change: take off the rules that refer to them. `grant` brings them back."""
    if conn.dialect.name == "postgresql":
        query = f"SELECT tablename FROM pg_policies WHERE policyname = '{_OWN}'"
        for table in conn.exec_driver_sql(query).scalars().all():
            conn.exec_driver_sql(f"DROP POLICY {_OWN} ON {_quoted(conn, table)}")


def reader_database(conn: Connection) -> str:
    """The database that readers name in their URL."""
    database = str(conn.engine.url.database)
    return f"{database}_reader" if conn.dialect.name == "mariadb" else database


def _quoted(conn: Connection, name: str) -> str:
    return conn.dialect.identifier_preparer.quote_identifier(name)


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def _rules(engine: str, digest: str, schema: str) -> Mapping[str, str]:
    """Table → condition, for every table."""
    me = f"(SELECT u.id FROM {schema}users u WHERE u.name_digest = {digest})"
    told = rules(engine)
    return {
        table: told[table].format(me=me, my_digest=digest, schema=schema)
        for table in (VERSION_TABLE, *(table.name for table in metadata.sorted_tables))
    }


def _rights_of_writer(table: str) -> str:
    return "SELECT" if table == VERSION_TABLE else "SELECT, INSERT, UPDATE, DELETE"


def _for_postgres(conn: Connection) -> Iterator[str]:
    schema = str(conn.exec_driver_sql("SELECT current_schema()").scalar())
    there = set(conn.exec_driver_sql("SELECT rolname FROM pg_roles").scalars())
    yield from (f"CREATE ROLE {role} NOLOGIN" for role in ROLES if role not in there)
    database = str(conn.engine.url.database)
    yield f"GRANT CONNECT ON DATABASE {_quoted(conn, database)} TO {', '.join(ROLES)}"
    yield f"GRANT USAGE ON SCHEMA {_quoted(conn, schema)} TO {', '.join(ROLES)}"
    for table, rule in _rules("postgresql", _POSTGRES_DIGEST, "").items():
        yield f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY"
        yield f"DROP POLICY IF EXISTS {_OWN} ON {table}"
        yield f"CREATE POLICY {_OWN} ON {table} FOR SELECT TO {READER} USING ({rule})"
        yield f"DROP POLICY IF EXISTS {_EVERY} ON {table}"
        yield f"CREATE POLICY {_EVERY} ON {table} TO {AUDITOR}, {WRITER} USING (true)"
        yield f"GRANT SELECT ON {table} TO {READER}, {AUDITOR}"
        yield f"GRANT {_rights_of_writer(table)} ON {table} TO {WRITER}"
    yield from (
        f"GRANT USAGE, UPDATE ON SEQUENCE {_quoted(conn, name)} TO {WRITER}"
        for name in inspect(conn).get_sequence_names()
    )


def _for_mariadb(conn: Connection) -> Iterator[str]:
    # Whoever makes a role is its administrator; a server's own grants it once he is let in.
    yield from (f"CREATE ROLE IF NOT EXISTS {role}" for role in ROLES)
    base = _quoted(conn, str(conn.engine.url.database))
    views = _quoted(conn, reader_database(conn))
    yield f"CREATE DATABASE IF NOT EXISTS {views}"
    for table, rule in _rules("mariadb", _MARIADB_DIGEST, f"{base}.").items():
        # The limit keeps a reader's own conditions out of the view: put inside, they would meet
        # other users' rows, and could tell of them by an error or by the time they take.
        yield (
            "CREATE OR REPLACE ALGORITHM = TEMPTABLE SQL SECURITY DEFINER "
            f"VIEW {views}.{table} AS SELECT * FROM {base}.{table} WHERE {rule} LIMIT {_LIMIT}"
        )
        yield f"GRANT SELECT ON {views}.{table} TO {READER}"
        yield f"GRANT SELECT ON {base}.{table} TO {AUDITOR}"
        yield f"GRANT {_rights_of_writer(table)} ON {base}.{table} TO {WRITER}"
