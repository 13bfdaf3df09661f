"""The record of sleeping nodes in SQL: fences, clusters, what is hostile, what is large.

What both implementations do is in ``tests/contract/test_power_logs.py``.
"""

from __future__ import annotations

import pytest
from support.history import CLUSTER, scalar, select
from support.servers import each_engine

from gsched.errors import DataError, GschedError, LostLeadershipError
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import (
    NodeOrder,
    NodeOrderEntry,
    NodeVerb,
    PoolCount,
    PowerCause,
    PowerPhase,
    PowerSpan,
    WakeDelay,
)

INTENT, SENT, OBSERVED = ChangeState.INTENT, ChangeState.SENT, ChangeState.OBSERVED
POOL = "a100x8@gpu"
HOSTILE = "a|b\n\x00\ud800\ue000'\"\\%s, 名前 😀 "
TABLES = (
    "node_orders", "power_spans", "power_jobs", "pool_counts", "wake_delays", "power_memory",
    "nodes", "node_pools",
)  # fmt: skip


def order(order_id: str = "o1", node: str = "n1", job: str = "", pool: str = POOL) -> NodeOrder:
    params = {"job": job, "power_cycles": 3}
    return NodeOrder(order_id, node, pool, NodeVerb.WAKE, Reason("ces.wake", params), 5000, 5060)


def span(node: str = "n1", job: str = "", pool: str = POOL, end: int | None = None) -> PowerSpan:
    return PowerSpan(node, pool, PowerPhase.WAKING, 5000, end, PowerCause.SLURM, "", job)


COUNT = PoolCount(POOL, 5000, 1, 2, 3, 4, 5, 6, 7)
DELAY = WakeDelay("7", 4000, POOL, 1, 5000, None)


# -- fences -----------------------------------------------------------------------------------


@pytest.fixture
def fenced(history):
    """A log with an open order, of a daemon that has been taken over from."""
    lead = history.leadership(CLUSTER)
    fence = lead.take("h1", "m1", 1, 60, 0)
    log = history.power_log(CLUSTER, fence)
    log.record([order()], INTENT)
    lead.release(fence, 0)
    lead.take("h2", "m1", 2, 60, 0)
    return log


WRITES = {
    "remember": lambda log: log.remember({"a": 1}),
    "record": lambda log: log.record([order("o2", "n2")], INTENT),
    "record again": lambda log: log.record([order()], INTENT),
    "record observed": lambda log: log.record([order("o2")], OBSERVED),
    "settle": lambda log: log.settle([("o1", SENT, "")], 5001),
    "settle the same": lambda log: log.settle([("o1", INTENT, "")], 5001),
    "settle none": lambda log: log.settle([("o9", SENT, "")], 5001),
    "keep_spans": lambda log: log.keep_spans([span("n3", "7", "p3")]),
    "keep_counts": lambda log: log.keep_counts([COUNT]),
    "keep_delays": lambda log: log.keep_delays([DELAY]),
}


@each_engine
def test_nothing_is_written_by_who_has_lost_the_lead(fenced, database):
    def rows():
        return {t: sorted(map(repr, select(database, f"SELECT * FROM {t}"))) for t in TABLES}

    before = rows()
    for write in WRITES.values():
        with pytest.raises(LostLeadershipError):
            write(fenced)
    assert rows() == before
    assert [entry.order.order_id for entry in fenced.unsettled()] == ["o1"]  # it may still look


def test_every_writing_call_is_among_them(fenced):
    looks = {"memory", "unsettled", "orders", "open_spans", "spans", "counts", "delays"}
    calls = {name for name in dir(fenced) if not name.startswith("_")}
    assert calls - looks == {name for name in WRITES if " " not in name}


def test_whoever_has_no_fence_writes_whoever_leads(history):
    history.leadership(CLUSTER).take("h1", "m1", 1, 60, 0)
    log = history.power_log(CLUSTER)
    for write in ("record", "keep_spans", "keep_counts", "keep_delays", "remember"):
        WRITES[write](log)
    assert len(log.open_spans()) == len(log.unsettled()) == len(log.delays(0, 9000)) == 1


# -- clusters, names, numbers -----------------------------------------------------------------


@each_engine
def test_clusters_are_apart_though_all_names_are_the_same(history):
    alpha, beta = history.power_log("alpha"), history.power_log("beta")
    for log, node in ((alpha, "n1"), (beta, "n2")):
        log.record([order(node=node)], INTENT)
        log.keep_spans([span(node), span("both", job=node)])
        log.keep_counts([COUNT])
        log.keep_delays([DELAY])
        log.remember({"of": node})
    alpha.settle([("o1", SENT, "")], 5001)
    alpha.keep_spans([span("both", end=5100)])
    alpha.keep_counts([PoolCount(POOL, 5000, 9, 0, 0, 0, 0, 0, 0)])
    alpha.keep_delays([WakeDelay("7", 4000, POOL, 1, 5000, 5010)])
    assert beta.unsettled() == [NodeOrderEntry(order(node="n2"), INTENT)]
    assert beta.open_spans() == [span("both", job="n2"), span("n2")]
    assert (beta.counts(0, 9000), beta.delays(0, 9000)) == ([COUNT], [DELAY])
    assert (alpha.memory(), beta.memory()) == ({"of": "n1"}, {"of": "n2"})
    assert history.power_log("gamma").counts(0, 9000) == []
    assert history.power_log("gamma").spans(0, 9000) == []
    assert history.power_log("gamma").memory() == {}


