"""One body for both stores of requests: the database, and the one in memory that tests use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.requests import MemoryRequests

from gsched.engine.ports import RequestStore
from gsched.model.job import JobKey, Wants
from gsched.model.user_request import UserRequest
from gsched_sql import History

EVERYTHING = Wants(
    opt_out=True,
    deadline=1_800_000_000,
    soft_deadlines=((1_700_000_000, 0.1), (1_700_000_001, 2.0)),
    phases=("sft", "eval"),
    shareable=True,
    checkpoint=True,
    number=3,
)
KEY = JobKey("alpha", 7, epoch=1000)
FIRST = UserRequest(KEY, "alice", "gs1{all}", EVERYTHING, 2000, unknown=1)


@pytest.fixture(params=["memory", "sql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RequestStore]:
    if request.param == "memory":
        yield MemoryRequests()
        return
    url = f"sqlite:///{tmp_path / 'history.db'}"
    History.create(url)
    with History.open(url) as history:
        yield history.request_store()


def test_a_request_comes_back_whole(store: RequestStore) -> None:
    store.capture([FIRST])
    assert store.latest([KEY]) == {KEY: FIRST}
    assert store.latest([]) == {}


def test_the_last_one_counts_and_the_same_token_is_no_new_one(store: RequestStore) -> None:
    second = replace(FIRST, token="gs1{}", wants=Wants(), first_seen=2100, unknown=0)
    again = replace(FIRST, first_seen=2200)
    store.capture([FIRST])
    store.capture([replace(FIRST, first_seen=2050)])
    assert store.latest([KEY]) == {KEY: FIRST}
    store.capture([second])
    assert store.latest([KEY]) == {KEY: second}
    store.capture([again])
    assert store.latest([KEY]) == {KEY: again}


def test_jobs_are_told_apart(store: RequestStore) -> None:
    keys = [
        KEY,
        replace(KEY, cluster="beta"),
        replace(KEY, array_task=0),
        replace(KEY, het_offset=0),
        replace(KEY, epoch=1001),
    ]
    others = [replace(FIRST, key=key, token=f"gs1{{n={i}}}") for i, key in enumerate(keys, 1)]
    store.capture(others)
    assert store.latest(keys) == {request.key: request for request in others}
    assert store.latest(keys[2:3]) == {keys[2]: others[2]}
    assert store.latest([JobKey("gamma", 7, epoch=1000)]) == {}
