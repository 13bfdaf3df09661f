"""Deadlines in the daemon: what is kept in SQL and told, round by round, whatever happens."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from support.history import CLUSTER
from support.jobs import T0, view
from support.target_site import DEADLINE, NO_ROOM, PLAN, PRIVATE, opened

from gsched.daemon.target_document import NOTHING_TOLD
from gsched.engine.faults import FaultPoint
from gsched.errors import LostLeadershipError
from gsched.explain.target_words import planned_end
from gsched.model.decision import Reason
from gsched.model.job import Capability
from gsched.model.target_records import Promise, PromiseUse, Risk, TargetState
from gsched.policy.chronus_memory import Asked, Book, Refusal, Target, Used, name_of
from gsched.policy.registry import load


@pytest.fixture
def site(tmp_path, sqlite_template):
    with opened(tmp_path, sqlite_template) as made:
        yield made


def test_a_promise_is_kept_and_told(site):
    site.queue(7)
    told = site.round(site.admit())
    record = site.record()
    assert record.state is TargetState.STANDING
    assert record.promise == Promise(T0, T0 + 800, 0.95, 2e3)
    assert (record.plan, record.steps.times, record.user) == (PLAN, (DEADLINE,), view(7).user)
    assert site.events() == ["standing"]
    assert told.head["num_standing"] == 1
    assert site.told()["target"] == {
        "state": "on-target",
        "deadlines": [[DEADLINE, 100.0]],
        "finish_time": T0 + 800,
        "probability": 0.95,
        "promised": {"finish_time": T0 + 800, "probability": 0.95, "time": T0},
        "budget_gpu_s": 2000.0,
        "num_gpus": record.num_gpus,
        "plan": [[T0 + 100, T0 + 300, 4], [T0 + 500, T0 + 800, 4]],
    }
    assert site.told()["accepted"] is True


def test_the_end_that_is_promised_is_that_of_the_plan_that_was_told(site):
    """The deadline that it keeps is another, later time."""
    site.queue(7)
    site.round(site.admit(finish_time=DEADLINE))
    assert site.record().promise == Promise(T0, T0 + 800, 0.95, 2e3)
    assert site.told()["target"]["promised"]["finish_time"] == planned_end(site.told()["target"])
    assert site.record().risk is Risk.ON_TARGET
    site.queue(8)
    site.round(site.admit(8, finish_time=DEADLINE, plan=()))
    assert site.record(8).promise == Promise(T0, DEADLINE, 0.95, 2e3)


def test_the_promise_stays_what_it_was_while_plans_change(site):
    site.queue(7)
    site.round(site.admit())
    site.now = T0 + 100
    site.round(site.admit(finish_time=T0 + 900, probability=0.9, plan=PLAN[1:], budget_gpu_s=5.0))
    record = site.record()
    assert record.promise == Promise(T0, T0 + 800, 0.95, 2e3)
    assert (record.finish_time, record.probability, record.plan) == (T0 + 900, 0.9, PLAN[1:])
    assert site.events() == ["standing"]


def test_a_plan_that_changes_each_second_is_not_written_each_second(site):
    site.queue(7)
    site.round(site.admit())
    for second in range(1, 59):
        site.now = T0 + second
        told = site.round(site.admit(finish_time=T0 + 800 + second))
        assert told.jobs["7"]["finish_time"] == T0 + 800 + second
    assert site.record().finish_time == T0 + 800
    site.now = T0 + 61
    site.round(site.admit(finish_time=T0 + 858))  # as the round before: it is written all the same
    assert site.record().finish_time == T0 + 858


def test_a_refusal_is_told_with_why_and_what_could_be(site):
    site.queue(7)
    site.round(site.refuse(), reasons={site.key(7): NO_ROOM})
    record = site.record()
    assert (record.state, record.earliest) == (TargetState.REFUSED, T0 + 20_000)
    assert (record.why, record.params) == (NO_ROOM.code, NO_ROOM.params)
    (outcome,) = site.told()["outcomes"]
    assert outcome == {
        "want": "deadline",
        "outcome": "refused",
        "reason": "policy chronus cannot keep it",
        "earliest": T0 + 20_000,
        "why": {"code": NO_ROOM.code, "params": dict(NO_ROOM.params)},
        "alternatives": [
            {"kind": "fewer-gpus", "finish_time": T0 + 9000, "num_gpus": 2, "probability": 0.91}
        ],
    }
    assert site.told()["accepted"] is False
    assert "target" not in site.told()


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("reason", [None, Reason("chronus.spot", {"remaining_s": 5.0})])
def test_why_a_job_that_runs_was_refused_is_what_the_policy_remembers(site, several, reason):
    site.queue(7)
    asked = Asked(0, (DEADLINE,), (100.0,))
    refusal = Refusal(asked, NO_ROOM.code, NO_ROOM.params)
    memory: Any = Book(refused={name_of(site.key(7)): refusal}).document()
    if several:
        memory = {"version": 1, "policies": {"fifo": {}, "chronus": memory}}
    site.round(site.refuse(), reasons={site.key(7): reason} if reason else {}, memory=memory)
    assert (site.record().why, site.record().params) == (NO_ROOM.code, NO_ROOM.params)


def test_the_first_answer_to_a_request_stays_the_answer(site):
    site.queue(7)
    site.round(site.refuse(), reasons={site.key(7): NO_ROOM})
    site.now += 100
    site.restart()
    site.round(site.refuse(earliest=T0 + 99_000, alternatives=()))
    assert site.record().earliest == T0 + 20_000
    assert site.told()["outcomes"][0]["why"]["code"] == NO_ROOM.code


def test_on_a_private_cluster_nobody_is_told_of_anothers_job(site):
    site.queue(7, 8)
    site.round(
        site.refuse(),
        site.admit(8, probability=0.1),
        reasons={site.key(7): NO_ROOM, site.key(8): NO_ROOM},
        config=PRIVATE,
    )
    jobs = site.bulletin.jobs
    assert jobs["7"]["outcomes"][0]["why"]["params"] == {"needed_gpu_s": 40.0}
    assert jobs["7"]["reason"]["params"] == {"needed_gpu_s": 40.0}
    assert jobs["8"]["target"]["risk"]["params"] == {"needed_gpu_s": 40.0}
    assert site.record().params == {"needed_gpu_s": 40.0}  # which its owner may read
    site.round(site.refuse(), reasons={site.key(7): NO_ROOM})
    assert site.bulletin.jobs["7"]["reason"]["params"] == dict(NO_ROOM.params)


@pytest.mark.parametrize("several", [False, True])
def test_what_a_promise_has_used_is_kept_and_so_is_when_it_was_made(site, several):
    asked = Asked(0, (DEADLINE,), (100.0,))
    used = Used(T0 - 50, -100.0, 350.0)
    goal = Target(asked, DEADLINE, 2e3, T0, 0.95, 3, used)
    memory: Any = Book(targets={name_of(site.key(7)): goal}).document()
    if several:
        memory = {"version": 1, "policies": {"fifo": {}, "chronus": memory}}
    site.queue(7)
    site.views = [replace(site.views[0], restarts=3)]
    site.round(site.admit(), memory=memory)
    assert site.record().used == PromiseUse(250.0, T0 - 50, 350.0)
    assert site.record().promise.restarts == 3
    site.now += 100
    site.views = [replace(site.views[0], restarts=4)]
    site.round(site.admit(finish_time=T0 + 900))
    assert site.record().used == PromiseUse(250.0, T0 - 50, 350.0)
    assert site.record().promise.restarts == 3


def test_a_daemon_that_only_observes_promises_nothing(site):
    site.queue(7)
    assert site.round(site.admit(), acting=False) == NOTHING_TOLD
    assert site.history.targets().asked(CLUSTER) == []
    site.round(site.admit())
    site.leave()
    site.now = T0 + 900
    site.round(acting=False)
    assert site.record().state is TargetState.KEPT  # which is seen, not done


def test_without_deadlines_nothing_is_written_and_nothing_told(site):
    site.queue(7, comment="")
    told = site.round(requires=frozenset({Capability.REORDER}), policy="fifo")
    assert told == NOTHING_TOLD
    assert site.history.stats().rows["targets"] == 0
    assert "target" not in site.told()


# -- what may go wrong ---------------------------------------------------------------------------


def test_a_round_that_could_not_be_kept_is_kept_by_the_next(site, monkeypatch):
    site.queue(7)
    keep = site.targets._store.keep

    def broken(*_: Any) -> None:
        raise LostLeadershipError("gone")

    monkeypatch.setattr(site.targets._store, "keep", broken)
    with pytest.raises(LostLeadershipError):
        site.round(site.admit())
    monkeypatch.setattr(site.targets._store, "keep", keep)
    site.round(site.admit())
    assert site.events() == ["standing"]


def test_a_kill_right_after_deadlines_were_kept_changes_nothing(site):
    class KilledError(Exception):
        pass

    def die(point: FaultPoint) -> None:
        assert point is FaultPoint.TARGETS_KEPT
        raise KilledError

    site.queue(7, 8)
    for step in range(3):
        if step == 2:
            site.leave(7, end=700)
            site.now = T0 + 900
        given = [site.refuse(8)] if step == 2 else [site.admit(), site.refuse(8)]
        site.restart(die)
        if step != 1:  # nothing is new in the second round
            with pytest.raises(KilledError):
                site.round(*given)
        site.restart()
        site.round(*given)
    assert site.events(7) == ["standing", "kept"]
    assert site.events(8) == ["refused"]
    assert len(site.history.targets().asked(CLUSTER)) == 2


def test_a_daemon_that_does_not_lead_any_more_tells_nothing(site):
    leadership = site.history.leadership(CLUSTER)
    site.fence = leadership.take("h1", "m1", os.getpid(), 60, 1000)
    site.restart()
    site.queue(7)
    leadership.take("h2", "m1", os.getpid(), 60, 2000)
    with pytest.raises(LostLeadershipError):
        site.round(site.admit())
    assert site.history.targets().asked(CLUSTER) == []


def test_a_promise_that_the_policy_has_forgotten_is_told_to_it_once(site):
    policy = load("chronus")
    site.queue(7)
    assert site.targets.seed(policy, {}) == {}
    site.round(site.admit())
    site.restart()
    site.queue(7)
    memory: Any = site.targets.seed(policy, {})
    assert set(memory["targets"]) == {name_of(site.key(7))}
    assert site.targets.seed(policy, {}) == memory  # the round to which it was given has failed
    assert site.targets.seed(policy, memory) is memory
    assert site.targets.seed(policy, {"version": 1}) == {"version": 1}  # it knows better by now


def test_how_plans_were_made_is_counted(site):
    site.queue(7)
    memory: Any = {"version": 1, "last": {"way": "greedy", "gap": 0.0}}
    told = site.round(site.admit(), memory=memory)
    assert told.head["solver"] == {"way": "greedy"}
    site.round(site.admit(), memory={"version": 1, "policies": {"chronus": memory}})
    assert site.targets.facts().rounds == {"greedy": 2}
