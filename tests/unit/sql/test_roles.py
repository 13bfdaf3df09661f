"""Roles on real servers: readers see their own rows and nothing else, writers change no tables."""

from __future__ import annotations

import contextlib
import re
import secrets
from dataclasses import replace

import pytest
from sqlalchemy import MetaData
from support.history import CLUSTER, attempt, batch, scalar, select
from support.servers import url
from support.whole_history import target

from gsched.errors import ConfigError, GschedError, PermissionDeniedError
from gsched.model.accounts import FairnessEntry, SiteQuotas
from gsched.model.decision import Reason
from gsched.model.history import Reject, Tres
from gsched.model.job import JobKey, Prediction, PredictionKind, Wants
from gsched.model.journal import Change, ChangeState, RoundInfo
from gsched.model.node_power import (
    NodeOrder,
    NodeVerb,
    PoolCount,
    PowerCause,
    PowerPhase,
    PowerSpan,
    WakeDelay,
)
from gsched.model.past import HistoryFilter
from gsched.model.phases import NO_RULES
from gsched.model.target_records import TargetEvent
from gsched.model.user_request import UserRequest
from gsched_sql import History, maintenance, migrate, roles
from gsched_sql.engine import open_engine, reading, writing
from gsched_sql.row_rules import rules
from gsched_sql.schema import metadata
from gsched_sql.urls import parse

PASSWORD = secrets.token_hex(8)
NOW = 1_800_000_000
BOB = {
    "user": "bob",
    "tenant": "bobs lab",
    "partition": "bobs partition",
    "qos": "bobs qos",
    "name": "bobs secret project",
    "node_list": "bobsnode1",
    "allocated": (Tres("gres/bobs", 3),),
}
TEXTS = ("tenants", "partitions", "qos", "job_names", "name_groups", "node_lists", "tres_lists")


@pytest.fixture(params=["postgres", "mariadb"])
def server(request):
    return request.getfixturevalue(f"{request.param}_server")


@pytest.fixture
def database(server):
    """A database with roles, in which alice, bob and the daemon have left rows."""
    name = server.create_database(with_tables=True)
    location = url(server, name)
    with History.open(location) as history:
        fill(history)
    made = History.create(location, with_roles=True)
    assert made.roles == roles.ROLES
    yield location
    server.drop_database(name)


def fill(history):
    history.ingest(
        batch(
            attempt(1, 1000),
            attempt(2, 2000, **BOB),
            attempt(3, 3000),
            rejects=[Reject("sacct", 1, "why", "bobs raw row")],
            cursor="bobs file",
        ),
        source_key="bobs source",
    )
    entries = [FairnessEntry(CLUSTER, t, 0, 60, 1.0, 2.0, 3.0, 0.0) for t in ("lab1", "bobs lab")]
    history.fairness().keep(entries)
    quotas = {"lab1": 6.0, "bobs lab": 2.0}
    history.fairness().note(CLUSTER, 5000, SiteQuotas(quotas, 8.0, "limits", {"a100": 2.0}))
    journal = history.journal()
    journal.begin_round(RoundInfo("r1", CLUSTER, 5000, "qssf", True, 1, "m"))
    for number, user in ((1, "alice"), (2, "bob")):
        key = JobKey(CLUSTER, number, epoch=1000 * number)
        change = Change(f"r1/{user}", key, key.epoch, "site-factor", 0, number, Reason(user))
        journal.record("r1", [change], ChangeState.INTENT, 5000)
        prediction = Prediction(PredictionKind.DURATION, 1.0, ((0.5, 1.0),), user, "m", 1, 1)
        journal.record_predictions([(key, key.epoch, prediction)], 5000)
        request = UserRequest(key, user, f"token of {user}", Wants(shareable=True), 5000)
        history.request_store().capture([request])
        record = replace(target(), key=key, user=user)
        history.targets().keep(CLUSTER, [(record, [TargetEvent(1500, "standing")])])
    journal.end_round("r1", 5001, {"jobs": 2}, {"memory of": "the policy"})
    log, pool = history.power_log(CLUSTER), "a100x8@gpu"
    for number in (1, 2):
        reason = Reason("ces.wake", {"job": str(number)})
        order = NodeOrder(f"o{number}", "n1", pool, NodeVerb.WAKE, reason, 5000, 5060)
        log.record([order], ChangeState.INTENT)
        waking = PowerSpan(
            f"n{number}", pool, PowerPhase.WAKING, 5000, None, PowerCause.CES, "", str(number)
        )
        log.keep_spans([waking])
        log.keep_delays([WakeDelay(str(number), 1000 * number, pool, 1, 1000 * number, None)])
    log.keep_counts([PoolCount(pool, 5000, 1, 2, 3, 4, 5, 6, 7)])
    log.remember({"memory of": "CES"})


