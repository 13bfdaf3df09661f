"""URLs of databases: their drivers, where passwords come from, and that nobody sees these."""

from __future__ import annotations

import os
import traceback
from urllib.parse import quote

import pytest

from gsched import secret_files
from gsched.errors import ConfigError, PermissionDeniedError
from gsched_sql.urls import location, parse

URL = "postgresql://gsched@db.example:5433/history"


@pytest.fixture
def secret_file(tmp_path):
    path = tmp_path / "pass word"
    path.write_text("s3cret\nsecond line\n")
    path.chmod(0o600)
    return path


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("sqlite:////srv/history.db", "sqlite"),
        (URL, "postgresql+psycopg"),
        ("postgres://db/history", "postgresql+psycopg"),
        ("postgresql+psycopg://db/history", "postgresql+psycopg"),
        ("mariadb://db/history", "mariadb+pymysql"),
    ],
)
def test_the_friendly_names_of_databases(url, driver):
    assert parse(url).drivername == driver


@pytest.mark.parametrize(
    ("url", "message", "hint"),
    [
        ("mysql://db/history", "unknown kind of database: mysql", "mariadb://USER@HOST/DATABASE"),
        ("postgresql+psycopg2://db/h", "unknown kind .* postgresql.psycopg2", "gsched works with"),
        ("mariadb://db.example", "names no database: mariadb://db.example", "HOST/DATABASE"),
        ("postgresql//u:secret@db/history", "the database URL is not one", "%2F"),
        ("postgresql://u:secret@db:port/history", "the database URL is not one", "%2F"),
    ],
)
def test_what_gsched_cannot_use_is_refused_with_what_to_write(url, message, hint):
    with pytest.raises(ConfigError, match=message) as caught:
        parse(url)
    assert hint in caught.value.hint
    assert "cret" not in caught.value.message + caught.value.hint
    assert "cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "password", ["hun@Geh/eim42", "hun/Geh@eim42", "hun@Geh:eim42", "hun@Geh?eim42", "@Geh@eim"]
)
@pytest.mark.parametrize("rest", ["@db/history", "@db:5433/history?connect_timeout=3", "@db"])
def test_no_part_of_a_password_that_is_written_raw_is_shown(password, rest):
    for scheme in ("postgresql", "mariadb"):
        with pytest.raises(ConfigError, match=r"several @|is not one") as caught:
            parse(f"{scheme}://gsched:{password}{rest}")
        shown = caught.value.message + caught.value.hint
        assert "@ as %40" in caught.value.hint
        shown += "".join(traceback.format_exception(caught.value))
        assert not any(part in shown for part in ("hun", "Geh", "eim"))
    quoted = quote(password, safe="")
    assert parse(f"postgresql://gsched:{quoted}@db/history").password == password


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o400, 0o440])
def test_a_password_comes_from_its_file(secret_file, mode):
    secret_file.chmod(mode)
    parsed = parse(f"{URL}?sslmode=require&password_file={secret_file}")
    assert parsed.password == "s3cret"
    assert dict(parsed.query) == {"sslmode": "require"}


@pytest.mark.parametrize(
    ("mode", "why"),
    [(0o644, "everybody may read it"), (0o660, "others may write it"), (0o602, "others may write")],
)
def test_a_password_that_others_may_see_or_change_is_not_used(secret_file, mode, why):
    secret_file.chmod(mode)
    with pytest.raises(ConfigError, match=why) as caught:
        parse(f"{URL}?password_file={secret_file}")
    assert f"chmod 600 {secret_file}" in caught.value.hint


def test_a_password_of_another_user_is_not_used(secret_file, monkeypatch):
    os.chown(secret_file, 7, -1) if os.geteuid() == 0 else None
    monkeypatch.setattr(secret_files.os, "geteuid", lambda: 4242)
    with pytest.raises(ConfigError, match="belongs to another user"):
        parse(f"{URL}?password_file={secret_file}")


def test_root_may_own_what_a_service_reads(secret_file, monkeypatch):
    monkeypatch.setattr(secret_files.os, "geteuid", lambda: 4242)
    status = os.stat_result((0o100640, 1, 1, 1, 0, 4242, 7, 0, 0, 0))
    assert secret_files.why_exposed(status) == ""


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path.unlink(), "cannot read .*: No such file"),
        (lambda path: path.write_text("\nsecond"), "the first line .* is empty"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "not UTF-8"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot read .*: Is a directory"),
    ],
)
def test_a_file_without_a_password_is_named(secret_file, make, message):
    make(secret_file)
    with pytest.raises(ConfigError, match=message) as caught:
        parse(f"{URL}?password_file={secret_file}")
    assert str(secret_file) in caught.value.message


def test_a_file_that_may_not_be_read_is_a_lack_of_permission(secret_file):
    user = os.geteuid()
    secret_file.chmod(0)
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionDeniedError):
            parse(f"{URL}?password_file={secret_file}")
    finally:
        os.seteuid(user)


def test_two_passwords_are_one_too_many(secret_file):
    with pytest.raises(ConfigError, match="password_file names another") as caught:
        parse(f"postgresql://gsched:other@db/history?password_file={secret_file}")
    assert "other@" not in caught.value.message
    with pytest.raises(ConfigError, match="absolute path"):
        parse(f"{URL}?password_file=relative")


def test_mariadb_takes_the_password_of_the_clients_own_file(tmp_path):
    path = tmp_path / "home" / ".my.cnf"
    path.write_text(
        "!includedir /etc/mysql/conf.d\n[mysqld]\nport=1\n[client]\nskip-ssl\npassword='p w#1'\n"
    )
    path.chmod(0o600)
    assert parse("mariadb://gsched@db/history").password == "p w#1"
    assert parse("mariadb://gsched:own@db/history").password == "own"
    assert parse(URL).password is None  # PostgreSQL's library looks for ~/.pgpass itself
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="everybody may read it"):
        parse("mariadb://gsched@db/history")
    path.chmod(0o600)
    path.write_text("password before any group\n")
    with pytest.raises(ConfigError, match="not understood"):
        parse("mariadb://gsched@db/history")


def test_a_database_is_shown_without_password_and_options():
    url = parse("postgresql://gsched:s3cret@db:5433/history?sslpassword=k3y&host=/run/postgresql")
    assert location(url) == "postgresql://gsched@db:5433/history?host=%2Frun%2Fpostgresql"
    assert location(parse("mariadb://gsched:s3cret@db/history")) == "mariadb://gsched@db/history"
    assert location(parse("sqlite:////srv/history.db")) == "/srv/history.db"
