"""What a dependency waits for and whether it can still come about."""

from __future__ import annotations

import pytest
from support.queue import row

from gsched.explain.dependency import read_dependencies
from gsched.model.job import JobState

FAILED = {"7": (JobState.FAILED, "FAILED")}
DONE = {"7": (JobState.COMPLETED, "COMPLETED")}


def read(text, rows=(), ended=None):
    asked = []

    def look_up(job_ids):
        asked.extend(job_ids)
        return ended or {}

    found = read_dependencies(text, rows, look_up)
    return found, asked


@pytest.mark.parametrize(
    ("kind", "ended", "status"),
    [
        ("afterok", FAILED, "never"),
        ("afterok", DONE, "met"),
        ("afternotok", FAILED, "met"),
        ("afternotok", DONE, "never"),
        ("afterany", FAILED, "met"),
        ("afterok", {}, "unknown"),
        ("aftercorr", FAILED, "open"),
    ],
)
def test_a_job_that_has_ended(kind, ended, status):
    found, asked = read(f"{kind}:7(unfulfilled)", ended=ended)
    assert asked == ["7"]
    (item,) = found.items
    assert (item.kind, item.slurm_id, item.status) == (kind, "7", status)
    assert found.is_never is (status == "never")


def test_what_slurm_calls_failed_is_failed():
    found, _ = read("afterany:7(failed)", ended=FAILED)
    assert found.is_never
    assert found.items[0].words == "waits until 7 has ended; it is FAILED now: it never will"


def test_a_job_in_the_queue_is_not_looked_up():
    found, asked = read("afterok:7(unfulfilled)", [row(7, state=JobState.RUNNING, state_text="R")])
    assert asked == []
    assert found.items[0].status == "open"
    assert "it is R now" in found.items[0].words


def test_one_that_will_be_requeued_has_not_ended():
    waits = row(7, state=JobState.REQUEUED, state_text="REQUEUED")
    assert read("afterok:7(unfulfilled)", [waits])[0].items[0].status == "open"


def test_all_or_any_of_several():
    all_of, _ = read("afterok:7(failed),afterany:8(unfulfilled)")
    assert (all_of.any_is_enough, all_of.is_never) == (False, True)
    any_of, _ = read("afterok:7(failed)?afterany:8(unfulfilled)")
    assert (any_of.any_is_enough, any_of.is_never) == (True, False)
    assert read("afterok:7(failed)?afterok:8(failed)")[0].is_never


def test_arrays_tasks_delays_and_singletons():
    rows = [row(9, is_unsplit_array=True, array_tasks="1-3")]
    found, _ = read("afterok:9_*(unfulfilled),after:9_2+5(unfulfilled),singleton", rows)
    whole, task, single = found.items
    assert (whole.slurm_id, whole.status) == ("9", "open")
    assert (task.slurm_id, task.status) == ("9_2", "open")
    assert task.words == "waits until 9_2 has started 5 min ago; it is PENDING now"
    assert single.words == "waits until no other job of the same name and user runs"


def test_an_array_of_which_a_task_failed():
    ended = {
        "9_1": (JobState.COMPLETED, "COMPLETED"),
        "9_2": (JobState.FAILED, "FAILED"),
        "99": (JobState.COMPLETED, "COMPLETED"),
    }
    assert read("afterok:9_*(unfulfilled)", ended=ended)[0].is_never
    assert read("afterok:9_1(unfulfilled)", ended=ended)[0].items[0].status == "met"


def test_chains_are_followed():
    rows = [
        row(8, dependency="afterok:7(failed)", reason="Dependency"),
        row(9, dependency="afterok:8(unfulfilled)", reason="Dependency"),
    ]
    found, _ = read("afterok:9(unfulfilled)", rows, FAILED)
    assert found.is_never
    assert "waits until 8 has ended well" in found.items[0].words
    # afterany is met when somebody cancels the job that cannot start
    assert not read("afterany:9(unfulfilled)", rows, FAILED)[0].is_never
    lost = row(8, reason="DependencyNeverSatisfied")
    assert "can never start itself" in read("afterok:8(unfulfilled)", [lost])[0].items[0].words


def test_a_chain_has_an_end():
    rows = [row(n, dependency=f"afterok:{n + 1}(unfulfilled)") for n in range(1, 50)]
    found, _ = read("afterok:1(unfulfilled)", rows)
    assert found.items[0].words.count("waits until") < 10


def test_what_is_not_understood_is_shown():
    found, _ = read("afterdawn:7(unfulfilled),@?")
    assert (
        found.items[0].words
        == "waits until 7 afterdawn:7(unfulfilled); Slurm shows no such job (any more)"
    )
    assert found.items[1].words == "waits for: @"
