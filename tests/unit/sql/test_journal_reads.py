"""The journal read every round and for people: not again in vain, nothing of others overlooked."""

from __future__ import annotations

import contextlib

import pytest
from sqlalchemy import event
from support.history import CLUSTER, attempt, batch, pending, scalar, select, url_of
from support.journal import CHANNEL, KEY, change, round_info
from support.servers import each_engine

from gsched.model.job import JobKey, JobState
from gsched.model.jobid import parse_job_id
from gsched.model.journal import ChangeState
from gsched_sql import History, maintenance
from gsched_sql.engine import open_engine, reading, writing

INTENT, SENT, CONFIRMED = ChangeState.INTENT, ChangeState.SENT, ChangeState.CONFIRMED


@contextlib.contextmanager
def statements(history):
    """The statements that are executed meanwhile, with their parameters."""
    seen = []

    def note(_conn, _cursor, statement, parameters, *_):
        seen.append((statement, parameters))

    event.listen(history._engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(history._engine, "before_cursor_execute", note)


@pytest.fixture
def journal(history):
    opened = history.journal()
    opened.begin_round(round_info("r1"))
    write(opened, change("c1", 0, 5))
    return opened


def write(journal, made, *states):
    journal.record("r1", [made], INTENT, 2001)
    for state in states or (SENT, CONFIRMED):
        journal.settle([(made.change_id, state, "")], 2002)


def written(journal):
    return {key.job_id: found.written for (key, _), found in journal.standing(CLUSTER).items()}


@each_engine
def test_what_stands_is_not_read_again_while_nothing_happens(journal, history):
    assert written(journal) == {7: 5}
    with statements(history) as seen:
        for _ in range(3):
            assert written(journal) == {7: 5}
    assert seen
    assert not [statement for statement, _ in seen if "standings" in statement]


@each_engine
def test_what_another_process_writes_is_noticed(journal, database):
    assert written(journal) == {7: 5}
    with History.open(url_of(database)) as other:
        theirs = other.journal()
        theirs.record("r1", [change("d1", 5, 9)], INTENT, 2003)
        assert written(journal) == {7: 9}
        assert journal.standing(CLUSTER)[KEY, CHANNEL].may_be == (5, 9)
        theirs.settle([("d1", CONFIRMED, "")], 2004)
        assert journal.standing(CLUSTER)[KEY, CHANNEL].may_be == ()
        write(theirs, change("d2", 9, 0, takes_back=True))
        assert written(journal) == {}


@each_engine
def test_a_job_that_is_found_to_be_another_is_noticed_and_told_by_the_audit(
    journal, history, database
):
    late = JobKey(CLUSTER, 8, epoch=1200)
    history.ingest(batch(pending(8, 1200, restarts=None)), source_key=None)
    write(journal, change("c2", 0, 6, key=late, attempt=1200))
    assert (late, CHANNEL) in journal.standing(CLUSTER)
    with History.open(url_of(database)) as other:
        other.ingest(batch(attempt(8, 1000, state=JobState.REQUEUED)), source_key=None)
    assert {key.epoch for key, _ in journal.standing(CLUSTER)} == {1000}
    (row,) = history.audit(CLUSTER, parse_job_id("8"))
    assert [state for _, state, _ in row.transitions] == [*("intent", "sent"), *["confirmed"] * 2]
    assert row.transitions[-1][2] == "the job's first submit was at 1000, as was told later"


def test_a_row_number_that_is_given_again_hides_nothing(journal, database):
    # SQLite gives the number of a row that was deleted at the end to the next one.
    assert written(journal) == {7: 5}
    last = scalar(database, "SELECT max(id) FROM audit_events")
    engine = open_engine(url_of(database))
    with writing(engine) as conn:
        conn.exec_driver_sql(f"DELETE FROM audit_events WHERE id = {last}")
    engine.dispose()
    with History.open(url_of(database)) as other:
        other.journal().record("r1", [change("c2", 5, 9)], INTENT, 2003)
    assert scalar(database, "SELECT max(id) FROM audit_events") == last
    assert written(journal) == {7: 9}


@each_engine
def test_a_thousand_changes_take_a_few_statements(journal, history):
    keys = [JobKey(CLUSTER, number, epoch=1000) for number in range(1000, 2000)]
    made = [change(f"m{key.job_id}", 0, 10, key=key) for key in keys]
    with statements(history) as seen:
        journal.record("r1", made, INTENT, 2003)
        journal.settle([(m.change_id, SENT, "") for m in made], 2004)
        journal.settle([(m.change_id, CONFIRMED, "") for m in made], 2005)
    assert len(seen) < 60
    assert written(journal) == {7: 5} | {key.job_id: 10 for key in keys}


def test_the_audit_of_a_job_does_not_walk_through_those_of_others(history, journal):
    for number in range(20):
        journal.record("r1", [change(f"n{number}", 0, 1, key=JobKey(CLUSTER, number))], INTENT, 3)
    with statements(history) as seen:
        for job in ("7", "7_3", "7+1"):
            history.audit(CLUSTER, parse_job_id(job))
    plans = []
    with reading(history._engine) as conn:
        for statement, parameters in seen:
            if "FROM actions" in statement:
                rows = conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
                plans += [row[-1] for row in rows]
    of_actions = [plan for plan in plans if " actions " in plan]
    assert len(of_actions) >= 4
    for plan in of_actions:
        assert "ix_actions_job" in plan or "PRIMARY KEY" in plan, plan
    assert not [plan for plan in plans if plan.startswith("SCAN")]


def test_old_spans_and_rounds_go_and_what_stands_stays(history, journal, database):
    spans = history.spans(CLUSTER)
    for number in range(50):
        name, at = f"old{number}", 3000 + 30 * number
        journal.begin_round(round_info(name, started_at=at))
        spans.note("act" if number % 2 else "control", "qssf", at, 90)
        journal.end_round(name, at + 1, {}, {})
    before = journal.standing(CLUSTER)
    gone = maintenance.prune(url_of(database), 4000).counts
    assert gone["rounds"] == 34
    assert gone["spans"] == 33  # the last of them lasts until the next begins
    assert journal.standing(CLUSTER) == before
    assert scalar(database, "SELECT count(*) FROM audit_events WHERE change_id IS NULL") == 16
    assert [row for row in select(database, "SELECT round_id FROM rounds") if row == ("r1",)]
