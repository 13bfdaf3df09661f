"""What comes of a promised deadline when its job ends, is gone, or asks for another."""

from __future__ import annotations

import pytest
from support.history import CLUSTER, attempt, batch
from support.jobs import T0
from support.target_site import DEADLINE, opened

from gsched.app.daemon_targets import LOST_S
from gsched.model.job import JobState
from gsched.model.target_records import Promise, TargetState


@pytest.fixture
def site(tmp_path, sqlite_template):
    with opened(tmp_path, sqlite_template) as made:
        yield made


def test_a_job_that_ends_in_time_has_kept_its_deadline(site):
    site.queue(7)
    site.round(site.admit())
    site.leave(end=790)
    site.now = T0 + 900
    told = site.round()
    record = site.record()
    assert (record.state, record.end_time, record.reward) == (TargetState.KEPT, T0 + 790, 100.0)
    assert record.plan == ()
    assert site.events() == ["standing", "kept"]
    assert told.head["outcomes"] == {"kept": 1}
    assert told.head["num_standing"] == 0
    assert site.targets.facts().outcomes == {"kept": 1}
    site.restart()
    assert site.round().head["outcomes"] == {"kept": 1}


@pytest.mark.parametrize(
    ("end", "state", "outcome", "reward"),
    [
        (10_000, JobState.COMPLETED, TargetState.KEPT, 100.0),
        (10_001, JobState.COMPLETED, TargetState.MISSED, 1.0),
        (9000, JobState.CANCELLED, TargetState.WITHDRAWN, None),
        (10_001, JobState.CANCELLED, TargetState.MISSED, 0.0),
        (9000, JobState.FAILED, TargetState.FAILED, None),
        (9000, JobState.TIMEOUT, TargetState.FAILED, None),
        (9000, JobState.OUT_OF_MEMORY, TargetState.FAILED, None),
        (9000, JobState.NODE_FAIL, TargetState.MISSED, 0.0),
    ],
)
def test_what_an_end_means_for_the_deadline(site, end, state, outcome, reward):
    site.queue(7)
    site.round(site.admit())
    site.leave(end=end, state=state)
    site.now = T0 + 20_000
    site.round()
    assert (site.record().state, site.record().reward) == (outcome, reward)


def test_of_soft_deadlines_each_has_its_worth(site):
    site.queue(7, comment=f"gs1{{soft={T0 + 500}:10,soft={DEADLINE}:5}}")
    site.round(site.admit())
    site.leave(end=800)
    site.now = T0 + 900
    site.round()
    assert (site.record().state, site.record().reward) == (TargetState.KEPT, 50.0)


def test_a_job_whose_end_nobody_has_told_yet_is_waited_for(site):
    site.queue(7)
    site.round(site.admit())
    site.views = []
    site.now = T0 + 500
    site.round()
    assert site.record().state is TargetState.STANDING
    site.queue(7)  # it is there again: Slurm had hidden it
    site.round(site.admit())
    site.views = []
    site.now += 10
    site.round()
    site.now += LOST_S - 1
    site.round()
    assert site.record().state is TargetState.STANDING
    site.now += 1
    site.round()
    assert site.record().state is TargetState.UNKNOWN


def test_a_daemon_that_starts_anew_each_day_gives_up_what_nobody_tells_of(site):
    site.queue(7)
    site.round(site.admit())
    site.views = []
    for day in (0, LOST_S // 2, LOST_S - 1):
        site.now = T0 + 500 + day
        site.restart()
        site.round()
        assert site.record().state is TargetState.STANDING
    site.now = T0 + 500 + LOST_S
    site.restart()
    site.round()
    assert site.record().state is TargetState.UNKNOWN


@pytest.mark.parametrize("is_refused", [False, True])
def test_who_was_missed_in_the_queue_and_came_back_is_missed_anew(site, is_refused):
    site.queue(7)
    site.round(site.admit())
    site.views = []
    site.now = T0 + 500
    site.round()
    assert site.record().gone_time == T0 + 500
    site.queue(7)
    site.now += 10
    site.round(*([site.refuse()] if is_refused else []))  # nobody plans it
    assert site.record().gone_time is None
    site.views = []
    site.now = T0 + 500 + LOST_S
    site.round()
    assert site.record().state is TargetState.STANDING


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.NODE_FAIL])
def test_what_has_come_of_a_promise_stays_when_its_job_is_queued_again(site, state):
    site.queue(7)
    site.round(site.admit())
    site.leave(end=700, state=state)
    site.now = T0 + 900
    site.round()
    first = site.record()
    assert first.state in (TargetState.KEPT, TargetState.MISSED)
    for restarts in range(3):
        site.now += 100
        if restarts == 2:
            site.restart()
        site.queue(7)
        site.round(site.admit(admitted_time=T0 + 1000))
    again, before = site.history.targets().asked(CLUSTER)
    assert before == first
    assert (again.state, again.asked_time) == (TargetState.STANDING, T0 + 1000)
    assert again.promise.time == T0 + 1000
    assert site.told()["target"]["state"] == "on-target"


def test_a_job_that_is_queued_again_after_its_outcome_may_be_refused(site):
    site.queue(7)
    site.round(site.admit())
    site.leave(end=700)
    site.now = T0 + 900
    site.round()
    for _ in range(2):
        site.now += 100
        site.queue(7)
        site.round(site.refuse())
    states = [record.state for record in site.history.targets().asked(CLUSTER)]
    assert states == [TargetState.REFUSED, TargetState.KEPT]


def test_a_daemon_that_was_away_learns_what_has_become_of_its_promises(site):
    site.queue(7, 8)
    site.round(site.admit(7), site.admit(8))
    site.leave(7, end=700)
    site.restart()
    site.now = T0 + 900
    site.round(site.admit(8, finish_time=T0 + 950))
    assert site.record(7).state is TargetState.KEPT
    assert site.record(8).promise == Promise(T0, T0 + 800, 0.95, 2e3)
    assert site.events(8) == ["standing"]


def test_another_request_takes_the_place_of_a_promise(site):
    site.queue(7)
    site.round(site.admit())
    site.now = T0 + 100
    site.queue(7, comment=f"gs1{{deadline={T0 + 50}}}")
    site.round(site.refuse())
    found = {r.asked_time: r.state for r in site.history.targets().asked(CLUSTER)}
    assert found == {T0: TargetState.WITHDRAWN, T0 + 100: TargetState.REFUSED}
    assert "target" not in site.told()
    site.now += 10
    site.queue(7, comment="gs1{none}")
    site.round()
    assert site.record().state is TargetState.REFUSED


def test_a_request_that_is_taken_back_withdraws_the_promise(site):
    site.queue(7)
    site.round(site.admit())
    site.now += 10
    site.queue(7, comment="gs1{none}")
    told = site.round()
    assert site.record().state is TargetState.WITHDRAWN
    assert told.head["num_standing"] == 0
    site.round()
    assert site.events() == ["standing", "withdrawn"]


def test_a_promise_follows_its_job_to_an_earlier_first_submit(site):
    site.queue(7)
    site.round(site.admit())
    key = site.key(7)
    site.history.ingest(batch(attempt(7, T0, restarts=1)), source_key=None)
    earlier = attempt(7, T0 - 500, start_time=T0 - 400, end_time=T0 - 10, state=JobState.REQUEUED)
    site.history.ingest(batch(earlier), source_key=None)
    site.views = []
    for _ in range(3):
        site.now += LOST_S
        site.round()
    assert site.history.targets().latest(CLUSTER, [key]) == {}
    assert len(site.history.targets().asked(CLUSTER)) == 1
