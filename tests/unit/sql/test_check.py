"""`check` finds damage of every kind, each planted here, and calls a whole database sound."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from support.history import attempt, batch, url_of
from support.whole_history import fill

from gsched.errors import ConfigError
from gsched.model.jobid import parse_job_id
from gsched.model.past import HistoryFilter
from gsched.model.phases import NO_RULES, PhaseRule, PhaseRules
from gsched_sql import History, maintenance
from gsched_sql.engine import open_engine, writing
from gsched_sql.findings import KINDS, MAX_EXAMPLES

NOW = 1_800_000_000
HARMLESS = {"conflicts", "rejects"}
"""What `fill` has by intent."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory, sqlite_template):
    path = tmp_path_factory.mktemp("filled") / "history.db"
    shutil.copy(sqlite_template, path)
    fill(path)
    return path


@pytest.fixture
def sound(filled, tmp_path):
    """A database of this test's own in which nothing is wrong."""
    return shutil.copy(filled, tmp_path / "history.db")


def check(database, rules=NO_RULES):
    report = maintenance.check(url_of(database), rules, NOW)
    return report, {finding.kind: finding for finding in report.findings}


def plant(database, *statements):
    """Change rows by hand, foreign keys unheeded."""
    conn = sqlite3.connect(database, isolation_level=None)
    conn.execute("PRAGMA foreign_keys = OFF")
    for statement in statements:
        conn.execute(statement)
    conn.close()


def test_nothing_is_wrong_with_what_gsched_writes_on_any_engine(database_url):
    fill(database_url)
    report, found = check(database_url)
    assert not report.is_damaged
    assert found.keys() == HARMLESS
    assert report.rows["jobs"] == 32
    assert (found["rejects"].count, found["rejects"].examples) == (1, ("x: 1",))
    assert found["conflicts"].count == 3  # tenant, partition and signal of one attempt
    disputed = {example.rpartition(", of job ")[2] for example in found["conflicts"].examples}
    assert len(disputed) == 1
    with History.open(database_url) as history:
        wanted = HistoryFilter.of_job(parse_job_id(*disputed))
        assert history.jobs(wanted)  # as `gsched history -j` shows it


