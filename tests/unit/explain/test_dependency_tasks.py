"""A dependency on one task of an array, wherever that task is."""

from __future__ import annotations

import pytest
from support.queue import row

from gsched.explain.dependency import named_jobs, read_dependencies
from gsched.model.job import JobState

WAITS = row(7, is_unsplit_array=True, array_tasks="5-9")


def read(text, rows, ended=None):
    asked = []

    def look_up(job_ids):
        asked.extend(job_ids)
        return ended or {}

    (item,) = read_dependencies(text, rows, look_up).items
    return item, asked


def test_the_tasks_that_wait_together_are_others():
    failed = row(12, job_id=7, array_task=3, state=JobState.FAILED, state_text="FAILED")
    item, asked = read("afterok:7_3(unfulfilled)", [failed, WAITS])
    assert (item.job_state, item.status, asked) == ("FAILED", "never", [])
    assert read("afterok:7_6(unfulfilled)", [failed, WAITS])[0].job_state == "PENDING"


def test_a_task_that_has_left_the_queue_is_looked_up_while_others_wait():
    ended = {"7_3": (JobState.COMPLETED, "COMPLETED"), "7_4": (JobState.FAILED, "FAILED")}
    item, asked = read("afterok:7_3(unfulfilled)", [WAITS], ended)
    assert (asked, item.slurm_id, item.status) == (["7_3"], "7_3", "met")


def test_a_task_that_has_its_own_row_is_in_no_other():
    own = row(12, job_id=7, array_task=6, state=JobState.RUNNING, state_text="RUNNING")
    assert read("afterok:7_6(unfulfilled)", [WAITS, own])[0].job_state == "RUNNING"


@pytest.mark.parametrize("tasks", ["1-5,...", "?"])
def test_a_task_may_wait_where_nobody_can_tell_which_do(tasks):
    unread = row(7, is_unsplit_array=True, array_tasks=tasks)
    item, asked = read("afterok:7_3(unfulfilled)", [unread])
    assert (item.job_state, asked) == ("PENDING", [])


def test_an_array_whole_is_asked_for_as_one():
    text = "afterok:7_*(unfulfilled)?afterany:9_4(failed)?after:9_4+5(unfulfilled)"
    assert named_jobs(text) == ["7", "9_4"]
    item, asked = read("afterok:7_*(unfulfilled)", [WAITS])
    assert (item.slurm_id, item.job_state, asked) == ("7", "PENDING", [])
    assert (
        read("afterok:70(unfulfilled)", [WAITS], {"7_3": (JobState.FAILED, "FAILED")})[0].status
        == "unknown"
    )
