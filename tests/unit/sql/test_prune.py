"""Pruning: each job is whole or in the sums, before and after, whatever happens in between."""

from __future__ import annotations

import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.history import CLUSTER, attempt, batch, pending, running, scalar, select, url_of
from support.journal import change, round_info
from support.whole_history import GPU, contents, fill, usage

from gsched.errors import DataError
from gsched.model.job import JobKey, JobState
from gsched.model.journal import ChangeState
from gsched.model.phases import NO_RULES
from gsched_sql import History, maintenance, prune
from gsched_sql.findings import KINDS

NOW = 1_800_000_000


def is_sound(database):
    return not maintenance.check(url_of(database), NO_RULES, NOW).is_damaged


def test_old_jobs_go_and_their_sums_stay_on_every_engine(database_url, tmp_path):
    fill(database_url)
    before = usage(database_url)
    (plan,) = maintenance.plan_prune(database_url, 12_000)
    assert (plan.cluster, plan.jobs, plan.attempts) == (CLUSTER, 10, 11)  # 7 and 100 to 108
    assert (plan.first_end, plan.last_end, plan.unfinished) == (1310, 11_910, 1)
    gone = maintenance.prune(database_url, 12_000).counts
    assert gone | {"texts": 0} == {
        "jobs": 10,
        "attempts": 11,
        "predictions": 1,
        "requests": 1,
        "leases": 1,
        "targets": 1,
        "actions": 1,
        "rounds": 0,  # the policy's memory and job 8's change rest on it
        "spans": 1,  # not the newest one
        "fits": 1,  # nor here
        "node_orders": 1,  # the other is not settled
        "power_spans": 2,  # the third lasts
        "pool_counts": 2,
        "wake_delays": 2,
        "sample_blocks": 1,
        "texts": 0,
    }
    assert gone["texts"] >= 10
    assert usage(database_url) == before
    assert scalar(database_url, "SELECT count(*) FROM jobs") == 22
    assert is_sound(database_url)
    empty = ("conflicts", "steps", "prediction_quantiles", "lease_events", "standings")
    empty += ("targets", "target_runs", "target_events")
    empty += ("power_jobs", "wake_delays")
    rows = contents(database_url, tmp_path)
    assert {name: rows[name][0] for name in empty} == dict.fromkeys(empty, 0) | {"standings": 1}
    unused = maintenance.check(database_url, NO_RULES, NOW).findings
    assert "unused" not in {finding.kind for finding in unused}
    after = contents(database_url, tmp_path)
    assert maintenance.prune(database_url, 12_000).counts == dict.fromkeys(prune.KINDS, 0)
    assert contents(database_url, tmp_path) == after
    with History.open(database_url) as history:
        assert history.stats().prune_marks == {CLUSTER: 12_000}
        assert history.leases().events("l1") == []


def test_what_was_pruned_is_not_taken_in_again(database):
    rows = [attempt(n, 1000 + n) for n in range(50)]
    with History.open(url_of(database)) as history:
        history.ingest(batch(*rows), source_key=None)
    before = usage(database)
    maintenance.prune(url_of(database), 1135)
    with History.open(url_of(database)) as history:
        again = history.ingest(batch(*rows, pending(3, 1003)), source_key=None)
    assert (again.pruned, again.attempts_new) == (26, 0)
    assert usage(database) == before
    assert scalar(database, "SELECT count(*) FROM jobs") == 25


END = st.integers(1000, 400_000)
JOBS = st.lists(
    st.tuples(
        st.integers(1, 15),  # job
        END,  # submit
        st.integers(0, 200_000),  # run
        st.sampled_from(["ann", "ben", None]),
        st.sampled_from([0, 1, 8, None]),
        st.sampled_from([JobState.COMPLETED, JobState.FAILED, JobState.REQUEUED, JobState.RUNNING]),
    ),
    max_size=30,
)


@given(jobs=JOBS, cuts=st.lists(END, min_size=1, max_size=3), at_once=st.integers(1, 5))
@settings(max_examples=15)
def test_sums_never_change(jobs, cuts, at_once, tmp_path_factory, sqlite_template):
    database = tmp_path_factory.mktemp("p") / "h.db"
    shutil.copy(sqlite_template, database)
    rows = [
        attempt(job, submit, start_time=submit + 5, end_time=submit + 5 + run, user=user,
                num_gpus=gpus, state=state)
        for job, submit, run, user, gpus, state in jobs
    ]  # fmt: skip
    with History.open(url_of(database)) as history:
        history.ingest(batch(*rows), source_key=None)
    before = usage(database)
    number = prune._JOBS_AT_ONCE
    prune._JOBS_AT_ONCE = at_once
    try:
        for cut in cuts:
            maintenance.prune(url_of(database), cut)
            assert usage(database) == before
            assert scalar(database, f"SELECT count(*) FROM jobs WHERE end_time < {cut}") == 0
    finally:
        prune._JOBS_AT_ONCE = number
    with History.open(url_of(database)) as history:
        known = history.stats().rows["jobs"]
        gone = [r for r in rows if r.submit_time + 200_005 < max(cuts)]
        history.ingest(batch(*gone), source_key=None)  # the same old rows again
        assert history.stats().rows["jobs"] == known
    assert usage(database) == before


