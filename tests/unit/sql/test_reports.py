"""Sums over groups, and lists page by page: the database and plain Python say the same."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.history import attempt, batch, pending, running

from gsched.model.job import JobState
from gsched.model.past import HistoryFilter, logical_jobs
from gsched.model.usage_groups import GROUPINGS, Sums, grouped
from gsched_sql import History
from gsched_sql.engine import open_engine
from gsched_sql.prune import prune

DAY = 86_400

RECORDS = (
    attempt(1, 1000, name="train-1", phase="pretrain"),
    attempt(2, 2000, name="train-2", user="bob", state=JobState.FAILED),
    attempt(3, 3000, user="bob", state=JobState.REQUEUED, restarts=0),
    attempt(3, 3111, user="bob", restarts=1),
    attempt(4, 40 * DAY, tenant="lab2", qos="high", num_gpus=None, allocated=(), phase="eval"),
    attempt(5, 40 * DAY, user="carol", partition="cpu", num_gpus=0, node_list="n[2-3]"),
    attempt(6, 41 * DAY, array_task=2, state=JobState.CANCELLED, start_time=None, node_list=None),
    attempt(6, 41 * DAY, array_task=11, state=JobState.NODE_FAIL, num_gpus=16),
    attempt(6, 41 * DAY, het_offset=1, cluster="beta", state=JobState.TIMEOUT),
    pending(7, 42 * DAY, partition="gpu,cpu", name="eval-7"),
    running(8, 42 * DAY, user=None, tenant=None, name=None),
)


@pytest.fixture
def history(database_url):
    with History.open(database_url) as opened:
        opened.ingest(batch(*RECORDS), source_key=None)
        yield opened


FILTERS = (
    HistoryFilter(),
    HistoryFilter(users=("bob",)),
    HistoryFilter(tenants=("lab2", "nobody")),
    HistoryFilter(partitions=("cpu",)),
    HistoryFilter(states=(JobState.FAILED, JobState.NODE_FAIL)),
    HistoryFilter(names=("train",)),
    HistoryFilter(qos=("high",)),
    HistoryFilter(phases=("eval", "sft")),
    HistoryFilter(phases=("eval", None)),
    HistoryFilter(node_names=("n3", "n9")),
    HistoryFilter(clusters=("beta",)),
    HistoryFilter(since=40 * DAY),
    HistoryFilter(since=1110),  # when job 1 ends
    HistoryFilter(since=1111),
    HistoryFilter(until=40 * DAY + 1, since=2000),
    HistoryFilter(job_id=6),
    HistoryFilter(job_id=6, array_task=11),
    HistoryFilter(job_id=6, het_offset=1),
    HistoryFilter(users=("nobody",)),
)


def test_the_database_and_python_choose_and_sum_up_alike(history):
    jobs = logical_jobs(RECORDS)
    for wanted in FILTERS:
        taken = [job for job in jobs if wanted.takes(job)]
        assert [job.key for job in history.jobs(wanted)] == [job.key for job in taken], wanted
        for by in GROUPINGS:
            expected = grouped(taken, by, None)
            found = history.usage_by(wanted, by)
            assert found.total.by_state == expected.total.by_state, (wanted, by)
            assert [(g.key, g.by_state) for g in found.groups] == [
                (g.key, g.by_state) for g in expected.groups
            ], (wanted, by)


def test_sums_with_the_number_of_jobs_that_they_are_over(history):
    groups = {g.key: g for g in history.usage_by(HistoryFilter(), "user").groups}
    assert groups["bob"].total == Sums(
        jobs=2, attempts=3, gpu_time_jobs=2, gpu_time_s=200 + 400, cpu_time_jobs=2,
        cpu_time_s=800 + 1600, duration_jobs=2, duration_s=200, queueing_jobs=2,
        queueing_s=10 + 21,
    )  # fmt: skip
    assert groups["bob"].failed.gpu_time_s == 200
    assert groups["alice"].of({JobState.PENDING}) == Sums(jobs=1, attempts=1)
    alice = groups["alice"].total
    assert (alice.jobs, alice.gpu_time_jobs) == (6, 4)  # one has no GPUs told, one has not ended
    assert groups[None].total.jobs == 1


def test_names_are_put_together_with_examples(history):
    groups = {g.key: g for g in history.usage_by(HistoryFilter(), "name").groups}
    assert groups["train-#"].total.jobs == 2
    assert set(groups["train-#"].examples) == {"train-1", "train-2"}
    assert groups[None].examples == ()


def test_days_and_months_are_in_order_and_those_not_ended_last(history):
    days = [g.key for g in history.usage_by(HistoryFilter(), "day").groups]
    assert days == ["1970-01-01", "1970-02-10", "1970-02-11", None]
    months = history.usage_by(HistoryFilter(), "month").groups
    assert [(g.key, g.total.jobs) for g in months] == [("1970-01", 3), ("1970-02", 5), (None, 2)]


def test_groups_are_limited_and_the_total_is_not(history):
    found = history.usage_by(HistoryFilter(limit=1), "account")
    assert [g.key for g in found.groups] == ["lab1"]
    assert (found.num_groups, found.total.total.jobs) == (3, 10)


def test_pages_give_every_job_once_in_order(history):
    whole = [job.key for job in history.jobs(HistoryFilter())]
    assert len(set(whole)) == len(whole) == 10
    for size in (1, 3, 4):
        paged: list = []
        last = None
        while page := history.jobs(HistoryFilter(limit=size, after=last)):
            paged += [job.key for job in page]
            last = paged[-1]
        assert paged == whole


def test_of_many_jobs_of_a_user_the_right_ones_are_found(history, monkeypatch):
    wanted = HistoryFilter(users=("alice", "bob"), since=3000, limit=4)
    few = history.jobs(wanted)
    monkeypatch.setattr("gsched_sql.job_filters.MAX_IN_LIST", 2)  # as if these were many
    assert history.jobs(wanted) == few
    assert len(few) == 4


def test_a_page_goes_on_where_jobs_have_come_and_gone(history):
    first = history.jobs(HistoryFilter(limit=3))
    history.ingest(batch(attempt(99, 50 * DAY)), source_key=None)
    rest = history.jobs(HistoryFilter(after=first[-1].key))
    assert len(rest) == 7
    assert {job.key for job in rest}.isdisjoint(job.key for job in first)
    gone = replace(first[-1].key, cluster="gone")  # a cluster that the database does not have
    assert history.jobs(HistoryFilter(after=gone)) == rest


def test_what_pruned_jobs_have_left_is_counted_where_it_can_be_told_apart(history, database_url):
    before = {by: history.usage_by(HistoryFilter(), by) for by in GROUPINGS}
    one_user = history.usage_by(HistoryFilter(users=("bob",)), "phase")
    engine = open_engine(database_url)
    prune(engine, 40 * DAY)
    engine.dispose()
    assert len(history.jobs(HistoryFilter())) == 7
    for by in GROUPINGS:
        found = history.usage_by(HistoryFilter(), by)
        if by in ("name", "qos"):
            assert (found.pruned_jobs, found.pruned_left_out) == (0, 3)
            assert found.total.total.jobs == 7
        else:
            assert (found.pruned_jobs, found.pruned_left_out) == (3, 0)
            assert found.groups == before[by].groups, by
    of_bob = history.usage_by(HistoryFilter(users=("bob",)), "phase")
    assert of_bob.groups == one_user.groups
    assert history.usage_by(HistoryFilter(since=40 * DAY), "user").pruned_jobs == 0
    # Of a day that is asked for in part all is counted.
    assert history.usage_by(HistoryFilter(since=3000), "user").pruned_jobs == 3
    assert history.usage_by(HistoryFilter(phases=("pretrain",)), "user").pruned_jobs == 1
    assert history.usage_by(HistoryFilter(job_id=1), "user").pruned_left_out == 3