DAMAGE = {
    "schema": ["DROP INDEX ix_jobs_end_time"],
    "reference": ["DELETE FROM users WHERE id = 1"],
    "state": ["UPDATE attempts SET state = 'DANCING' WHERE id = 1"],
    "claims": ["UPDATE attempts SET claims = '{\"user\":' WHERE id = 1"],
    "audit": ["UPDATE actions SET state = 'sent' WHERE change_id = 'c1'"],
    "spans": ["UPDATE daemon_spans SET end_time = 5 WHERE mode = 'act'"],
    "json": ["UPDATE actions SET reason_params = '[' WHERE id = 1"],
    "job": ["UPDATE jobs SET gpu_time_s = gpu_time_s + 1 WHERE job_id = 100"],
    "no-attempts": ["DELETE FROM attempts WHERE job_id = 100"],
    "epoch": ["UPDATE predictions SET epoch = 999"],
    "digest": ["UPDATE users SET name = name || 'x' WHERE id = 1"],
    "parts": ["UPDATE tres_counts SET count = count + 1 WHERE position = 0"],
    "usage": [
        "INSERT INTO usage_days VALUES"
        " (1, 86400, 99, 0, 0, 'COMPLETED', '', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)"
    ],
    "samples": ["UPDATE sample_blocks SET samples = x'789c'"],
    "power": ["UPDATE node_orders SET verb = 'dance' WHERE order_id = 'w1'"],
    "fairness": ["UPDATE fairness_entries SET due_gpu_s = -1"],
    "lease": ["UPDATE leases SET state = 'saved'"],
    "target": ["UPDATE targets SET state = 'dreaming'"],
    "derived": ["UPDATE derivations SET digest = 'x' WHERE name = 'phase'"],
    "unused": ["INSERT INTO node_lists VALUES (99, 'd', 'n99')"],
    "prunable": ["INSERT INTO prune_marks VALUES (1, 12000)"],
    "unknown-job": ["UPDATE actions SET job_id = 12345 WHERE id = 1"],
    "times": ["UPDATE attempts SET start_time = 5, end_time = 3 WHERE job_id = 101"],
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_damage_is_found(kind, sound):
    plant(sound, *DAMAGE[kind])
    report, found = check(sound)
    assert kind in found
    assert found[kind].count >= 1
    assert found[kind].examples
    assert report.is_damaged == any(KINDS[k].is_error for k in found)
    assert KINDS[kind].advice
    if KINDS[kind].is_error:
        assert report.is_damaged


def test_every_kind_of_finding_has_been_planted():
    assert KINDS.keys() == DAMAGE.keys() | HARMLESS | {"file"}


MORE = {
    "scores of a fit": ("json", "UPDATE fits SET details = '{' WHERE id = 1"),
    "a job's other columns": ("job", "UPDATE jobs SET state = 'FAILED' WHERE job_id = 100"),
    "a job's user": ("job", "UPDATE jobs SET user_id = user_id % 3 + 1 WHERE job_id = 100"),
    "a job's phase": ("job", "UPDATE jobs SET phase = 'debug' WHERE job_id = 100"),
    "a job's epoch": ("job", "UPDATE jobs SET epoch = epoch + 1 WHERE job_id = 100"),
    "an attempt of another job": (
        "job",
        "UPDATE attempts SET logical_job = (SELECT min(id) FROM jobs WHERE job_id = 101)"
        " WHERE job_id = 100",
    ),
    "a missing attempt": ("job", "DELETE FROM attempts WHERE job_id = 7 AND submit_time = 1000"),
    "claims of no field": ("claims", "UPDATE attempts SET claims = '{\"colour\":1}' WHERE id = 1"),
    "extra": ("json", "UPDATE attempts SET extra = '[1]' WHERE id = 1"),
    "a job's state": ("state", "UPDATE jobs SET state = 'x' WHERE job_id = 100"),
    "a reject's key": ("digest", "UPDATE rejects SET raw = 'y'"),
    "a node of a list": ("parts", "DELETE FROM node_list_members"),
    "a list's text": ("parts", "UPDATE tres_lists SET name = 'cpu' WHERE id = 1"),
    "fewer samples": ("samples", "UPDATE sample_blocks SET num_samples = 49"),
    "a block off the grid": ("samples", "UPDATE sample_blocks SET start_time = start_time + 1"),
    "the figures of an order": ("json", "UPDATE node_orders SET reason_params = '{' WHERE id = 1"),
    "what CES keeps": ("json", "UPDATE power_memory SET memory = '[]'"),
    "an hour's length": ("fairness", "UPDATE fairness_entries SET length_s = 0"),
    "a quota": ("fairness", "UPDATE fairness_quotas SET num_gpus = -1"),
    "a quota's source": ("fairness", "UPDATE fairness_quotas SET source = 'hearsay'"),
    "a worth": ("fairness", "UPDATE fairness_weights SET weight = 0"),
    "a deadline": ("target", "UPDATE targets SET deadlines = '[[5, 100], [4, 50]]'"),
    "what is no deadline": ("target", "UPDATE targets SET deadlines = '[5]'"),
    "a refusal": ("target", "UPDATE targets SET answer = '[]'"),
    "a promise of nothing": ("target", "UPDATE targets SET budget_gpu_s = NULL"),
    "a promise to nobody": (
        "target",
        "UPDATE targets SET admitted_time = NULL, promised_finish_time = NULL, "
        "promised_probability = NULL, budget_gpu_s = NULL",
    ),
    "a probability": ("target", "UPDATE targets SET probability = 1.5"),
    "what a promise has used": ("target", "UPDATE targets SET used_gpu_s = -1"),
    "a level of risk": ("target", "UPDATE targets SET risk = 'x'"),
    "an end that stands": ("target", "UPDATE targets SET end_time = 1800"),
    "a plan": ("target", "UPDATE target_runs SET end_time = start_time"),
    "what befell a target": ("target", "UPDATE target_events SET what = 'x'"),
    "an order's state": ("power", "UPDATE node_orders SET state = 'x' WHERE id = 1"),
    "an order's time": ("power", "UPDATE node_orders SET settled_at = NULL WHERE order_id = 'w1'"),
    "a phase": ("power", "UPDATE power_spans SET phase = 'dreaming' WHERE id = 1"),
    "a cause": ("power", "UPDATE power_spans SET cause = 'x' WHERE id = 1"),
    "an outcome": ("power", "UPDATE power_spans SET outcome = 'x' WHERE id = 1"),
    "a count of nodes": ("power", "UPDATE pool_counts SET asleep = -1 WHERE id = 1"),
    "a delay": ("power", "UPDATE wake_delays SET nodes_waking = -1 WHERE id = 1"),
    "a job of nothing": ("power", "UPDATE power_jobs SET span_row = NULL, order_row = NULL"),
    "a job of two things": ("power", "UPDATE power_jobs SET span_row = 1 WHERE span_row IS NULL"),
    "a transition of a lease": ("lease", "DELETE FROM lease_events WHERE from_state IS NULL"),
    "a sum": ("usage", "INSERT INTO usage_days VALUES"
              " (1, 86401, 0, 0, 0, 'X', '', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0)"),
    "the future": ("times", f"UPDATE attempts SET end_time = {NOW + 90000} WHERE job_id = 101"),
    "a table": ("schema", "DROP TABLE lease_events"),
    "a column": ("schema", "ALTER TABLE users ADD COLUMN shoe_size INTEGER"),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_more_damage_is_found(name, sound):
    kind, statement = MORE[name]
    plant(sound, statement)
    assert kind in check(sound)[1]


def test_a_damaged_page_is_a_finding_and_no_crash(sound):
    conn = sqlite3.connect(sound)
    conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page,) = conn.execute(
        "SELECT pageno FROM dbstat WHERE name = 'attempts' ORDER BY pageno LIMIT 1"
    ).fetchone()
    (size,) = conn.execute("PRAGMA page_size").fetchone()
    conn.close()
    with Path(sound).open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\x55" * size)
    report, found = check(sound)
    assert report.is_damaged
    assert "file" in found


def test_all_are_counted_and_some_are_shown(sound):
    plant(sound, "UPDATE jobs SET num_attempts = 9")
    found = check(sound)[1]["job"]
    assert found.count == 32
    assert len(found.examples) == MAX_EXAMPLES


def test_somebody_elses_table_beside_ours_is_no_damage(sound):
    plant(sound, "CREATE TABLE songs (title TEXT)")
    assert check(sound)[1].keys() == HARMLESS


def test_references_are_followed_on_servers_too(mariadb_url):
    History.create(mariadb_url)
    fill(mariadb_url, 1)
    engine = open_engine(mariadb_url)
    with writing(engine) as conn:
        conn.exec_driver_sql("SET foreign_key_checks = 0")
        conn.exec_driver_sql("DELETE FROM users WHERE name = 'alice'")
    engine.dispose()
    _, found = check(mariadb_url)
    assert found["reference"].examples


def test_an_older_schema_is_said_so(sound):
    plant(sound, "UPDATE alembic_version SET version_num = '0002'")
    with pytest.raises(ConfigError, match="older gsched"):
        check(sound)


RULES = PhaseRules((PhaseRule("debug", name="run-10[0-4]"),))


def test_phases_follow_the_rules_when_upgraded(sound):
    assert "phase" in check(sound, RULES)[1]["derived"].examples
    done = maintenance.upgrade(url_of(sound), RULES)
    assert done.derived == {"phase": 5}
    assert check(sound, RULES)[1].keys() == HARMLESS
    with History.open(url_of(sound), phase_rules=RULES) as history:
        phases = {phase.phase: phase.jobs for phase in history.stats().phases}
        history.ingest(batch(attempt(1040, 9000, name="run-1040")), source_key=None)
    assert phases == {"debug": 5, "eval": 1, None: 26}  # what a source told wins over the rules
    assert check(sound, RULES)[1].keys() == HARMLESS
    assert maintenance.upgrade(url_of(sound), RULES).derived == {}
    assert maintenance.upgrade(url_of(sound), NO_RULES).derived == {"phase": 6}


def test_groups_of_names_follow_a_new_mask(sound):
    plant(
        sound,
        "INSERT INTO name_groups VALUES (77, 'd', 'old mask')",
        "UPDATE job_names SET group_id = 77",
        "UPDATE derivations SET digest = 'x' WHERE name = 'name_groups'",
    )
    done = maintenance.upgrade(url_of(sound), NO_RULES)
    assert done.derived["name_groups"] == 32
    plant(sound, "DELETE FROM name_groups WHERE id = 77")
    assert check(sound)[1].keys() == HARMLESS


def test_a_new_database_knows_its_rules(tmp_path):
    url = f"sqlite:///{tmp_path / 'n.db'}"
    History.create(url, phase_rules=RULES)
    assert maintenance.check(url, RULES, NOW).findings == ()


def test_an_upgrade_makes_no_database(tmp_path):
    with pytest.raises(ConfigError, match="there is no job history"):
        maintenance.upgrade(url_of(tmp_path / "none.db"), NO_RULES)
    (tmp_path / "empty.db").touch()
    with pytest.raises(ConfigError, match="is empty"):
        maintenance.upgrade(url_of(tmp_path / "empty.db"), NO_RULES)
