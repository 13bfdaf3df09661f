"""Deadlines in SQL: exact, the same however often they are told, and nobody else's."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from support.history import CLUSTER, attempt, batch, pending, running, url_of
from support.servers import each_engine
from support.whole_history import target

from gsched.errors import LostLeadershipError
from gsched.model.decision import Alternative, PlannedRun
from gsched.model.job import JobKey, JobState
from gsched.model.phases import NO_RULES
from gsched.model.target_records import (
    RESERVED,
    UNRESERVED,
    PromiseUse,
    Risk,
    TargetEvent,
    TargetState,
)
from gsched_sql import maintenance

WARNED = TargetEvent(1700, "at-risk", 12_500, 0.4)
ADMITTED = TargetEvent(1500, "standing", 1800, 0.9)


def refused(**facts):
    return replace(
        target(),
        state=TargetState.REFUSED,
        promise=None,
        finish_time=None,
        probability=None,
        plan=(),
        earliest=20_000,
        why="chronus.refused-no-room",
        params={"jobs": ["7", "8"], "needed_gpu_s": 40.5, "name": "名前\n\x00"},
        alternatives=(Alternative("fewer-gpus", 9000, 2, 0.91), Alternative("later", 20_000, 4, 1)),
        **facts,
    )


@each_engine
def test_what_is_kept_comes_back(history):
    targets = history.targets()
    targets.keep(CLUSTER, [(target(), [ADMITTED])])
    assert targets.standing(CLUSTER) == [target()]
    assert targets.latest(CLUSTER, [target().key]) == {target().key: target()}
    assert targets.events(target()) == [ADMITTED]
    other = refused(key=JobKey(CLUSTER, 8, 3, None, 1100))
    targets.keep(CLUSTER, [(other, [])])
    assert targets.latest(CLUSTER, [other.key]) == {other.key: other}
    assert targets.standing(CLUSTER) == [target()]
    assert targets.standing("beta") == targets.asked("beta") == []
    assert targets.latest("beta", [other.key]) == {}


@each_engine
def test_the_same_again_changes_nothing_and_what_is_new_takes_its_place(history):
    targets = history.targets()
    for _ in range(2):
        targets.keep(CLUSTER, [(target(), [ADMITTED])])
    assert history.stats().rows["targets"] == 1
    assert history.stats().rows["target_runs"] == 2
    assert history.stats().rows["target_events"] == 1
    later = replace(
        target(),
        risk=Risk.AT_RISK,
        probability=0.4,
        plan=(PlannedRun(1700, 1900, 4),),
        warned=Risk.AT_RISK,
        warned_time=1700,
    )
    targets.keep(CLUSTER, [(later, [ADMITTED, WARNED])])
    assert targets.standing(CLUSTER) == [later]
    assert targets.events(later) == [ADMITTED, WARNED]
    kept = replace(later, state=TargetState.KEPT, since=1900, plan=(), end_time=1890, reward=100.0)
    targets.keep(CLUSTER, [(kept, [TargetEvent(1900, "kept")])])
    assert targets.standing(CLUSTER) == []
    assert targets.latest(CLUSTER, [kept.key]) == {kept.key: kept}


def test_of_two_changes_of_one_request_the_last_holds_and_both_have_befallen_it(history):
    later = replace(target(), risk=Risk.AT_RISK, probability=0.4, warned=Risk.AT_RISK)
    history.targets().keep(CLUSTER, [(target(), [ADMITTED]), (later, [WARNED])])
    assert history.targets().standing(CLUSTER) == [later]
    assert history.targets().events(later) == [ADMITTED, WARNED]


@each_engine
def test_what_a_promise_has_used_comes_back(history):
    promise = replace(target().promise, restarts=3)
    record = replace(target(), promise=promise, used=PromiseUse(30.5, 1600, 12.25), gone_time=1700)
    history.targets().keep(CLUSTER, [(record, [])])
    assert history.targets().standing(CLUSTER) == [record]


def test_another_request_of_a_job_is_beside_the_earlier_one(history):
    targets = history.targets()
    asked_again = refused(asked_time=1600)
    withdrawn = replace(target(), state=TargetState.WITHDRAWN, since=1600, plan=())
    targets.keep(CLUSTER, [(target(), [])])
    targets.keep(CLUSTER, [(withdrawn, []), (asked_again, [])])
    assert targets.latest(CLUSTER, [target().key]) == {target().key: asked_again}
    assert [r.state.value for r in targets.asked(CLUSTER)] == ["refused", "withdrawn"]


def test_requests_are_listed_by_time_and_user(history):
    targets = history.targets()
    told = [
        replace(target(), key=JobKey(CLUSTER, n, epoch=1000), asked_time=1000 + n, user=user)
        for n, user in ((1, "alice"), (2, "bob"), (3, "alice"))
    ]
    targets.keep(CLUSTER, [(record, []) for record in told])

    def ids(**wanted):
        return [record.key.job_id for record in targets.asked(CLUSTER, **wanted)]

    assert ids() == [3, 2, 1]
    assert ids(limit=1) == [3]
    assert ids(since=1002) == [3, 2]
    assert ids(until=1002) == [1]
    assert ids(user="alice") == [3, 1]
    assert ids(user="nobody") == []
    assert targets.asked(CLUSTER)[0].plan == ()


def test_outcomes_are_counted_since_a_time(history):
    states = [TargetState.KEPT, TargetState.KEPT, TargetState.MISSED, TargetState.STANDING]
    told = [
        replace(target(), key=JobKey(CLUSTER, n, epoch=1000), state=state, since=1000 + n)
        for n, state in enumerate(states, 1)
    ]
    # a request that was refused, and whose job is gone, was no promise
    gone = refused(key=JobKey(CLUSTER, 9, epoch=1000))
    told.append(replace(gone, state=TargetState.WITHDRAWN, since=1009))
    targets = history.targets()
    targets.keep(CLUSTER, [(record, []) for record in told])
    assert targets.counts(CLUSTER, 0) == {TargetState.KEPT: 2, TargetState.MISSED: 1}
    assert targets.counts(CLUSTER, 1002) == {TargetState.KEPT: 1, TargetState.MISSED: 1}
    assert targets.counts("beta", 0) == {}


@each_engine
def test_a_warning_is_untold_until_it_is_told(history):
    targets = history.targets()
    targets.keep(CLUSTER, [(target(), [ADMITTED, WARNED])])
    assert targets.untold(CLUSTER, 0, ["at-risk", "late"]) == [(replace(target(), plan=()), WARNED)]
    assert targets.untold(CLUSTER, 1701, ["at-risk"]) == []  # too old
    assert targets.untold("beta", 0, ["at-risk"]) == []
    targets.told(target(), WARNED, 1710)
    assert targets.untold(CLUSTER, 0, ["at-risk", "late"]) == []
    assert targets.events(target()) == [ADMITTED, replace(WARNED, told_time=1710)]
    targets.keep(CLUSTER, [(target(), [WARNED])])  # as after a crash
    assert targets.untold(CLUSTER, 0, ["at-risk"]) == []


@each_engine
def test_how_jobs_have_ended_is_as_the_history_has_it(history):
    history.ingest(
        batch(
            attempt(1, 1000, end_time=1900),
            attempt(2, 1000, state=JobState.CANCELLED, end_time=1800),
            attempt(3, 1000, state=JobState.REQUEUED, end_time=1700),
            running(4, 1000),
            pending(5, 1000),
        ),
        source_key=None,
    )
    keys = [JobKey(CLUSTER, n, epoch=1000) for n in range(1, 7)]
    assert history.targets().ended(CLUSTER, keys) == {
        keys[0]: (JobState.COMPLETED, 1900),
        keys[1]: (JobState.CANCELLED, 1800),
    }
    assert history.targets().ended(CLUSTER, [JobKey(CLUSTER, 1, epoch=999)]) == {}
    assert history.targets().ended("beta", keys) == {}


def test_a_daemon_that_does_not_lead_any_more_keeps_nothing(history):
    fence = history.leadership(CLUSTER).take("here", "m1", os.getpid(), 300, 1000)
    targets = history.targets(fence)
    targets.keep(CLUSTER, [(target(), [WARNED])])
    history.leadership(CLUSTER).take("there", "m1", os.getpid(), 300, 2000)
    with pytest.raises(LostLeadershipError):
        targets.keep(CLUSTER, [(refused(), [])])
    with pytest.raises(LostLeadershipError):
        targets.told(target(), WARNED, 1710)
    with pytest.raises(LostLeadershipError):
        targets.note(target(), TargetEvent(1720, RESERVED))
    assert history.targets().standing(CLUSTER) == [target()]
    assert history.targets().untold(CLUSTER, 0, ["at-risk"]) != []


def test_a_promise_that_stands_is_not_pruned_though_its_job_is_not_known(history, database):
    history.targets().keep(
        CLUSTER, [(target(), []), (refused(key=JobKey(CLUSTER, 8, epoch=1100)), [])]
    )
    assert maintenance.prune(url_of(database), 90_000).counts["targets"] == 1
    assert history.targets().standing(CLUSTER) == [target()]


def test_a_promise_follows_its_job_to_an_earlier_first_submit(history):
    record = replace(target(), key=JobKey(CLUSTER, 7, epoch=1200))
    history.targets().keep(CLUSTER, [(record, [ADMITTED])])
    history.ingest(batch(attempt(7, 1200, restarts=1)), source_key=None)
    history.ingest(batch(attempt(7, 1000, state=JobState.REQUEUED)), source_key=None)
    assert history.targets().standing(CLUSTER) == [
        replace(record, key=JobKey(CLUSTER, 7, epoch=1000))
    ]


@each_engine
def test_whose_nodes_are_reserved_is_told_by_the_last_event(history, database):
    targets, other = history.targets(), refused(key=JobKey(CLUSTER, 8, 3, None, 1100))
    targets.keep(CLUSTER, [(target(), [ADMITTED]), (other, [])])
    assert targets.reserved(CLUSTER) == []
    for at, what in ((1600, RESERVED), (1600, UNRESERVED), (1600, RESERVED)):  # all in a second
        targets.note(target(), TargetEvent(at, what))
    targets.note(other, TargetEvent(1601, RESERVED))
    targets.keep(CLUSTER, [(target(), [WARNED])])
    assert [r.key for r in targets.reserved(CLUSTER)] == [target().key, other.key]
    targets.note(other, TargetEvent(1601, UNRESERVED))
    assert [r.key for r in targets.reserved(CLUSTER)] == [target().key]
    assert targets.reserved("beta") == []
    assert targets.standing(CLUSTER) == [target()]
    assert targets.untold(CLUSTER, 0, ["at-risk"]) == [(replace(target(), plan=()), WARNED)]
    report = maintenance.check(url_of(database), NO_RULES, 90_000)
    assert "target" not in {finding.kind for finding in report.findings}
