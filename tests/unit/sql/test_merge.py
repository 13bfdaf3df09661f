"""The merge of records is a join: the properties on which idempotent ingest rests."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import insert
from support import old_history
from support.history import GPUS, attempt, batch, pending, running, scalar, select, url_of
from support.servers import each_engine

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.model.merge import STATUS, claimed, join, pack_claims, unpack_claims, value
from gsched.model.past import HistoryFilter
from gsched.model.phases import PhaseRule, PhaseRules
from gsched.model.trace import AttemptColumns, TraceChunk, columns_of
from gsched_sql import History, IngestSummary, ingest
from gsched_sql.canonical import canonical_dump
from gsched_sql.engine import open_engine, reading, writing
from gsched_sql.ingest import merge_into
from gsched_sql.names import intern
from gsched_sql.schema import clusters, prune_marks

times = st.none() | st.integers(90, 130) | st.sampled_from([-5, 0, 2**39, 2**41, 2**62])
records = st.builds(
    AttemptRecord,
    cluster=st.sampled_from(["alpha", "beta"]),
    job_id=st.integers(1, 4),
    array_task=st.sampled_from([None, 0]),
    het_offset=st.none(),
    submit_time=st.sampled_from([100, 105, 800]),
    state=st.sampled_from(JobState),
    state_text=st.sampled_from(["X", "CANCELLED", "CANCELLED by 7", "CANCELLED by 8"]),
    source=st.sampled_from(["sacct", "jobcomp", "squeue", "elsewhere"]),
    user=st.sampled_from([None, "alice", "bob"]),
    tenant=st.sampled_from([None, "lab"]),
    name=st.none() | st.text(max_size=3),
    start_time=times,
    end_time=times,
    time_limit_s=st.sampled_from([None, 60, 120]),
    num_nodes=st.sampled_from([None, 0, 1]),
    num_gpus=st.sampled_from([None, 0, 2, 4]),
    restarts=st.sampled_from([None, 0, 1]),
    start_assumed=st.sampled_from([None, 1]),
    requested=st.sampled_from([(), (Tres("cpu", 1),), (Tres("b", 1), Tres("a", 2))]),
    node_list=st.sampled_from([None, "", "n1", "n[1-2]"]),
    num_cpus=st.sampled_from([None, 1, 2**62]),
    qos=st.sampled_from([None, "low"]),
    exit_code=st.sampled_from([None, 0, 1]),
    source_id=st.sampled_from([None, "a-1", "b\x00"]),
    phase=st.sampled_from([None, "sft", "debug"]),
    extra=st.sampled_from([None, '{"seed": "1"}', '{"seed": "2"}']),
)
RULES = PhaseRules((PhaseRule("eval", name="a"), PhaseRule("debug", user="bob", max_gpus=2)))


@given(records, records, records)
def test_join_is_commutative_associative_and_idempotent(one, two, three):
    a, b, c = claimed(one), claimed(two), claimed(three)
    assert join(a, b) == join(b, a)
    assert join(join(a, b), c) == join(a, join(b, c))
    assert join(a, a) == a
    assert join(join(a, b), b) == join(a, b)


@given(records, records)
def test_claims_survive_being_stored(one, two):
    fields = join(claimed(one), claimed(two))
    own, weaker = pack_claims(fields)
    values = {name: told.value for name, told in fields.items()}
    others = {name: told.others for name, told in fields.items()}
    assert unpack_claims(own, weaker, values, others) == fields


def canonical(database):
    """All that a database says of jobs."""
    engine = open_engine(url_of(database))
    with reading(engine) as conn:
        lines = list(canonical_dump(conn))
    engine.dispose()
    return lines


@settings(max_examples=40, deadline=None)
@given(data=st.data(), told=st.lists(records, min_size=1, max_size=10))
def test_any_order_grouping_and_repetition_gives_the_same_database(sqlite_template, data, told):
    again = data.draw(st.lists(st.sampled_from(told), max_size=4))
    shuffled = data.draw(st.permutations([*told, *again]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=4)))
    parts = [
        shuffled[i:j] for i, j in zip([0, *cuts], [*cuts, len(shuffled)], strict=True) if i < j
    ]
    with TemporaryDirectory() as folder:
        whole = shutil.copy(sqlite_template, Path(folder) / "whole.db")
        pieces = shutil.copy(sqlite_template, Path(folder) / "pieces.db")
        with History.open(f"sqlite:///{whole}", phase_rules=RULES) as history:
            history.ingest(batch(*told), source_key="once")
        for part in parts:
            with History.open(f"sqlite:///{pieces}", phase_rules=RULES) as history:
                summary = history.ingest(batch(*part), source_key="often")
                assert summary.rows_in == len(part)
                assert summary.rows_in == (
                    summary.attempts_new
                    + summary.attempts_updated
                    + summary.unchanged
                    + summary.rejected
                    + summary.pruned
                )
        assert canonical(pieces) == canonical(whole)


@settings(max_examples=40, deadline=None)
@given(told=st.lists(records, min_size=1, max_size=10))
def test_the_quick_way_in_writes_what_the_merge_would(sqlite_template, told):
    with TemporaryDirectory() as folder:
        quick = shutil.copy(sqlite_template, Path(folder) / "quick.db")
        merged = shutil.copy(sqlite_template, Path(folder) / "merged.db")
        with History.open(f"sqlite:///{quick}", phase_rules=RULES) as history:
            first = history.ingest(batch(*told), source_key=None)
            chunk = TraceChunk(columns_of(told), rows_in=len(told))
            second = history.import_chunk(chunk, source_key=None, cursor="")
        engine = open_engine(f"sqlite:///{merged}")
        new = conflicts = 0
        with writing(engine) as conn:
            for cluster in {r.cluster for r in told}:
                number = intern(conn, clusters, [cluster])[cluster]
                mine = [r for r in told if r.cluster == cluster]
                made = merge_into(conn, cluster, number, mine, RULES)
                new, conflicts = new + made.new, conflicts + made.conflicts
        engine.dispose()
        assert canonical(quick) == canonical(merged)
        assert (first.attempts_new, first.conflicts) == (new, conflicts)
        assert (second.unchanged, second.conflicts) == (len(told), 0)


def test_rows_like_those_of_a_trace_go_in_by_the_quick_way_only(history, monkeypatch):
    def merge(conn, cluster, cluster_id, records, rules):
        assert not records
        return real(conn, cluster, cluster_id, records, rules)

    real = ingest.merge_into
    monkeypatch.setattr(ingest, "merge_into", merge)
    told = [attempt(n, 1000 + n, allocated=GPUS) for n in range(50)]
    chunk = TraceChunk(columns_of(told), rows_in=50)
    assert history.import_chunk(chunk, source_key="f", cursor="1").attempts_new == 50
    assert history.import_chunk(chunk, source_key="f", cursor="2").unchanged == 50
    assert history.cursor("f") == "2"
    empty = TraceChunk(AttemptColumns(0, {}))
    assert history.import_chunk(empty, source_key="f", cursor="3") == IngestSummary()
    assert history.cursor("f") == "3"


def mixed():
    """Rows of every kind, many of them alike, as chunks of a file."""
    told = [
        *old_history.records(),
        *(attempt(1000 + n, 7 * n, user=f"u{n % 9}") for n in range(300)),
    ]
    texts = replace(attempt(9999), source_id="\x00 id", extra='{"a": "b"}', phase="sft", name="é ")
    told += [attempt(1, partition="other"), attempt(4, array_task=1, name=None), texts]
    return [TraceChunk(columns_of(told[n::3]), rows_in=len(told[n::3])) for n in range(3)]


@each_engine
def test_every_engine_says_the_same_of_the_same_rows(history, database, sqlite_template, tmp_path):
    alone = shutil.copy(sqlite_template, tmp_path / "alone.db")
    for chunk in mixed():
        history.import_chunk(chunk, source_key="f", cursor="")
    for chunk in mixed():
        again = history.import_chunk(chunk, source_key="f", cursor="")
        assert again.unchanged == again.rows_in
    with History.open(f"sqlite:///{alone}") as other:
        for chunk in reversed(mixed()):
            other.ingest(batch(*chunk.attempts.records()), source_key=None)
    assert canonical(database) == canonical(alone)
    assert len(history.jobs(HistoryFilter(users=("u1",)))) == 34
    assert scalar(database, "SELECT count(*) FROM conflicts") == 1


def conflicts_of(database):
    """(field, value not kept) of all attempts."""
    rows = select(database, "SELECT field, value FROM conflicts ORDER BY 1, 2")
    return [(field, json.loads(value)) for field, value in rows]


def test_equal_claims_that_differ_are_conflicts_until_a_stronger_one_settles_them(
    history, database
):
    one, two = attempt(partition="gpu"), attempt(partition="cpu", num_gpus=4)
    assert history.ingest(batch(one), source_key=None).conflicts == 0
    told = history.ingest(batch(two), source_key=None)
    assert (told.attempts_updated, told.conflicts) == (1, 2)
    assert conflicts_of(database) == [("num_gpus", 2), ("partition", "cpu")]
    (job,) = history.jobs(HistoryFilter())
    assert (job.partition, job.num_gpus) == ("gpu", 4)  # the greater of each
    assert history.ingest(batch(one, two), source_key="again").conflicts == 0
    third = attempt(partition="abc", allocated=())
    assert history.ingest(batch(third), source_key=None).conflicts == 1
    assert ("partition", "abc") in conflicts_of(database)
    history.ingest(batch(attempt(end_time=1111, partition=None, num_gpus=3)), source_key=None)
    assert conflicts_of(database) == [("partition", "abc"), ("partition", "cpu")]
    history.ingest(batch(attempt(end_time=1112)), source_key=None)
    assert conflicts_of(database) == []


def test_conflicts_of_states_and_resources_come_back_as_they_were(history, database):
    one = attempt(allocated=(Tres("cpu", 8),))
    two = attempt(state=JobState.FAILED, allocated=(Tres("cpu", 9),))
    history.ingest(batch(one, two), source_key=None)
    assert conflicts_of(database) == [
        ("allocated", [["cpu", 8]]),
        ("status", ["COMPLETED", "COMPLETED", "sacct"]),
    ]
    assert history.ingest(batch(two, one), source_key="again").attempts_updated == 0


def test_who_cancelled_a_job_is_no_conflict_with_a_source_that_does_not_say(history, database):
    told = [
        attempt(state=JobState.CANCELLED, state_text=text)
        for text in ("CANCELLED", "CANCELLED by 5", "CANCELLED")
    ]
    for one in told:
        assert history.ingest(batch(one), source_key=None).conflicts == 0
    assert history.jobs(HistoryFilter())[0].state_text == "CANCELLED by 5"
    other = replace(told[0], state_text="CANCELLED by 6")
    assert history.ingest(batch(other), source_key=None).conflicts == 1
    assert conflicts_of(database) == [("status", ["CANCELLED", "CANCELLED by 5", "sacct"])]


def test_what_is_altered_while_a_job_waits_or_runs_is_no_conflict(history, database):
    history.ingest(batch(pending(time_limit_s=60), running(8)), source_key=None)
    told = history.ingest(
        batch(pending(time_limit_s=120), running(8, time_limit_s=120)), source_key="squeue"
    )
    assert told.conflicts == 0
    assert conflicts_of(database) == []


@pytest.mark.parametrize(
    ("record", "pruned"),
    [
        (attempt(1, 100, end_time=999), 1),
        (attempt(1, 100, end_time=1000), 0),
        (running(1, 999), 1),  # an old file says that it runs
        (running(1, 1000), 0),
        (attempt(2, 500, state=JobState.FAILED, end_time=600), 0),  # known: it still runs here
    ],
)
def test_rows_of_a_time_that_has_been_pruned_are_left_out_and_counted(
    history, database, record, pruned
):
    history.ingest(batch(running(2, 500)), source_key=None)
    with writing(history._engine) as conn:
        conn.execute(insert(prune_marks).values(cluster_id=1, ended_before=1000))
    summary = history.ingest(batch(record, attempt(3, 5000)), source_key="s")
    assert (summary.rows_in, summary.pruned) == (2, pruned)
    assert summary.attempts_new + summary.attempts_updated == 2 - pruned
    assert scalar(database, "SELECT count(*) FROM attempts") == 2 + summary.attempts_new - 1
    assert history.ingest(batch(replace(record, cluster="beta")), source_key=None).pruned == 0


def test_a_weaker_source_completes_what_the_stronger_leaves_open(history):
    jobcomp = attempt(source="jobcomp", num_gpus=None, allocated=(), qos=None)
    history.ingest(batch(jobcomp), source_key=None)
    history.ingest(batch(running(partition="other")), source_key=None)
    fields = join(claimed(jobcomp), claimed(running(partition="other")))
    assert value(fields, "num_gpus") == 2
    assert value(fields, "qos") == "normal"
    assert value(fields, "partition") == "gpu"
    assert value(fields, "end_time") == 1110
    assert fields[STATUS].value == ("COMPLETED", "COMPLETED", "jobcomp")


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        (pending(), running()),
        (running(), attempt(source="squeue")),
        (running(source="sacct"), attempt(source="squeue")),
        (attempt(source="squeue"), attempt(source="jobcomp")),
        (attempt(source="jobcomp"), attempt(source="sacct")),
        (attempt(source="sacct"), attempt(source="squeue", end_time=1111)),
        (pending(source="sacct"), running(state=JobState.COMPLETING)),
        (attempt(state=JobState.UNKNOWN, end_time=None), pending()),
        (running(), attempt(state=JobState.UNKNOWN, source="squeue")),
        (attempt(state=JobState.UNKNOWN), attempt(source="squeue")),
    ],
)
def test_the_stronger_claim_wins_whatever_the_order(weaker, stronger):
    weaker = replace(weaker, partition="weak")
    for fields in (
        join(claimed(weaker), claimed(stronger)),
        join(claimed(stronger), claimed(weaker)),
    ):
        assert value(fields, "partition") == "gpu"
        assert fields[STATUS] == claimed(stronger)[STATUS]


def test_plans_of_slurm_are_not_taken_for_what_happened():
    waiting = claimed(pending(start_time=5000, end_time=6000))
    assert value(waiting, "start_time") is None
    assert value(waiting, "end_time") is None
    assert value(claimed(running(end_time=9999)), "end_time") is None


def test_a_requeue_in_progress_tells_neither_start_nor_restarts():
    # Recorded: squeue shows the old submit time, the start moves with the clock, RestartCnt is 1.
    requeued = running(state=JobState.COMPLETING, start_time=1234, restarts=1)
    fields = join(claimed(running()), claimed(requeued))
    assert value(fields, "start_time") == 1010
    assert value(fields, "restarts") == 0


@pytest.mark.parametrize(
    "record",
    [
        attempt(state=JobState.CANCELLED, source="jobcomp", num_nodes=0, node_list=None),
        attempt(state=JobState.CANCELLED, source="squeue", start_time=1110, node_list=None),
    ],
)
def test_a_job_cancelled_before_its_start_has_none(record):
    assert value(claimed(replace(record, start_time=record.end_time)), "start_time") is None


def test_a_job_that_ran_for_no_second_did_start():
    assert value(claimed(attempt(start_time=1110)), "start_time") == 1110


def test_a_job_that_completed_at_once_keeps_its_start_without_nodes():
    instant = attempt(start_time=1110, node_list=None)
    assert value(claimed(instant), "start_time") == 1110
    assert value(claimed(replace(instant, state=JobState.FAILED)), "start_time") is None
