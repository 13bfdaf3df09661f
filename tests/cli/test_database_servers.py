"""`gsched db` on a PostgreSQL or MariaDB: words, exit codes, and nobody sees the password."""

from __future__ import annotations

import json

import pytest
from support.history import attempt, batch, url_of
from support.servers import url

from gsched_sql import History


@pytest.fixture(params=["postgres", "mariadb"])
def server(request):
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def name(server):
    made = server.create_database()
    yield made
    server.drop_database(made)


@pytest.fixture
def configured(gsched, environment, tmp_path, server, name):
    """gsched, told of the server by a configuration that everybody may read."""
    secret = tmp_path / "password"
    secret.write_text(server.password + "\n")
    secret.chmod(0o600)
    config = tmp_path / "gsched.toml"
    location = url(server, name, password="").replace(":@", "@")
    config.write_text(f"[database]\nurl = '{location}'\npassword_file = '{secret}'\n")
    environment["GSCHED_CONFIG"] = str(config)
    return gsched


def test_init_on_a_server_with_roles(configured, server, name):
    answer = configured("db", "init")
    assert (answer.returncode, answer.stdout) == (0, "")
    assert f"made {server.scheme}://gsched@127.0.0.1:{server.port}/{name} (schema" in answer.stderr
    document = json.loads(configured("db", "init", "--with-roles", "--json").stdout)
    assert document["schema_before"] == document["schema"]
    assert document["roles"] == ["gsched_reader", "gsched_auditor", "gsched_writer"]
    readers = f"{name}_reader" if server.scheme == "mariadb" else name
    assert document["reader_database"] == readers
    assert configured("db", "stats").returncode == 0


def test_roles_are_refused_for_a_file(gsched, tmp_path):
    answer = gsched("db", "init", "--with-roles")
    assert answer.returncode == 78
    assert "one user and no roles" in answer.stderr


@pytest.mark.parametrize("debug", ["", "1"])
def test_no_answer_shows_the_password(configured, environment, tmp_path, server, debug):
    configured("db", "init")
    environment["GSCHED_DEBUG"] = debug
    asked = [configured("db", "stats", "--json"), configured("doctor")]
    (tmp_path / "password").write_text("Tr0ub4dor\n")
    refused = configured("db", "stats")
    (tmp_path / "password").chmod(0o644)
    exposed = configured("db", "stats")
    config = tmp_path / "gsched.toml"
    config.write_text(config.read_text().replace(f":{server.port}/", ":1/"))
    (tmp_path / "password").chmod(0o600)
    gone = configured("db", "stats")
    assert (refused.returncode, exposed.returncode, gone.returncode) == (77, 78, 69)
    assert "does not let this user in" in refused.stderr
    assert "everybody may read it" in exposed.stderr
    assert "cannot be reached" in gone.stderr
    for answer in (*asked, refused, exposed, gone):
        assert server.password not in answer.stdout + answer.stderr
        assert "Tr0ub4dor" not in answer.stdout + answer.stderr
    assert ("Traceback" in refused.stderr) == bool(debug)


def test_the_history_of_a_reader(configured, environment, tmp_path, server, name):
    configured("db", "init", "--with-roles")
    with History.open(url_of(url(server, name))) as history:
        history.ingest(batch(attempt(1), attempt(2, user="bob")), source_key=None)
    if server.scheme == "postgresql":
        made = [f"CREATE ROLE alice LOGIN PASSWORD '{server.password}'"]
    else:
        made = [f"CREATE USER alice IDENTIFIED BY '{server.password}'"]
    server.execute(*made, "GRANT gsched_reader TO alice", user="gsched")
    if server.scheme == "mariadb":
        server.execute("SET DEFAULT ROLE gsched_reader FOR alice")
        name += "_reader"
    try:
        environment["GSCHED_DATABASE_URL"] = (
            f"{server.scheme}://alice@127.0.0.1:{server.port}/{name}"
        )
        document = json.loads(configured("history", "-S", "1970-01-01", "--json").stdout)
        refused = configured("db", "init", "--with-roles")
    finally:
        server.execute("DROP USER alice")
    assert "bob" not in json.dumps(document)
    assert [job["job"] for job in document["jobs"]] == ["1"]
    assert refused.returncode == 77