@each_engine
def test_what_is_hostile_comes_out_as_it_went_in(history):
    log = history.power_log(CLUSTER)
    wild = NodeOrder(
        "o'1\";--",
        HOSTILE,
        HOSTILE + "pool",
        NodeVerb.SLEEP,
        Reason(HOSTILE, {HOSTILE: HOSTILE, "job": HOSTILE, "n": [1, {"x": None}]}),
        2**40,
        2**63 - 1,
    )
    log.record([wild], INTENT)
    log.settle([(wild.order_id, SENT, HOSTILE)], 2**41)
    assert log.unsettled() == [NodeOrderEntry(wild, SENT, 2**41, HOSTILE)]
    woken = span(HOSTILE, HOSTILE, HOSTILE)
    log.keep_spans([woken])
    assert log.open_spans() == [woken]
    great = PoolCount("p" * 5000, 2**62, 2**62, 0, 0, 0, 0, 0, 0)
    log.keep_counts([great, PoolCount("P" * 5000, 2**62, 1, 0, 0, 0, 0, 0, 0)])
    assert log.counts(0, 2**62 + 1)[1] == great
    log.remember({HOSTILE: HOSTILE})
    assert log.memory() == {HOSTILE: HOSTILE}


@each_engine
def test_names_that_differ_in_case_or_in_blanks_at_their_end_are_two(history):
    log = history.power_log(CLUSTER)
    told = [span(node, pool=pool) for node in ("n1", "N1", "n1 ") for pool in ("p",)]
    log.keep_spans(told)
    assert sorted(s.node for s in log.open_spans()) == ["N1", "n1", "n1 "]
    log.record([order("a"), order("A"), order("a ")], INTENT)
    log.settle([("A", SENT, "")], 5001)
    assert [e.state for e in log.unsettled()] == [INTENT, SENT, INTENT]


def test_a_delay_is_of_a_job(history):
    log = history.power_log(CLUSTER)
    for job in ("", "x", "7'; DROP TABLE jobs", "0"):
        with pytest.raises(DataError, match="not a job id"):
            log.keep_delays([DELAY, WakeDelay(job, 1, POOL, 1, 1, None)])
    assert log.delays(0, 9000) == []
    told = [WakeDelay(job, 4000, POOL, 1, 5000, None) for job in ("7", "7+1", "7_0", "7_3")]
    log.keep_delays(told)
    assert log.delays(0, 9000) == told


@each_engine
def test_jobs_lie_where_only_their_users_look(history, database):
    log = history.power_log(CLUSTER)
    log.record([order("o1", job="7_[1-5]"), order("o2"), order("o3", job="what?")], INTENT)
    log.keep_spans([span("n1", "8+1"), span("n2")])
    for table in ("node_orders", "power_spans"):
        text = repr(select(database, f"SELECT * FROM {table}"))
        assert "7_" not in text
        assert "8+1" not in text
        assert "what" not in text
    found = select(database, "SELECT job_id, job FROM power_jobs ORDER BY job_id")
    assert found == [(0, "what?"), (7, "7_[1-5]"), (8, "8+1")]
    log.keep_spans([span("n1", "9", end=5100), span("n2", "10")])  # another one after all
    log.keep_spans([span("n2")])  # or none
    found = select(database, "SELECT job FROM power_jobs WHERE span_row IS NOT NULL")
    assert found == [("9",)]
    assert [s.job for s in log.spans(0, 9000)] == ["9", ""]


def test_an_order_of_another_reason_keeps_its_figures(history):
    log = history.power_log(CLUSTER)
    told = [
        NodeOrder(str(n), "n1", POOL, NodeVerb.SLEEP, Reason("ces.sleep", params), 5000, 5060)
        for n, params in enumerate(({}, {"job": 7}, {"job": ""}, {"job": None}, {"job": "7"}))
    ]
    log.record(told, OBSERVED)
    assert [entry.order for entry in log.orders(0, 9000)] == told


@each_engine
def test_many_at_once(history, database):
    """More than fit one list of values of a statement."""
    log = history.power_log(CLUSTER)
    spans = [span(f"n{n:05}", job="7" if n % 2 else "") for n in range(6000)]
    log.keep_spans(spans)
    ended = [span(s.node, "8" if n % 3 == 0 else "", end=5100) for n, s in enumerate(spans)]
    log.keep_spans(ended)
    assert log.spans(0, 9000) == ended
    assert scalar(database, "SELECT count(*) FROM power_jobs") == 2000
    log.record([order(f"o{n:05}", f"n{n:05}") for n in range(6000)], INTENT)
    log.settle([(f"o{n:05}", SENT, "") for n in range(6000)], 5001)
    assert {e.state for e in log.unsettled()} == {SENT}
    with pytest.raises(GschedError, match="no order o06000"):
        log.settle([(f"o{n:05}", ChangeState.VOID, "") for n in range(6001)], 5002)
    assert len(log.unsettled()) == 6000
