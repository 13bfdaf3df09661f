"""Rows of squeue as values of the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gsched.model.history import Tres
from gsched.model.job import (
    Allocation,
    Capability,
    CountRange,
    Exclusion,
    GpuOption,
    GpuRange,
    JobKey,
    JobState,
    Wants,
)
from gsched.slurm.from_queue import to_attempt, to_view
from gsched.slurm.parse_queue import parse_free_text, parse_queue
from gsched.slurm.records import FreeText


@pytest.fixture
def jobs(recorded, separator):
    texts = parse_free_text(recorded("squeue-text.txt"), separator)
    rows = parse_queue(recorded("squeue.txt"), separator).rows
    return {texts[row.raw_id].name: (row, texts[row.raw_id]) for row in rows}


def view(row, text, exclusions=(), wants=Wants()):  # noqa: B008
    key = JobKey("bed", row.job_id, row.array_task, row.het_offset, row.submit_time - 100)
    return to_view(row, text.name, key, wants, exclusions)


def test_a_pending_job(jobs):
    row, text = jobs["two-nodes"]
    seen = view(row, text)
    assert (seen.name, seen.state, seen.user) == ("two-nodes", JobState.PENDING, "root")
    assert (seen.first_submit, seen.attempt) == (row.submit_time - 100, row.submit_time)
    assert seen.request.nodes == CountRange(2, 2)
    assert seen.request.gpus == GpuRange(16, 16)
    assert seen.request.gpu_options == (GpuOption("a100", 16),)
    assert seen.request.mem_bytes == 2000 * 2**20
    assert seen.time_limit_s == 2 * 86400
    assert seen.pending_reason.startswith("ReqNodeNotAvail")
    assert (seen.allocation, seen.wants) == (None, Wants())


def test_what_was_asked_is_handed_on(jobs):
    assert view(*jobs["j.sh"], wants=Wants(deadline=7)).wants == Wants(deadline=7)


@pytest.mark.parametrize(
    ("tasks", "number"), [("0-499%20", 500), ("1,3-7:2", 4), ("0-49,...", 1)], ids=str
)
def test_an_array_that_is_not_split_tells_how_many_of_it_wait(jobs, tasks, number):
    row, text = jobs["two-nodes"]
    assert view(row, text).waiting_tasks == 1
    whole = replace(row, is_unsplit_array=True, array_tasks=tasks)
    assert view(whole, text).waiting_tasks == number


def test_exclusions_are_handed_on(jobs):
    exclusion = Exclusion(Capability.REORDER, "cron", "x")
    assert view(*jobs["two-nodes"], (exclusion,)).exclusions == (exclusion,)


def test_a_running_job_has_its_nodes(jobs):
    row, text = jobs["run-any"]
    seen = view(row, text)
    assert seen.allocation == Allocation(("gn03",), (3,), row.start_time)
    assert seen.pending_reason == ""
    spread = view(replace(row, node_list="gn[01-03]", num_gpus=5), text)
    assert spread.allocation.nodes == ("gn01", "gn02", "gn03")
    assert spread.allocation.gpus == (2, 2, 1)


def test_a_node_list_that_is_not_understood_is_no_allocation(jobs):
    row, text = jobs["run-any"]
    assert view(replace(row, node_list="bg[000x333"), text).allocation is None


def test_no_nodes_or_no_start_yet_is_no_allocation(jobs):
    row, text = jobs["run-any"]
    assert view(replace(row, node_list=""), text).allocation is None
    assert view(replace(row, start_time=None), text).allocation is None
    assert view(replace(row, state=JobState.FAILED), text).allocation is None


def test_a_sighting_of_a_running_job(jobs):
    row, text = jobs["run-typed"]
    seen = to_attempt(row, text, "bed")
    assert (seen.cluster, seen.source, seen.name) == ("bed", "squeue", "run-typed")
    assert (seen.start_time, seen.end_time) == (row.start_time, None)  # not the announced end
    assert (seen.num_gpus, seen.node_list) == (2, "gn01")
    assert Tres("gres/gpu:a100", 2) in seen.allocated
    assert seen.requested == ()
    assert (seen.submit_time, seen.user, seen.tenant) == (row.submit_time, "root", "root")
    assert to_attempt(*jobs["requeued"], "bed").restarts == 1
    assert to_attempt(row, None, "bed").name is None  # not read yet: nothing is claimed


def test_a_sighting_of_a_pending_job_claims_no_start(jobs):
    row, text = jobs["later"]
    assert row.start_time is not None  # --begin announces one
    seen = to_attempt(row, text, "bed")
    assert (seen.start_time, seen.end_time) == (None, None)
    assert seen.eligible_time == row.eligible_time
    assert seen.requested
    assert seen.allocated == ()


def test_a_sighting_of_an_ended_job(jobs):
    row, text = jobs["ended"]
    seen = to_attempt(row, text, "bed")
    assert (seen.state, seen.end_time) == (JobState.FAILED, row.end_time)
    assert seen.start_time is not None
    never, text = jobs["never"]
    seen = to_attempt(never, text, "bed")
    assert (seen.state, seen.start_time) == (JobState.CANCELLED, None)
    assert never.start_time is not None  # Slurm shows its end here
    assert seen.end_time is not None


def test_an_unknown_state_claims_nothing(jobs):
    row, text = jobs["run-typed"]
    odd = replace(row, state=JobState.UNKNOWN, state_text="EXPEDITING")
    seen = to_attempt(odd, text, "bed")
    assert (seen.state, seen.state_text) == (JobState.UNKNOWN, "EXPEDITING")
    assert (seen.start_time, seen.end_time) == (None, None)


def test_partitions_and_empty_texts(jobs):
    assert to_attempt(*jobs["mixed-types"], "bed").partition == "gpu,long"
    row, _ = jobs["two-nodes"]
    seen = to_attempt(replace(row, tenant="", qos="", node_list=""), FreeText("", ""), "bed")
    assert (seen.tenant, seen.qos, seen.node_list, seen.name) == (None, None, None, "")


def test_an_array_that_waits_as_a_whole_is_no_attempt(jobs):
    row, text = jobs["striped"]
    assert row.is_unsplit_array
    assert to_attempt(row, text, "bed") is None


@pytest.mark.parametrize(
    ("comment", "phase"),
    [
        ("mine gs1{phase=eval+debug,n=2}", "eval"),
        ("gs1{none,phase=sft}", "sft"),
        ("gs1{share}", None),
        ("gs1{phase=other}", None),  # no word of the token: it asks for nothing
        ("phase=eval", None),
    ],
)
def test_the_phase_is_that_of_the_users_request(jobs, comment, phase):
    row, _ = jobs["two-nodes"]
    assert to_attempt(row, FreeText("two-nodes", comment), "bed").phase == phase
    assert to_attempt(row, None, "bed").phase is None
