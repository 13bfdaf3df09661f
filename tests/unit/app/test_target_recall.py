"""A policy that has forgotten a promise is told of it: SQL is the record."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.history import CLUSTER
from support.jobs import T0, view
from support.requests import MemoryRequests
from support.whole_history import target

from gsched.app.target_recall import recalled
from gsched.daemon.requests import RequestBook, Sighting
from gsched.model.job import Allocation, JobKey, JobState
from gsched.model.target_records import Promise, PromiseUse, TargetRecord
from gsched.model.targets import Steps
from gsched.policy.chronus_memory import Book, name_of
from gsched.policy.registry import load, load_scoped

DEADLINE = T0 + 10_000
ASKS = f"gs1{{deadline={DEADLINE},n=5}}"
KEY = replace(view(7).key, cluster=CLUSTER)
CHRONUS: Any = load("chronus")


def record(**facts: Any) -> TargetRecord:
    given = {
        "key": KEY,
        "asked_time": T0,
        "steps": Steps((DEADLINE,), (100.0,)),
        "promise": Promise(T0 + 3, T0 + 800, 0.93, 4000.0),
    }
    return replace(target(), **(given | facts))


@pytest.fixture
def requests():
    book = RequestBook(MemoryRequests())
    book.look([Sighting(KEY, "ann", ASKS)], T0)
    return book


def test_a_promise_that_memory_lacks_is_put_in_as_it_was_made(requests):
    memory = recalled(CHRONUS, {}, [record()], requests)
    found = Book.of(memory).targets[name_of(KEY)]
    assert (found.due, found.budget_gpu_s, found.admitted_time) == (DEADLINE, 4000.0, T0 + 3)
    assert found.probability == 0.93
    assert (found.asked.number, found.asked.times) == (5, (DEADLINE,))
    assert recalled(CHRONUS, memory, [record()], requests) is memory


def test_what_a_promise_has_used_is_not_given_again(requests):
    promise = replace(record().promise, restarts=2)
    told = record(promise=promise, used=PromiseUse(3900.0, T0 + 50, 900.0), num_gpus=4)
    found = Book.of(recalled(CHRONUS, {}, [told], requests)).targets[name_of(KEY)]
    assert (found.restarts, found.asked.num_gpus) == (2, 4)
    run = Allocation(("n1",), (4,), T0 + 60)
    job = view(7, state=JobState.RUNNING)
    same = replace(job, allocation=run, attempt=T0 + 50)
    assert found.used.at(same, T0 + 60 + 250).gpu_s == 3000.0 + 1000.0
    another = replace(same, attempt=T0 + 55)
    assert found.used.at(another, T0 + 60 + 250).gpu_s == 3900.0 + 1000.0


def test_a_job_that_was_queued_again_after_its_end_asked_later_than_its_token(requests):
    told = record(asked_time=T0 + 1)
    assert name_of(KEY) in Book.of(recalled(CHRONUS, {}, [told], requests)).targets


def test_what_memory_has_stays_as_it_is(requests):
    memory = recalled(CHRONUS, {}, [record()], requests)
    other = record(promise=Promise(T0, T0 + 1, 0.1, 1.0))
    assert recalled(CHRONUS, memory, [other], requests) is memory
    forms: Any = {"version": 99, "targets": {}}  # of another version of gsched
    assert name_of(KEY) in Book.of(recalled(CHRONUS, forms, [record()], requests)).targets


def test_beside_other_policies_it_has_a_place_of_its_own(requests):
    several = load_scoped("fifo", {"gpu": "chronus"}, {})
    before: Any = {"version": 1, "policies": {"fifo": {"a": 1}}}
    memory: Any = recalled(several, before, [record()], requests)
    assert memory["policies"]["fifo"] == {"a": 1}
    assert name_of(KEY) in Book.of(memory["policies"]["chronus"]).targets
    assert recalled(several, memory, [record()], requests) is memory
    anew: Any = recalled(several, {}, [record()], requests)
    assert name_of(KEY) in Book.of(anew["policies"]["chronus"]).targets


@pytest.mark.parametrize(
    "other",
    [
        {"key": JobKey(CLUSTER, 8, epoch=T0)},  # has left the queue
        {"asked_time": T0 - 1},  # another request is in its place
        {"steps": Steps((DEADLINE + 1,), (100.0,))},
        {"promise": None},
    ],
)
def test_of_a_job_that_does_not_ask_for_it_nothing_is_put_in(requests, other):
    memory: dict[str, Any] = {}
    assert recalled(CHRONUS, memory, [record(**other)], requests) is memory


def test_other_policies_remember_no_promises(requests):
    memory: dict[str, Any] = {}
    assert recalled(load("fifo"), memory, [record()], requests) is memory
