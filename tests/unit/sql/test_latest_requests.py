"""Which of a job's requests is its last, and in which order people see them."""

from __future__ import annotations

from dataclasses import replace

from support.history import select
from support.servers import each_engine

from gsched.model.job import JobKey, Wants
from gsched.model.jobid import parse_job_id
from gsched.model.user_request import UserRequest

KEY = JobKey("alpha", 7, epoch=1000)
REQUEST = UserRequest(KEY, "alice", "one", Wants(shareable=True), 2000)

pytestmark = each_engine


def capture(history, *tokens, **facts):
    for token in tokens:
        history.request_store().capture([replace(REQUEST, token=token, **facts)])


def tokens(history, job=None, **facts):
    wanted = None if job is None else parse_job_id(job)
    return [r.token for r in history.requests("alpha", wanted, **facts)]


def test_the_last_that_was_captured_counts_whatever_its_time(history, database):
    capture(history, "one", first_seen=3000)
    capture(history, "two", first_seen=2000)  # the clock was set back
    assert history.request_store().latest([KEY])[KEY].token == "two"
    capture(history, "two", first_seen=4000)  # known: asked for no second time
    capture(history, "one", first_seen=5000)  # taken back to what it was
    assert select(database, "SELECT token FROM requests ORDER BY id") == [
        ("one",), ("two",), ("one",),
    ]  # fmt: skip


def test_another_job_of_a_used_id_has_no_request(history):
    capture(history, "one")
    later = replace(KEY, epoch=9000)
    assert history.request_store().latest([later]) == {}
    capture(history, "two", key=later)
    found = history.request_store().latest([KEY, later])
    assert [found[key].token for key in (KEY, later)] == ["one", "two"]


def test_of_one_second_the_later_one_stands_first(history):
    capture(history, "one", "two", "three")
    assert tokens(history) == tokens(history, "7") == ["three", "two", "one"]


def test_a_task_has_those_of_its_array_where_they_are_asked_for(history):
    capture(history, "array")
    for task in (3, 4):
        capture(history, f"task {task}", key=replace(KEY, array_task=task))
    capture(history, "job", key=replace(KEY, job_id=8))
    assert tokens(history, "7_3", with_whole_array=True) == ["task 3", "array"]
    assert tokens(history, "7_[3-4]", with_whole_array=True) == ["task 4", "task 3", "array"]
    assert tokens(history, "7", with_whole_array=True) == ["task 4", "task 3", "array"]
    assert tokens(history, "7_3") == ["task 3"]
