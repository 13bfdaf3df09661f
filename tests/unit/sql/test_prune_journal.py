"""What a prune leaves of the journal though it is old and about no job that is kept."""

from __future__ import annotations

import pytest
from support.history import CLUSTER, batch, select, url_of
from support.journal import change, round_info

from gsched.model.job import JobKey
from gsched.model.journal import ChangeState
from gsched_sql import History, maintenance

CONFIRMED, INTENT, SENT = ChangeState.CONFIRMED, ChangeState.INTENT, ChangeState.SENT
UNTOLD = JobKey(CLUSTER, 50, epoch=10)


@pytest.fixture
def journal(database):
    with History.open(url_of(database)) as history:
        history.ingest(batch(), source_key=None)
        opened = history.journal()
        opened.begin_round(round_info("r1", started_at=20))
        yield opened


def write(journal, made, *states):
    journal.record("r1", [made], INTENT, 20)
    for state in states:
        journal.settle([(made.change_id, state, "")], 21)


def left(database):
    """Changes and rounds that are there after a prune of all times."""
    maintenance.prune(url_of(database), 10**6)
    return [
        [row[0] for row in select(database, f"SELECT {name} FROM {table} ORDER BY 1")]
        for name, table in (("change_id", "actions"), ("round_id", "rounds"))
    ]


def test_changes_on_which_a_standing_rests_stay(journal, database):
    write(journal, change("c1", 0, 5, key=UNTOLD, attempt=10), SENT, CONFIRMED)
    gone = JobKey(CLUSTER, 51, epoch=10)
    write(journal, change("c2", 0, 5, key=gone, attempt=10), SENT, CONFIRMED)
    write(journal, change("c3", 5, 0, key=gone, attempt=10, takes_back=True), SENT, CONFIRMED)
    assert len(journal.standing(CLUSTER)) == 1
    assert left(database) == [["c1"], ["r1"]]


@pytest.mark.parametrize("states", [(), (SENT,)])
def test_changes_that_are_not_settled_stay(journal, database, states):
    write(journal, change("c1", 0, 5, key=UNTOLD, attempt=10), *states)
    write(journal, change("c2", 5, 0, key=UNTOLD, attempt=10, takes_back=True), SENT, CONFIRMED)
    assert journal.standing(CLUSTER) == {}
    assert left(database) == [["c1"], ["r1"]]


def test_the_round_that_a_policys_memory_is_of_stays(journal, database):
    journal.end_round("r1", 21, {}, {"level": 0.5})
    journal.begin_round(round_info("r2", started_at=30, policy="fifo"))
    assert left(database) == [[], ["r1"]]
    assert journal.memory(CLUSTER, "qssf") == {"level": 0.5}