@contextlib.contextmanager
def login(server, user, role):
    """Make a login with a role, as a server's administrator does."""
    if server.scheme == "postgresql":
        made = (f"CREATE ROLE {user} LOGIN PASSWORD '{PASSWORD}'", f"GRANT {role} TO {user}")
        gone = (f"DROP ROLE {user}",)
    else:
        made = (
            f"CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT {role} TO {user}@'%'",
        )
        gone = (f"DROP USER {user}@'%'",)
    server.execute(*made, user="gsched")  # who made the roles may grant them
    if server.scheme == "mariadb":
        server.execute(f"SET DEFAULT ROLE {role} FOR {user}@'%'")
    try:
        yield
    finally:
        server.execute(*gone)


def readers_url(server, database, user):
    name = parse(database).database
    suffix = "_reader" if server.scheme == "mariadb" else ""
    return url(server, name + suffix, user, PASSWORD)


@pytest.fixture
def alice(server, database):
    """The URL by which alice, a reader, sees the database."""
    with login(server, "alice", roles.READER):
        yield readers_url(server, database, "alice")


def test_every_table_has_a_rule():
    for engine in ("postgresql", "mariadb"):
        assert set(rules(engine)) == {migrate.VERSION_TABLE, *metadata.tables}


def test_a_reader_lists_own_jobs_only(alice):
    with History.open(alice) as history:
        jobs = history.jobs(HistoryFilter())
        assert [(job.user, job.key.job_id, job.name) for job in jobs] == [
            ("alice", 3, "train"),
            ("alice", 1, "train"),
        ]
        assert all(job.tenant == "lab1" and job.attempts[0].node_list == "n1" for job in jobs)
        assert history.jobs(HistoryFilter(users=("bob",))) == []
        assert history.jobs(HistoryFilter(job_id=2)) == []
        assert history.rejects() == []
        assert {r.change.key.job_id for r in history.audit(CLUSTER)} == {1}
        assert {r.key.job_id for r in history.requests(CLUSTER)} == {1}
        stats = history.stats()
    assert (stats.rows["jobs"], stats.rows["attempts"], stats.states) == (2, 2, {"COMPLETED": 2})


def test_no_table_tells_a_reader_of_anybody_else(alice, database):
    """Every row of every table, as text: what is another user's stands in none."""
    engine = open_engine(alice)
    with reading(engine) as conn:
        seen = {
            table: [
                " ".join(str(value) for value in row)
                for row in conn.exec_driver_sql(f"SELECT * FROM {table}")
            ]
            for table in rules("postgresql")
        }
    engine.dispose()
    told = {table for table, rows in seen.items() if any("bob" in row for row in rows)}
    assert told == {"nodes"}  # sinfo has them
    assert all(len(seen[table]) == 1 for table in ("users", *TEXTS)), seen
    own = ("jobs", "attempts", "predictions", "prediction_quantiles", "actions", "requests")
    own += ("fairness_entries", "fairness_quotas", "wake_delays", "power_jobs")
    own += ("targets", "target_runs", "target_events")
    everything = {t: scalar(database, f"SELECT count(*) FROM {t}") for t in own}
    assert all(0 < len(seen[table]) < everything[table] for table in own)
    hidden = ("rejects", "ingest_cursors", "policy_memory", "power_memory", "series")
    for table in (*hidden, "sample_blocks"):
        assert seen[table] == [], table


