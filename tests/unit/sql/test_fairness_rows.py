"""The ledger of tenants in SQL: quotas as they change, hours, and the attempts that they are of."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from support.history import CLUSTER, attempt, batch, pending, running
from support.servers import each_engine

from gsched.errors import LostLeadershipError
from gsched.model.accounts import FairnessEntry, QuotaChange, SiteQuotas, WeightChange
from gsched.model.gpu_use import NOT_TOLD, GpuUse
from gsched.model.history import Batch, Tres
from gsched.model.job import UNLIMITED_S, JobState
from gsched_sql import maintenance
from gsched_sql.engine import open_engine

SITE = SiteQuotas({"lab1": 6.0, "lab2": 1 / 3}, 8.0, "shares", {"a100": 1.0, "v100": 0.1})


def noted(history, cluster: str = CLUSTER) -> list[tuple[int, str, float]]:
    return [(c.since_time, c.tenant, c.gpus) for c in history.fairness().quotas(cluster)]


def worths(history) -> list[tuple[int, str, float]]:
    return [(c.since_time, c.gpu_type, c.weight) for c in history.fairness().weights(CLUSTER)]


@each_engine
def test_until_when_slurmdbd_was_read_is_told(history, monkeypatch):
    def read(source_key: str, cursor: str, now: float) -> int | None:
        monkeypatch.setattr("gsched_sql.ingest.time.time", lambda: now)
        history.ingest(Batch((), (), 0, cursor=cursor), source_key=source_key)
        return history.fairness().told_until(CLUSTER)

    assert history.fairness().told_until(CLUSTER) is None
    assert read("sacct:other", "900", 900.0) is None
    assert read(f"jobcomp:{CLUSTER}:/var/log/jobcomp", "{}", 910.0) is None
    assert read(f"sacct:{CLUSTER}", "1000", 5000.0) == 1000
    assert read("jobcomp:other:/var/log/jobcomp", "{}", 6000.0) == 1000
    assert read(f"jobcomp:{CLUSTER}:/var/log/jobcomp", "{ }", 7000.0) is None  # what tells now
    assert read(f"sacct:{CLUSTER}", "x", 7000.0) is None


@each_engine
def test_what_is_noted_comes_back_and_the_same_again_changes_nothing(history):
    fairness = history.fairness()
    assert fairness.note(CLUSTER, 1000, SITE)
    told = fairness.quotas(CLUSTER), fairness.weights(CLUSTER)
    assert told == (
        [QuotaChange("lab1", 1000, 6.0, "shares"), QuotaChange("lab2", 1000, 1 / 3, "shares")],
        [WeightChange("a100", 1000, 1.0), WeightChange("v100", 1000, 0.1)],
    )
    assert not fairness.note(CLUSTER, 2000, SITE)
    assert (fairness.quotas(CLUSTER), fairness.weights(CLUSTER)) == told
    assert noted(history, "beta") == []


@each_engine
def test_only_what_changes_is_noted_and_who_is_not_named_has_none(history):
    fairness = history.fairness()
    fairness.note(CLUSTER, 1000, SITE)
    other = SiteQuotas({"lab1": 5.0, "lab3": 2.0}, 8.0, "shares", {"v100": 0.1, "t4": 0.05})
    assert fairness.note(CLUSTER, 2000, other)
    assert noted(history)[2:] == [(2000, "lab1", 5.0), (2000, "lab2", 0.0), (2000, "lab3", 2.0)]
    assert worths(history)[2:] == [(2000, "t4", 0.05)]  # an a100 was worth 1 before
    assert not fairness.note(CLUSTER, 3000, other)
    fairness.note(CLUSTER, 4000, replace(SITE, gpu_weights={}))
    assert worths(history)[3:] == [(4000, "t4", 1.0), (4000, "v100", 1.0)]


@each_engine
def test_another_source_is_a_change(history):
    fairness = history.fairness()
    fairness.note(CLUSTER, 1000, SITE)
    assert fairness.note(CLUSTER, 2000, replace(SITE, source="settings"))
    assert [c.source for c in fairness.quotas(CLUSTER)] == ["shares"] * 2 + ["settings"] * 2


@each_engine
def test_at_the_same_moment_the_last_word_counts(history):
    fairness = history.fairness()
    fairness.note(CLUSTER, 1000, SITE)
    assert fairness.note(CLUSTER, 1000, replace(SITE, gpus={"lab1": 7.0}))
    assert noted(history) == [(1000, "lab1", 7.0), (1000, "lab2", 0.0)]


@each_engine
def test_a_clock_that_was_ahead_or_is_behind_loses_nothing(history):
    fairness, other = history.fairness(), replace(SITE, gpus={"lab1": 1.0})
    fairness.note(CLUSTER, 1000, SITE)
    fairness.note(CLUSTER, 9000, other)
    assert not fairness.note(CLUSTER, 2000, SITE)  # so it was before
    assert fairness.note(CLUSTER, 3000, replace(SITE, gpus={"lab1": 6.0, "lab2": 2.0}))
    assert noted(history)[2:] == [(3000, "lab2", 2.0), (9000, "lab1", 1.0), (9000, "lab2", 0.0)]
    assert fairness.note(CLUSTER, 9010, SITE)  # the time has come, and it is not so
    assert noted(history)[5:] == [(9010, "lab1", 6.0), (9010, "lab2", 1 / 3)]


def hour(number: int, tenant: str = "lab1", received: float = 1.5, cluster: str = CLUSTER):
    begin = 3600 * number
    return FairnessEntry(cluster, tenant, begin, 3600, received, 2.0, 1e300, 0.1, 1 / 3)


@each_engine
def test_hours_are_closed_again_as_a_whole(history):
    fairness = history.fairness()
    assert (fairness.closed_since(CLUSTER), fairness.closed_until(CLUSTER)) == (None, None)
    fairness.close(CLUSTER, 0, [hour(n, tenant) for n in range(3) for tenant in ("lab1", "lab2")])
    fairness.close("beta", 0, [hour(9, cluster="beta")])
    assert fairness.closed_until(CLUSTER) == 3 * 3600
    again = [hour(1, received=7.0), hour(2)]  # lab2 has nothing any more
    for _ in range(2):
        fairness.close(CLUSTER, 3600, again)
        assert fairness.read(CLUSTER, 0, 99_999) == [hour(0), hour(0, "lab2"), *again]
    fairness.close(CLUSTER, 3600, [])  # a clock that was ahead
    assert (fairness.closed_since(CLUSTER), fairness.closed_until(CLUSTER)) == (0, 3600)
    assert fairness.closed_since("beta") == 9 * 3600
    assert fairness.read("beta", 0, 99_999) == [hour(9, cluster="beta")]


@each_engine
def test_many_hours_at_once(history):
    entries = [hour(n, f"lab{k}", n / 3) for n in range(300) for k in range(3)]
    history.fairness().close(CLUSTER, 0, entries)
    assert history.fairness().read(CLUSTER, 0, 300 * 3600) == entries


def test_who_has_lost_the_lead_writes_nothing(history):
    leadership = history.leadership(CLUSTER)
    first = leadership.take("h1", "m1", os.getpid(), 60, 1000)
    mine = history.fairness(first)
    assert mine.note(CLUSTER, 1000, SITE)
    mine.close(CLUSTER, 0, [hour(0)])
    leadership.release(first, 2001)
    leadership.take("h2", "m1", os.getpid(), 60, 2002)
    for write in (
        lambda: mine.note(CLUSTER, 2003, SITE),
        lambda: mine.note(CLUSTER, 2003, replace(SITE, gpus={"lab1": 1.0})),
        lambda: mine.close(CLUSTER, 0, []),
        lambda: mine.keep([hour(1)]),
    ):
        with pytest.raises(LostLeadershipError):
            write()
    assert noted(history) == [(1000, "lab1", 6.0), (1000, "lab2", 1 / 3)]
    assert mine.read(CLUSTER, 0, 99_999) == [hour(0)]


def used(history, *records, since=0, until=100_000, cluster=CLUSTER) -> GpuUse:
    history.ingest(batch(*records), source_key=None)
    return history.fairness().gpu_use(cluster, since, until)


def told(use: GpuUse, *names: str) -> list[tuple]:
    return sorted(zip(*(getattr(use, name) for name in names), strict=True))


@each_engine
def test_attempts_that_asked_within_a_time(history):
    times = {1: (10, 100, 1000), 2: (10, 100, 1001), 3: (1500, 1600, 1700), 4: (1999, 2500, 9000)}
    records = [
        attempt(n, submit, eligible_time=submit + 1, start_time=start, end_time=end)
        for n, (submit, start, end) in times.items()
    ]
    use = used(
        history,
        *records,
        attempt(5, 2000),  # asks later
        attempt(6, 1200, num_gpus=0, allocated=()),
        attempt(7, 1200, state=JobState.REVOKED),
        attempt(8, 1200, cluster="beta"),
        attempt(9, 1300, state=JobState.CANCELLED, num_nodes=0, start_time=1400, end_time=1400),
        since=1000,
        until=2000,
    )
    assert told(use, "job_id", "submit_time", "eligible_time", "start_time", "end_time") == [
        (2, 10, 11, 100, 1001),
        (3, 1500, 1501, 1600, 1700),
        (4, 1999, 2000, 2500, 9000),
        (9, 1300, 1300, NOT_TOLD, 1400),
    ]
    assert set(use.ends_by) == {NOT_TOLD}
    assert len(used(history, cluster="gamma")) == 0


@each_engine
def test_whose_they_are_and_of_what_type(history):
    typed = (Tres("gres/gpu", 4), Tres("gres/gpu:a100", 1), Tres("gres/gpu:v100", 3))
    use = used(
        history,
        attempt(1, 1000, num_gpus=4, allocated=typed, requested=(Tres("gres/gpu", 4),)),
        attempt(2, 1000, array_task=3, user=None, tenant=None, allocated=()),
        attempt(3, 1000, num_gpus=None, num_cpus=8, allocated=()),
    )
    rows = {job_id: row for row, job_id in enumerate(use.job_id)}
    assert [use.tenants[use.tenant[rows[n]]] for n in (1, 2)] == ["lab1", ""]
    assert [use.users[use.user[rows[n]]] for n in (1, 2)] == ["alice", ""]
    assert sorted(use.gpus[use.allocated[rows[1]]]) == [("a100", 1), ("v100", 3)]
    assert use.gpus.get(use.requested[rows[1]]) is None
    assert [use.num_gpus[rows[n]] for n in (1, 2, 3)] == [4, 2, NOT_TOLD]
    assert (use.array_task[rows[1]], use.array_task[rows[2]]) == (-1, 3)


@each_engine
def test_what_an_attempt_lacks_its_job_knows(history):
    use = used(
        history,
        attempt(1, 1000, state=JobState.REQUEUED, num_gpus=None, tenant=None, allocated=()),
        attempt(1, 1200, restarts=1),
    )
    assert told(use, "job_id", "epoch", "submit_time", "num_gpus") == [
        (1, 1000, 1000, 2),
        (1, 1000, 1200, 2),
    ]
    assert {use.tenants[row] for row in use.tenant} == {"lab1"}
    assert len(set(use.job)) == 1


@each_engine
def test_by_when_an_attempt_without_an_end_must_have_ended(history):
    use = used(
        history,
        running(1, 1000, time_limit_s=600),
        running(2, 1000, time_limit_s=UNLIMITED_S),
        running(3, 1000, time_limit_s=600, state=JobState.SUSPENDED),
        pending(4, 1000),
        pending(5, 1000),
        attempt(5, 3000, restarts=0),  # the id was used again
        until=9000,
    )
    assert told(use, "job_id", "submit_time", "end_time", "ends_by") == [
        (1, 1000, NOT_TOLD, 1610),
        (2, 1000, NOT_TOLD, NOT_TOLD),
        (3, 1000, NOT_TOLD, NOT_TOLD),
        (4, 1000, NOT_TOLD, NOT_TOLD),
        (5, 1000, NOT_TOLD, 3000),
        (5, 3000, 3110, NOT_TOLD),
    ]
    early = history.fairness().gpu_use(CLUSTER, 0, 1500)
    assert set(early.ends_by) == {NOT_TOLD}  # until then it may have run


@each_engine
def test_what_is_asked_of_jobs_before_hours_are_closed(history):
    fairness = history.fairness()
    assert fairness.first_epoch(CLUSTER) is None
    assert fairness.first_asked_by_tasks(CLUSTER, 0) is None
    used(
        history,
        attempt(1, 500),
        attempt(2, 900, array_task=1, start_time=5000, end_time=6000),
        attempt(2, 800, array_task=2, start_time=1000, end_time=6000),
        running(2, 700, array_task=3, start_time=7000, tenant="lab2"),
        attempt(3, 100, cluster="beta", tenant="lab9"),
        attempt(7, 550, start_time=9000, end_time=9100),  # no task: it was known before
        attempt(6, 600, array_task=1, state=JobState.CANCELLED, num_nodes=0, end_time=6500),
        pending(4, 6000, tenant="lab3"),
        pending(5, 6000, tenant="lab4", num_gpus=0, requested=()),
    )
    assert fairness.first_epoch(CLUSTER) == 500
    first = [fairness.first_asked_by_tasks(CLUSTER, at) for at in (6500, 6501, 7000, 7001)]
    assert first == [600, 700, 700, None]
    assert fairness.active_tenants(CLUSTER, 5999) == {"lab1", "lab2", "lab3"}
    assert fairness.active_tenants(CLUSTER, 9100) == {"lab2", "lab3"}


def test_hours_outlive_the_jobs_that_they_are_of(database, history):
    fairness = history.fairness()
    used(history, attempt(1, 1000), attempt(2, 9000))
    fairness.note(CLUSTER, 1000, SITE)
    fairness.close(CLUSTER, 0, [hour(0)])
    assert fairness.pruned_before(CLUSTER) is None
    maintenance.prune(f"sqlite:///{database}", 5000)
    assert fairness.pruned_before(CLUSTER) == 5000
    use = fairness.gpu_use(CLUSTER, 0, 99_999)
    assert (list(use.job_id), use.pruned_before) == ([2], 5000)
    assert fairness.read(CLUSTER, 0, 99_999) == [hour(0)]
    assert len(noted(history)) == 2


def test_hours_are_found_by_their_time(database, history):
    """A site keeps a million of them in a few years."""
    history.fairness().close(CLUSTER, 0, [hour(n) for n in range(200)])
    engine = open_engine(f"sqlite:///{database}")
    with engine.connect() as conn:
        query = "SELECT * FROM fairness_entries WHERE cluster_id = 1 AND begin_time > 99999"
        plan = " ".join(str(row) for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}"))
    engine.dispose()
    assert "ix_fairness_entries_begin_time" in plan
