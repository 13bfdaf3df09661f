"""Database URLs: what may stand in them, where a password comes from, how they are shown."""

from __future__ import annotations

import configparser
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from gsched.errors import ConfigError
from gsched.secret_files import read_secret

_DRIVERS = {
    "sqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mariadb": "mariadb+pymysql",
}
_EXAMPLE = "write sqlite:////var/lib/gsched/history.db"
_ESCAPES = "in a password, write @ as %40, : as %3A and / as %2F"
_SHOWN_OPTIONS = ("host", "unix_socket")


def parse(url: str) -> URL:
    """The URL with its driver and, for a server, its password where gsched is told one.

    `password_file` among the options names a file that holds it; without it, MariaDB's comes from
    ~/.my.cnf. (PostgreSQL's library looks into ~/.pgpass by itself.) Raises ConfigError for what
    is no URL or names another kind of database, and as ``gsched.secret_files.read_secret`` does. No
    error shows a password.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigError(
            "the database URL is not one",
            f"{_EXAMPLE}, or postgresql://USER@HOST/DATABASE; {_ESCAPES}",
        ) from None
    driver = _DRIVERS.get(parsed.drivername, parsed.drivername)
    if driver not in _DRIVERS.values():
        is_mysql = parsed.get_backend_name() == "mysql"
        raise ConfigError(
            f"the database URL names an unknown kind of database: {parsed.drivername}",
            "for a MariaDB write mariadb://USER@HOST/DATABASE; MySQL lacks what gsched needs"
            if is_mysql
            else "gsched works with sqlite, postgresql and mariadb",
        )
    parsed = parsed.set(drivername=driver)
    if driver == "sqlite":
        return parsed
    if url.count("@") > 1:  # what stands before and behind the first may be parts of a password
        raise ConfigError("the database URL has several @, and only one may stand there", _ESCAPES)
    return _with_password(_with_database(parsed))


def location(url: URL) -> str:
    """How messages name a database: the file, or the URL without password and options."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    shown = {name: url.query[name] for name in _SHOWN_OPTIONS if name in url.query}
    return URL.create(
        url.get_backend_name(), url.username, None, url.host, url.port, url.database, shown
    ).render_as_string()


def _with_database(url: URL) -> URL:
    if not url.database:
        raise ConfigError(
            f"the database URL names no database: {location(url)}",
            f"write {url.get_backend_name()}://USER@HOST/DATABASE",
        )
    return url


def _with_password(url: URL) -> URL:
    named = url.query.get("password_file")
    url = url.difference_update_query(["password_file"])
    if named is None:
        is_mariadb = url.get_backend_name() == "mariadb"
        return url.set(password=_of_my_cnf()) if is_mariadb and url.password is None else url
    if url.password is not None:
        raise ConfigError(
            "a password stands in the database URL and password_file names another",
            "leave it out of the URL",
        )
    path = Path(str(named))
    if not path.is_absolute():
        raise ConfigError(f"password_file must be an absolute path, not {named}")
    password = read_secret(path).split("\n", 1)[0].rstrip("\r")
    if not password:
        raise ConfigError(f"the first line of {path} should be a password and is empty")
    return url.set(password=password)


def _of_my_cnf() -> str | None:
    """`password` of the group [client] in the user's own file for MariaDB's clients."""
    try:
        path = Path("~/.my.cnf").expanduser()
    except RuntimeError:  # a user without a home
        return None
    if not path.is_file():
        return None
    lines = read_secret(path).splitlines()
    parser = configparser.RawConfigParser(allow_no_value=True, strict=False)
    try:
        parser.read_string("\n".join(line for line in lines if not line.startswith("!")))
    except configparser.Error:
        raise ConfigError(
            f"{path} is not understood", "name a password_file in [database]"
        ) from None
    password = parser.get("client", "password", fallback=None)
    return None if password is None else password.strip("'\"")
