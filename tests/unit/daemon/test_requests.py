"""Requests are captured once, whatever becomes of the comment; a later edit is a new one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.requests import MemoryRequests

from gsched.daemon.requests import RequestBook, Sighting
from gsched.model.job import JobKey, Wants
from gsched.model.user_request import UserRequest

KEY = JobKey("c", 7, epoch=1000)


class Desk:
    """A book over a store; each look is one second later."""

    def __init__(self) -> None:
        self.store = MemoryRequests()
        self.now = 2000
        self.reopen()

    def reopen(self) -> None:
        """Another process goes on."""
        self.book = RequestBook(self.store)

    def look(self, comment: str, key: JobKey = KEY, *others: Sighting) -> Wants:
        self.now += 1
        self.book.look([Sighting(key, "ann", comment), *others], self.now)
        return self.book.wants(key)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_comment_without_a_request(desk: Desk) -> None:
    assert desk.look("just a note") == Wants()
    assert desk.store.rows == []


def test_the_first_sight_is_kept_with_its_time_and_user(desk: Desk) -> None:
    assert desk.look("note gs1{share,new}") == Wants(shareable=True)
    request = UserRequest(KEY, "ann", "gs1{share,new}", Wants(shareable=True), 2001, unknown=1)
    assert desk.store.rows == [request]
    assert desk.book.of(KEY) == request


def test_a_wiped_comment_takes_nothing_back(desk: Desk) -> None:
    desk.look("gs1{none}")
    assert desk.look("") == Wants(opt_out=True)
    desk.reopen()
    assert desk.look("another tool's text") == Wants(opt_out=True)
    assert len(desk.store.rows) == 1


def test_seeing_the_same_again_is_no_new_request(desk: Desk) -> None:
    desk.look("gs1{none}")
    desk.look("")
    desk.look("other words gs1{none}")
    desk.reopen()
    desk.look("gs1{none}")
    assert [r.first_seen for r in desk.store.rows] == [2001]


def test_each_edit_is_a_new_request_beside_the_earlier_ones(desk: Desk) -> None:
    desk.look("gs1{none}")
    assert desk.look("gs1{share}") == Wants(shareable=True)
    assert desk.look("gs1{}") == Wants()  # asks for nothing, and so undoes
    assert desk.look("gs1{none}") == Wants(opt_out=True)
    tokens = [(r.token, r.first_seen) for r in desk.store.rows]
    assert tokens == [
        ("gs1{none}", 2001),
        ("gs1{share}", 2002),
        ("gs1{}", 2003),
        ("gs1{none}", 2004),
    ]


def test_a_wrong_token_undoes_nothing_and_is_reported_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.look("gs1{none}")
    for _ in range(3):
        assert desk.look("gs1{deadline=\x1b[31mNaN}") == Wants(opt_out=True)
    assert "not well-formed" in desk.book.problem(KEY)
    desk.look("gs1{deadline=NaN}")
    assert desk.book.problem(KEY) == "a time that is none"
    assert [r.getMessage() for r in caplog.records] == [
        "job 7: its request is ignored: not well-formed, or not at the end of the comment",
        "job 7: its request is ignored: a time that is none",
    ]
    desk.look("gs1{none}")
    assert desk.book.problem(KEY) == ""
    assert len(desk.store.rows) == 1


def test_things_unknown_here_are_reported_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        desk.look("gs1{none,later=1,more}")
    assert [r.getMessage() for r in caplog.records] == ["job 7 asks for 2 things unknown here"]


def test_a_task_has_what_its_array_asked_for(desk: Desk) -> None:
    array, task = KEY, replace(KEY, array_task=3)
    desk.look("gs1{none}", array)
    assert desk.look("", task) == Wants(opt_out=True)  # split off, and its comment wiped
    assert desk.look("gs1{none}", task) == Wants(opt_out=True)
    assert [r.key for r in desk.store.rows] == [array]
    assert desk.look("gs1{share}", task) == Wants(shareable=True)
    assert [r.key for r in desk.store.rows] == [array, task]
    desk.reopen()
    assert desk.look("", task) == Wants(shareable=True)
    assert desk.look("", replace(KEY, array_task=4)) == Wants(opt_out=True)


def test_a_reused_id_is_another_job(desk: Desk) -> None:
    desk.look("gs1{none}")
    assert desk.look("", replace(KEY, epoch=9000)) == Wants()


def test_it_is_told_whether_somebody_asks_for_something_else(desk: Desk) -> None:
    def is_news(comment: str) -> bool:
        return desk.book.look([Sighting(KEY, "ann", comment)], desk.now)

    assert [is_news(c) for c in ("", "gs1{none}", "gs1{none}", "gs1{bad", "gs1{share}")] == [
        False, True, False, False, True,
    ]  # fmt: skip
    desk.reopen()
    assert is_news("")  # another process asked for it


def test_a_task_keeps_what_its_array_asked_for_while_the_array_is_gone(desk: Desk) -> None:
    task = replace(KEY, array_task=3)
    desk.look("gs1{none}")
    desk.book.keep_only([task])
    assert desk.book.wants(task) == Wants(opt_out=True)


def test_jobs_that_left_are_forgotten_here_but_not_in_the_store(desk: Desk) -> None:
    desk.look("gs1{none}")
    desk.book.keep_only([])
    assert desk.book.of(KEY) is None
    assert desk.look("") == Wants(opt_out=True)
