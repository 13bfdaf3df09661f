"""The queries of the manual run on every engine, and say what they promise."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from support.history import attempt, batch

from gsched.model.job import JobState
from gsched_sql import History, documentation
from gsched_sql.engine import open_engine, reading


@pytest.fixture
def ask(database_url):
    with History.open(database_url) as history:
        history.ingest(
            batch(
                attempt(1, 1767225600),
                attempt(2, 1767225600, user="bob", state=JobState.NODE_FAIL, node_list="n[1-2]"),
                attempt(3, 1767225601, num_gpus=None, allocated=()),
            ),
            source_key=None,
        )
    engine = open_engine(database_url)

    def rows(name):
        with reading(engine) as conn:
            found = conn.execute(text(documentation.examples()[name]))
            return [tuple(row) for row in found]

    yield rows
    engine.dispose()


def test_every_example_runs(ask):
    names = sorted(documentation.examples())
    assert len(names) >= 6
    for name in names:
        ask(name)


def test_the_named_queries_of_the_manual_run_as_they_are_printed(database_url):
    queries = documentation.queries()
    assert set(queries) >= {"phases", "states", "totals"}
    engine = open_engine(database_url)
    for query in queries.values():
        with reading(engine) as conn:
            conn.exec_driver_sql(query)
    engine.dispose()


def test_what_the_examples_say(ask):
    by_user = ask("1_gpu_hours_by_user")
    assert {row[0]: row[1:3] for row in by_user} == {"alice": (2, 1), "bob": (1, 1)}
    assert float(by_user[0][3]) == pytest.approx(200 / 3600, abs=1e-3)  # MariaDB: four digits
    accounts = ask("2_gpu_hours_by_account_with_pruned")
    assert [(name, round(float(h) * 3600)) for name, h in accounts] == [("lab1", 400)]
    nodes = {row[0]: tuple(map(int, row[1:])) for row in ask("3_failures_by_node")}
    assert nodes == {"n1": (3, 1, 1), "n2": (1, 1, 1)}
    ((kind, attempts, hours),) = ask("4_gpu_types")
    assert (kind, attempts, round(float(hours) * 3600)) == ("gres/gpu:a100", 2, 400)
    assert len(ask("5_longest_waits")) == 3