def test_a_reader_sees_which_nodes_sleep_and_only_own_jobs_that_waited(alice):
    with History.open(alice) as history:
        log = history.power_log(CLUSTER)
        assert [d.job for d in log.delays(0, 9000)] == ["1"]
        jobs = [(e.order.order_id, e.order.reason.params["job"]) for e in log.orders(0, 9000)]
        assert jobs == [("o1", "1"), ("o2", "")]
        assert [(s.node, s.job) for s in log.open_spans()] == [("n1", "1"), ("n2", "")]
        assert [count.total for count in log.counts(0, 9000)] == [15]
        assert log.memory() == {}
        assert not history.sees_all_rows()


def test_a_readers_own_condition_that_can_tell_never_meets_other_rows(server, alice):
    """An error, or the time that it takes, would tell what stands in a row that is hidden."""
    guess = f"CASE WHEN name = '{BOB['name']}' THEN 1 ELSE 0 END"
    trap = {
        "postgresql": f"1 / (1 - {guess}) = 1",
        "mariadb": f"EXP(9999 * {guess}) = 1",
    }[server.scheme]
    assert select(alice, f"SELECT name FROM job_names WHERE {trap}") == [("train",)]
    joined = "FROM jobs JOIN (SELECT id AS i, name FROM job_names) n ON i = name_id"
    assert select(alice, f"SELECT name {joined} WHERE {trap}") == [("train",)] * 2
    with pytest.raises(GschedError, match=r"divi|range"):  # a row of his own does spring it
        select(alice, f"SELECT 1 FROM job_names WHERE {trap.replace(BOB['name'], 'train')}")


def test_postgresql_lets_a_reader_confirm_a_guess_and_mariadb_does_not(server, alice):
    """A limit that the pages tell of: leakproof conditions meet hidden rows, EXPLAIN counts."""

    def explained(name):
        rows = select(alice, f"EXPLAIN ANALYZE SELECT 1 FROM job_names WHERE name = '{name}'")
        plan = "".join(row[0] for row in rows if "Time:" not in row[0])
        return re.sub(r"(cost|time)=[\d.]+", "", plan.replace(name, "NAME"))

    if server.scheme == "postgresql":
        assert explained("no such") == explained("nor this") != explained(BOB["name"])
    else:
        with pytest.raises(GschedError):
            select(alice, "EXPLAIN SELECT 1 FROM job_names")
        tables = "SELECT DISTINCT table_schema FROM information_schema.tables"
        shown = {row[0] for row in select(alice, tables)}
        assert shown - {"information_schema", "performance_schema"} == {parse(alice).database}


def test_a_reader_writes_nothing(alice, database):
    for statement in (
        "INSERT INTO derivations (name, digest) VALUES ('x', 'y')",
        "UPDATE jobs SET state = 'FAILED'",
        "DELETE FROM attempts",
        "CREATE TABLE mine (x integer)",
        "DROP TABLE jobs",
    ):
        engine = open_engine(alice)
        with pytest.raises(PermissionDeniedError) as caught, writing(engine) as conn:
            conn.exec_driver_sql(statement)
        engine.dispose()
        assert caught.value.exit_code == 77
    assert select(database, "SELECT state FROM jobs") == [("COMPLETED",)] * 3
    assert scalar(database, "SELECT count(*) FROM attempts") == 3


def test_a_reader_gets_at_the_tables_by_no_other_way(server, alice, database):
    name = parse(database).database
    if server.scheme == "mariadb":
        with pytest.raises(PermissionDeniedError):
            History.open(url(server, name, "alice", PASSWORD))
        with pytest.raises(PermissionDeniedError):
            select(alice, f"SELECT * FROM {name}.jobs")
    else:
        for way in ("SET ROLE gsched_auditor", "SET SESSION AUTHORIZATION bob"):
            with pytest.raises((PermissionDeniedError, GschedError)):
                select(alice, way)
        hidden = "SELECT most_common_vals FROM pg_stats WHERE tablename = 'job_names'"
        server.execute("ANALYZE", database=name)
        assert select(alice, hidden) == []


