"""What a prune leaves of the journal though it is old and about no job that is kept."""

from __future__ import annotations

import pytest
from support.history import CLUSTER, attempt, batch, select, url_of
from support.journal import change, round_info

from gsched.model.job import JobKey
from gsched.model.journal import ChangeState
from gsched.model.node_power import PoolCount, PowerCause, PowerPhase, PowerSpan, WakeDelay
from gsched_sql import History, maintenance

POOL = "cpu64@batch"
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


def test_a_delay_stays_as_long_as_its_attempt(database):
    """Of an attempt that is kept everything is kept, however old; others go by their age."""
    kept = attempt(7, 1000, end_time=5000)
    delays = [
        WakeDelay("7", 1000, POOL, 1, 1005, 1010),
        WakeDelay("7", 900, POOL, 1, 905, None),  # of an attempt that nobody has told of
        WakeDelay("8", 1000, POOL, 1, 1005, 1010),
        WakeDelay("8", 1000, POOL, 1, 4000, 4010),  # not old
    ]
    with History.open(url_of(database)) as history:
        history.ingest(batch(kept), source_key=None)
        history.power_log(CLUSTER).keep_delays(delays)
    assert maintenance.prune(url_of(database), 4000).counts["wake_delays"] == 2
    with History.open(url_of(database)) as history:
        assert history.power_log(CLUSTER).delays(0, 9000) == [delays[0], delays[3]]
    assert maintenance.prune(url_of(database), 5001).counts["wake_delays"] == 2


def test_what_was_seen_of_nodes_goes_by_its_age_in_its_cluster_alone(database):
    spans = [
        PowerSpan("n1", POOL, PowerPhase.ASLEEP, 10, 999, PowerCause.CES),
        PowerSpan("n2", POOL, PowerPhase.ASLEEP, 10, 1000, PowerCause.CES),
        PowerSpan("n3", POOL, PowerPhase.ASLEEP, 10, None, PowerCause.CES),
    ]
    counts = [PoolCount(POOL, at, 0, 0, 0, 3, 0, 0, 0) for at in (999, 1000)]
    with History.open(url_of(database)) as history:
        for cluster in (CLUSTER, "beta"):
            log = history.power_log(cluster)
            log.keep_spans(spans)
            log.keep_counts(counts)
    maintenance.prune(url_of(database), 1000, [CLUSTER])
    with History.open(url_of(database)) as history:
        log = history.power_log(CLUSTER)
        assert (log.spans(0, 9000), log.counts(0, 9000)) == (spans[1:], counts[1:])
        log = history.power_log("beta")
        assert (log.spans(0, 9000), log.counts(0, 9000)) == (spans, counts)