def test_one_cluster_alone_is_pruned_when_told(database):
    with History.open(url_of(database)) as history:
        history.ingest(batch(attempt(1), attempt(1, cluster="beta")), source_key=None)
    assert len(maintenance.plan_prune(url_of(database), 9999)) == 2
    assert maintenance.prune(url_of(database), 9999, ["beta"]).counts["jobs"] == 1
    assert select(database, "SELECT c.name FROM jobs j JOIN clusters c ON c.id = j.cluster_id") == [
        (CLUSTER,)
    ]
    with History.open(url_of(database)) as history:
        assert history.stats().prune_marks == {"beta": 9999}


def test_an_earlier_prune_does_not_take_the_mark_back(database):
    with History.open(url_of(database)) as history:
        history.ingest(batch(attempt(1), attempt(2, 5000)), source_key=None)
    maintenance.prune(url_of(database), 3000)
    maintenance.prune(url_of(database), 2000)
    with History.open(url_of(database)) as history:
        assert history.stats().prune_marks == {CLUSTER: 3000}


def test_jobs_that_are_not_over_stay_with_all_that_is_about_them(database):
    with History.open(url_of(database)) as history:
        requeued = attempt(7, 1000, state=JobState.REQUEUED)
        history.ingest(batch(requeued, pending(8, 1000)), source_key=None)
        journal = history.journal()
        journal.begin_round(round_info("r1"))
        journal.record("r1", [change("c1", 0, 5)], ChangeState.OBSERVED, 2000)
        journal.end_round("r1", 2001, {}, {})
    gone = maintenance.prune(url_of(database), 10_000).counts
    assert gone == dict.fromkeys(prune.KINDS, 0)
    assert scalar(database, "SELECT count(*) FROM jobs") == 2
    assert scalar(database, "SELECT count(*) FROM actions") == 1


def test_the_journal_of_jobs_that_nobody_told_of_goes_by_its_age(database):
    with History.open(url_of(database)) as history:
        journal = history.journal()
        for number in range(4):
            round_id = f"r{number}"
            at = 1000 * number
            journal.begin_round(round_info(round_id, started_at=at))
            key = JobKey(CLUSTER, 50 + number, epoch=at)
            state = ChangeState.INTENT if number == 1 else ChangeState.OBSERVED
            changes = [change(f"c{number}", 0, 5, key=key, attempt=at)]
            journal.record(round_id, changes, state, at)
            journal.end_round(round_id, at, {}, {})
    gone = maintenance.prune(url_of(database), 2500).counts
    # The change of round 1 is not settled; round 3 is young.
    assert (gone["actions"], gone["rounds"]) == (2, 2)
    assert select(database, "SELECT change_id FROM actions ORDER BY 1") == [("c1",), ("c3",)]
    assert select(database, "SELECT round_id FROM rounds ORDER BY 1") == [("r1",), ("r3",)]
    assert select(database, "SELECT count(*) FROM audit_events") == [(4,)]
    assert is_sound(database)


def test_a_cluster_that_nobody_knows_is_no_empty_prune(database):
    with History.open(url_of(database)) as history:
        history.ingest(batch(attempt(1), attempt(2, cluster="beta")), source_key=None)
    for work in (maintenance.plan_prune, maintenance.prune):
        with pytest.raises(DataError, match="knows no cluster alpah") as caught:
            work(url_of(database), 9999, ["alpah", "beta"])
        assert caught.value.hint == "it knows alpha, beta"
    assert scalar(database, "SELECT count(*) FROM prune_marks") == 0


def test_a_job_whose_end_is_told_after_a_prune_is_left_by_none(database):
    with History.open(url_of(database)) as history:
        history.ingest(batch(running(1), attempt(2)), source_key=None)
        maintenance.prune(url_of(database), 5000)
        history.ingest(batch(attempt(1)), source_key=None)
    found = {f.kind: f for f in maintenance.check(url_of(database), NO_RULES, NOW).findings}
    assert found["prunable"].count == 1
    assert "told later" in KINDS["prunable"].meaning
    assert maintenance.prune(url_of(database), 5000).counts["jobs"] == 1


def test_samples_of_pruned_times_stay_as_means(database):
    with History.open(url_of(database)) as history:
        history.ingest(batch(attempt(1)), source_key=None)
        history.samples().append(GPU, 10, [(10.0 * n, 50.0) for n in range(2000)])
    assert maintenance.prune(url_of(database), 10_800).counts["sample_blocks"] == 1
    with History.open(url_of(database)) as history:
        found = history.samples().read(GPU, 0, 10_800)
    assert [(s.time, s.interval_s, s.value) for s in found] == [
        (3600.0 * n, 3600.0, 50.0) for n in range(3)
    ]


def test_space_is_given_back(database):
    rng = random.Random(1)
    rows = [attempt(n, 1000 + n, name=f"{rng.random()}" * 20) for n in range(2000)]
    with History.open(url_of(database)) as history:
        history.ingest(batch(*rows), source_key=None)
    maintenance.prune(url_of(database), 2500)
    before, after = maintenance.give_space_back(url_of(database))
    assert after < before * 0.6
    assert is_sound(database)


def test_sums_beyond_64_bits_do_not_stop_a_prune(database):
    far = 2**62
    rows = [
        attempt(n, 0, start_time=0, end_time=far - n, num_gpus=1, allocated=()) for n in range(1, 5)
    ]
    with History.open(url_of(database)) as history:
        history.ingest(batch(*rows), source_key=None)
    maintenance.prune(url_of(database), far)
    assert scalar(database, "SELECT sum(jobs) FROM usage_days") == 4
    assert scalar(database, "SELECT max(gpu_time_s) FROM usage_days") == 2**63 - 1
