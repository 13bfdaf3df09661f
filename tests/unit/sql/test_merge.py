"""The merge of records is a join: the properties on which idempotent ingest rests."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.history import attempt, batch, dump, pending, running

from gsched.model.history import AttemptRecord, Tres
from gsched.model.job import JobState
from gsched.model.merge import STATUS, claimed, join, pack_claims, unpack_claims, value
from gsched_sql import History

small_times = st.none() | st.integers(90, 130)
records = st.builds(
    AttemptRecord,
    cluster=st.sampled_from(["alpha", "beta"]),
    job_id=st.integers(1, 2),
    array_task=st.sampled_from([None, 0]),
    het_offset=st.none(),
    submit_time=st.sampled_from([100, 105, 800]),
    state=st.sampled_from(JobState),
    state_text=st.sampled_from(["X", "CANCELLED by 7"]),
    source=st.sampled_from(["sacct", "jobcomp", "squeue", "elsewhere"]),
    user=st.sampled_from([None, "alice", "bob"]),
    tenant=st.sampled_from([None, "lab"]),
    name=st.none() | st.text(max_size=3),
    start_time=small_times,
    end_time=small_times,
    time_limit_s=st.sampled_from([None, 60, 120]),
    num_nodes=st.sampled_from([None, 0, 1]),
    num_gpus=st.sampled_from([None, 0, 2, 4]),
    restarts=st.sampled_from([None, 0, 1]),
    requested=st.sampled_from([(), (Tres("cpu", 1),), (Tres("b", 1), Tres("a", 2))]),
    node_list=st.sampled_from([None, "n1"]),
)


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
    assert unpack_claims(own, weaker, {name: v for name, (_, v) in fields.items()}) == fields


@settings(max_examples=60, deadline=None)
@given(data=st.data(), told=st.lists(records, min_size=1, max_size=8))
def test_any_order_grouping_and_repetition_gives_the_same_database(empty_database, data, told):
    again = data.draw(st.lists(st.sampled_from(told), max_size=4))
    shuffled = data.draw(st.permutations([*told, *again]))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(shuffled)), max_size=4)))
    parts = [
        shuffled[i:j] for i, j in zip([0, *cuts], [*cuts, len(shuffled)], strict=True) if i < j
    ]
    with TemporaryDirectory() as folder:
        whole = shutil.copy(empty_database, Path(folder) / "whole.db")
        pieces = shutil.copy(empty_database, Path(folder) / "pieces.db")
        with History.open(f"sqlite:///{whole}") as history:
            history.ingest(batch(*told), source_key="once")
        for part in parts:
            with History.open(f"sqlite:///{pieces}") as history:
                summary = history.ingest(batch(*part), source_key="often")
                assert summary.rows_in == len(part)
        assert dump(pieces) == dump(whole)


def test_a_weaker_source_completes_what_the_stronger_leaves_open(history):
    jobcomp = attempt(source="jobcomp", num_gpus=None, allocated=(), qos=None)
    history.ingest(batch(jobcomp), source_key=None)
    history.ingest(batch(running(partition="other")), source_key=None)
    fields = join(claimed(jobcomp), claimed(running(partition="other")))
    assert value(fields, "num_gpus") == 2
    assert value(fields, "qos") == "normal"
    assert value(fields, "partition") == "gpu"
    assert value(fields, "end_time") == 1110
    assert fields[STATUS][1] == ("COMPLETED", "COMPLETED", "jobcomp")


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