def test_a_login_that_is_no_user_sees_no_jobs(server, database):
    with (
        login(server, "carol", roles.READER),
        History.open(readers_url(server, database, "carol")) as history,
    ):
        assert history.jobs(HistoryFilter()) == []


def test_an_auditor_sees_all_and_writes_nothing(server, database):
    with login(server, "olga", roles.AUDITOR):
        as_olga = url(server, parse(database).database, "olga", PASSWORD)
        with History.open(as_olga) as history:
            assert {job.user for job in history.jobs(HistoryFilter())} == {"alice", "bob"}
            assert history.rejects()
            with pytest.raises(PermissionDeniedError):
                history.ingest(batch(attempt(9)), source_key="s")


def test_a_writer_writes_rows_and_changes_no_tables(server, database):
    with login(server, "daemon", roles.WRITER):
        as_daemon = url(server, parse(database).database, "daemon", PASSWORD)
        with History.open(as_daemon) as history:
            summary = history.ingest(
                batch(attempt(1, 1000), attempt(9, name="new", user="dora")), source_key="s"
            )
            assert (summary.attempts_new, summary.unchanged) == (1, 1)
            journal = history.journal()
            journal.begin_round(RoundInfo("r2", CLUSTER, 6000, "qssf", True, 2, "m"))
            journal.end_round("r2", 6001, {}, {})
            assert history.leadership(CLUSTER).take("head", "machine", 1, 90, 0) == 1
            history.spans(CLUSTER).note("act", "qssf", 6001, 90)
            assert {job.user for job in history.jobs(HistoryFilter())} == {"alice", "bob", "dora"}
        for statement in (
            "DROP TABLE requests",
            "CREATE INDEX mine ON jobs (state)",
            "ALTER TABLE jobs ADD COLUMN mine integer",
            "UPDATE alembic_version SET version_num = '9999'",
            "TRUNCATE TABLE rejects",
        ):
            engine = open_engine(as_daemon)
            with pytest.raises(PermissionDeniedError), writing(engine) as conn:
                conn.exec_driver_sql(statement)
            engine.dispose()
    assert scalar(database, "SELECT count(*) FROM requests") == 2


@pytest.mark.parametrize("role", [roles.AUDITOR, roles.WRITER])
def test_auditors_and_writers_back_up_and_check(server, database, role, tmp_path):
    with login(server, "olga", role):
        as_olga = url(server, parse(database).database, "olga", PASSWORD)
        made = maintenance.backup(as_olga, tmp_path / "olgas.gsb")
        whole = maintenance.backup(database, tmp_path / "owners.gsb")
        assert (made.tables, made.rows) == (whole.tables, whole.rows)
        assert not maintenance.check(as_olga, NO_RULES, NOW).is_damaged


def test_a_reader_can_neither_back_up_nor_check(alice, tmp_path):
    for work in (
        lambda: maintenance.backup(alice, tmp_path / "b.gsb"),
        lambda: maintenance.check(alice, NO_RULES, NOW),
    ):
        with pytest.raises(PermissionDeniedError, match="only the rows of its own user") as caught:
            work()
        assert caught.value.exit_code == 77
        assert "gsched_auditor" in caught.value.hint
    assert not (tmp_path / "b.gsb").exists()


def test_a_table_that_the_roles_lack_is_no_empty_one_in_a_backup(postgres_server, tmp_path):
    """As when somebody has taken the rule of auditors off: rows would be missed."""
    name = postgres_server.create_database(with_tables=True)
    owners = url(postgres_server, name)
    History.create(owners, with_roles=True)
    postgres_server.execute("DROP POLICY gsched_all ON steps", database=name)
    with (
        login(postgres_server, "olga", roles.AUDITOR),
        pytest.raises(PermissionDeniedError, match="only the rows"),
    ):
        maintenance.backup(url(postgres_server, name, "olga", PASSWORD), tmp_path / "b.gsb")
    postgres_server.drop_database(name)


