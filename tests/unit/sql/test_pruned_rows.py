"""What a prune has taken stays away: to prune and to import may come in any order."""

from __future__ import annotations

import shutil

from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.history import attempt, batch, scalar, url_of

from gsched.model.job import JobState
from gsched_sql import History, bulk, maintenance
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import reading
from gsched_sql.pruned_rows import not_pruned

COMPLETED, REQUEUED = JobState.COMPLETED, JobState.REQUEUED
FIRST = attempt(7, 1000, start_time=1000, end_time=4000, state=REQUEUED)
SECOND = attempt(7, 4001, start_time=4001, end_time=6000)
ENDED_BEFORE = attempt(1, 100)


def rows_of_job(job_id, first, runs):
    """One job of attempts that each run and go on some seconds after the end of the one before."""
    rows, submit = [], first
    for place, (run_s, pause_s) in enumerate(runs, 1):
        end = submit + run_s
        state = COMPLETED if place == len(runs) else REQUEUED
        rows.append(attempt(job_id, submit, start_time=submit, end_time=end, state=state))
        submit = end + pause_s
    return rows


RUNS = st.lists(st.tuples(st.integers(0, 3000), st.integers(1, 400)), min_size=1, max_size=4)
JOBS = st.lists(st.tuples(st.integers(1, 9000), RUNS), max_size=6)


def dump(database):
    with History.open(url_of(database)) as history, reading(history._engine) as conn:
        return list(canonical_dump(conn))


def ingest(database, *rows):
    with History.open(url_of(database)) as history:
        return history.ingest(batch(*rows), source_key=None)


@given(jobs=JOBS, mark=st.integers(1000, 12_000), again=st.booleans())
@example(jobs=[(1000, [(3000, 1), (1999, 1)])], mark=5000, again=True)
@settings(max_examples=15)
def test_prune_and_import_give_the_same_in_any_order(
    jobs, mark, again, tmp_path_factory, sqlite_template
):
    rows = [row for n, (first, runs) in enumerate(jobs, 7) for row in rows_of_job(n, first, runs)]
    folder = tmp_path_factory.mktemp("order")
    told = []
    for name in ("import first", "prune first"):
        database = folder / name
        shutil.copy(sqlite_template, database)
        ingest(database, ENDED_BEFORE)
        if name == "prune first":
            maintenance.prune(url_of(database), mark)
        ingest(database, *rows)
        if name == "import first":
            maintenance.prune(url_of(database), mark)
        if again:
            ingest(database, *rows)
        told.append(dump(database))
    assert told[0] == told[1]


def test_an_earlier_attempt_of_a_job_that_is_kept_is_taken_in_late(database):
    ingest(database, ENDED_BEFORE)
    maintenance.prune(url_of(database), 5000)
    assert ingest(database, SECOND).attempts_new == 1
    assert ingest(database, FIRST).attempts_new == 1
    assert ingest(database, attempt(7, 300)).pruned == 1  # of another job of that id
    assert scalar(database, "SELECT min(epoch) FROM jobs") == 1000
    assert scalar(database, "SELECT num_attempts FROM jobs") == 2


def test_what_nobody_continues_is_not_taken_in(database):
    ingest(database, ENDED_BEFORE)
    maintenance.prune(url_of(database), 5000)
    stranger = attempt(7, 4001, start_time=4001, end_time=6000, user="bob")
    told = ingest(database, FIRST, stranger)
    assert (told.attempts_new, told.pruned) == (1, 1)


def test_without_a_prune_nobody_asks(database, monkeypatch):
    asked = []
    monkeypatch.setattr(bulk, "not_pruned", lambda *told: asked.append(told) or not_pruned(*told))
    ingest(database, FIRST, SECOND)
    assert asked == []
    maintenance.prune(url_of(database), 5000)
    ingest(database, FIRST, SECOND)
    assert len(asked) == 1