def test_a_writer_prunes(server, database):
    with login(server, "daemon", roles.WRITER):
        as_daemon = url(server, parse(database).database, "daemon", PASSWORD)
        done = maintenance.prune(as_daemon, 2500)
        assert (done.counts["jobs"], done.counts["actions"]) == (2, 2)
        assert done.texts_left == (server.scheme == "postgresql")
        assert not maintenance.check(as_daemon, NO_RULES, NOW).is_damaged
    assert scalar(database, "SELECT count(*) FROM jobs") == 1
    bobs = f"SELECT count(*) FROM job_names WHERE name = '{BOB['name']}'"
    assert scalar(database, bobs) == int(done.texts_left)
    assert not maintenance.prune(database, 2500).texts_left  # the owner takes the rest
    assert scalar(database, bobs) == 0


def test_whoever_made_a_role_can_let_an_administrator_grant_it(mariadb_server):
    """MariaDB asks even its root for that, by name."""
    name = mariadb_server.create_database(with_tables=True)
    History.create(url(mariadb_server, name), with_roles=True)
    mariadb_server.execute(
        "GRANT gsched_reader TO admin@'127.0.0.1' WITH ADMIN OPTION", user="gsched"
    )
    try:
        mariadb_server.execute(
            f"CREATE USER eve@'%' IDENTIFIED BY '{PASSWORD}'",
            "GRANT gsched_reader TO eve@'%'",
            "DROP USER eve@'%'",
        )
    finally:
        mariadb_server.execute("REVOKE gsched_reader FROM admin@'127.0.0.1'", user="gsched")
        mariadb_server.drop_database(name)


def test_who_may_not_make_roles_is_told_which_rights_that_needs(server, database):
    with login(server, "daemon", roles.WRITER):
        as_daemon = url(server, parse(database).database, "daemon", PASSWORD)
        with pytest.raises(PermissionDeniedError) as caught:
            History.create(as_daemon, with_roles=True)
    needed = {"postgresql": "CREATEROLE", "mariadb": "CREATE USER on *.*"}[server.scheme]
    assert needed in caught.value.hint


def test_roles_can_be_made_again_and_follow_new_tables(database, alice):
    again = History.create(database, with_roles=True)
    assert again.before == again.revision
    engine = open_engine(database)
    with writing(engine) as conn:
        assert roles.are_there(conn)
        roles.withdraw(conn)  # as before a migration
        assert roles.are_there(conn)
        migrate.settle(conn)
    engine.dispose()
    with History.open(alice) as history:
        assert len(history.jobs(HistoryFilter())) == 2


def test_roles_stay_where_all_tables_are_made_anew(database, alice):
    """As a restore does it."""
    engine = open_engine(database)
    with writing(engine) as conn:
        roles.withdraw(conn)
        there = MetaData()
        there.reflect(conn)
        there.drop_all(conn)
        migrate.run_migrations(conn)
        migrate.settle(conn)
    engine.dispose()
    with History.open(alice) as history:
        assert history.jobs(HistoryFilter()) == []


def test_a_writer_may_ask_whether_all_is_up_to_date(server, database):
    with login(server, "daemon", roles.WRITER):
        as_daemon = url(server, parse(database).database, "daemon", PASSWORD)
        assert not History.create(as_daemon).changed
        with pytest.raises(PermissionDeniedError):
            History.create(as_daemon, with_roles=True)


def test_sqlite_has_no_roles(tmp_path):
    with pytest.raises(ConfigError, match="one user and no roles") as caught:
        History.create(f"sqlite:///{tmp_path / 'history.db'}", with_roles=True)
    assert "PostgreSQL or MariaDB" in caught.value.hint
