"""The machine of leases: what Slurm's state says, and what follows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gsched.engine.leases import (
    CLOCK_SLACK_S,
    NOT_READABLE,
    REQUEUE_WINDOW_S,
    Act,
    JobSeen,
    Move,
    SaveReport,
    Verb,
    answered,
    carried_on,
    moved,
    settled,
    undone,
)
from gsched.model.accounts import LeaseGrant, LeaseRevoke, Told
from gsched.model.job import JobKey, JobState, Lease, LeaseState

SINCE, GRACE_S = 10_000, 60
REVOKE = LeaseRevoke("r1", GRACE_S, SINCE + 300, "")
PRESENT = JobSeen(1500, 2, JobState.RUNNING)
TOLD = Told(1200, "run", 50)
UNDER_WAY = [LeaseState.ENDING, LeaseState.SIGNALLED, LeaseState.SAVED]
STANDING = [LeaseState.GRANTED, *UNDER_WAY, LeaseState.REQUEUED]


def lease(state: LeaseState) -> LeaseGrant:
    grant = LeaseGrant(
        Lease("l1", state, 5000, 3600), JobKey("c", 7, epoch=1000), 1500, 8, 2, SINCE, REVOKE
    )
    return replace(grant, revoke=None) if state is LeaseState.GRANTED else grant


def says(step: int | None, committed: int | None, *, is_writing: bool = False) -> SaveReport:
    """What the job of TOLD has written since."""
    return SaveReport(step, committed, is_writing, "run", 51)


def after(state: LeaseState, seen: JobSeen | None) -> list[LeaseState]:
    return [move.state for move in settled(lease(state), seen)]


@pytest.mark.parametrize("state", STANDING)
def test_the_same_attempt_says_that_nothing_has_happened(state: LeaseState) -> None:
    for shown in (JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING, JobState.PENDING):
        assert after(state, replace(PRESENT, state=shown)) == []


@pytest.mark.parametrize("state", STANDING)
def test_one_more_restart_is_a_requeue_whatever_the_submit_time_says(state: LeaseState) -> None:
    requeued = [] if state is LeaseState.REQUEUED else [LeaseState.REQUEUED]
    for seen in (
        JobSeen(1500, 3, JobState.COMPLETING),  # the nodes are not free yet
        JobSeen(9000, 3, JobState.PENDING),
        JobSeen(9000, 5, JobState.COMPLETING),
    ):
        assert after(state, seen) == requeued
    assert after(state, JobSeen(9000, 3, JobState.RUNNING)) == [*requeued, LeaseState.REGRANTED]
    assert after(state, JobSeen(9000, 3, JobState.CANCELLED)) == [*requeued, LeaseState.CANCELLED]
    assert after(state, JobSeen(9000, 3, JobState.FAILED)) == [*requeued, LeaseState.ENDED]


def test_whose_requeue_it_was_is_told() -> None:
    seen = JobSeen(9000, 3, JobState.PENDING)
    details = {s: [m.detail for m in settled(lease(s), seen)] for s in STANDING[:-1]}
    assert details.pop(LeaseState.SAVED) == [""]
    assert set(map(tuple, details.values())) == {("not by gsched",)}


@pytest.mark.parametrize("state", STANDING)
def test_a_job_that_ended_ends_its_lease(state: LeaseState) -> None:
    for shown in JobState:
        if not shown.is_terminal or shown in {JobState.CANCELLED, JobState.REQUEUED}:
            continue
        assert after(state, replace(PRESENT, state=shown)) == [LeaseState.ENDED]
    assert after(state, replace(PRESENT, state=JobState.CANCELLED)) == [LeaseState.CANCELLED]
    assert after(state, replace(PRESENT, state=JobState.REQUEUED)) == []
    assert after(state, None) == [LeaseState.VANISHED]


@pytest.mark.parametrize("state", STANDING)
def test_another_job_of_the_number_is_not_the_leases(state: LeaseState) -> None:
    for restarts in (0, 2):
        seen = JobSeen(9000, restarts, JobState.RUNNING)
        assert after(state, seen) == [LeaseState.VANISHED]
    for restarts in (1, 2):  # a slurmctld that was set back shows an earlier attempt of this job
        assert after(state, JobSeen(1400, restarts, JobState.RUNNING)) == []


@pytest.mark.parametrize("state", STANDING)
def test_every_judgement_is_a_legal_way(state: LeaseState) -> None:
    for shown in JobState:
        for attempt, restarts in ((1500, 2), (1500, 3), (9000, 3), (1400, 1)):
            at = state
            for move in settled(lease(state), JobSeen(attempt, restarts, shown)):
                assert at.may_become(move.state)
                at = move.state


def test_ending_sends_the_signal_and_saved_the_requeue() -> None:
    now = SINCE + 10
    signal = carried_on(lease(LeaseState.ENDING), PRESENT, None, now)
    assert signal == Act("r1/signal", Verb.SIGNAL, REVOKE.valid_until)
    requeue = carried_on(lease(LeaseState.SAVED), PRESENT, None, now)
    assert requeue == Act("r1/requeue", Verb.REQUEUE, SINCE + REQUEUE_WINDOW_S)


def test_grace_decides_of_a_job_that_tells_nothing() -> None:
    told = lease(LeaseState.SIGNALLED)
    assert carried_on(told, PRESENT, None, SINCE + GRACE_S - 1) is None
    step = carried_on(told, PRESENT, None, SINCE + GRACE_S)
    assert step == Move(LeaseState.SAVED, "its grace of 60 s is over")


@pytest.mark.parametrize("committed", [1200, 1203])
def test_a_job_has_saved_when_a_checkpoint_holds_what_was_done_when_it_was_told(
    committed: int,
) -> None:
    told = replace(lease(LeaseState.SIGNALLED), told=TOLD)
    step = carried_on(told, PRESENT, says(1300, committed), SINCE + 1)
    assert step == Move(LeaseState.SAVED, "the job says so")


UNSAVED = {
    says(1300, 1199): "step 1,199 of the 1,200 that were done is saved",
    says(1300, None): "no step of the 1,200 that were done is saved",
    says(1300, 1250, is_writing=True): (
        "step 1,250 of the 1,200 that were done is saved, and a checkpoint is being written"
    ),
    SaveReport(1300, 1300, run="run", seq=50): "its heartbeat says nothing new",
    SaveReport(1300, 1300, run="run", seq=49): "its heartbeat says nothing new",
    SaveReport(1300, 1300, run="another", seq=51): "its heartbeat says nothing new",
    NOT_READABLE: "its heartbeat cannot be read",
    None: "it tells nothing of its checkpoints any more",
}


@pytest.mark.parametrize("report", UNSAVED)
def test_a_job_that_has_not_saved_in_time_keeps_its_gpus(report: SaveReport | None) -> None:
    told = replace(lease(LeaseState.SIGNALLED), told=TOLD)
    assert carried_on(told, PRESENT, report, SINCE + GRACE_S - 1) is None
    step = carried_on(told, PRESENT, report, SINCE + GRACE_S)
    assert isinstance(step, Move)
    assert (step.state, step.is_unsaved) == (LeaseState.KEPT, True)
    assert step.detail.startswith("has not saved within 60 s: ")
    assert step.detail.endswith(UNSAVED[report])


def test_a_job_that_told_nothing_when_it_was_told_has_its_grace() -> None:
    told = lease(LeaseState.SIGNALLED)
    for report in (SaveReport(1300, 1200), SaveReport(1300, None), NOT_READABLE):
        assert carried_on(told, PRESENT, report, SINCE + GRACE_S - 1) is None
        step = carried_on(told, PRESENT, report, SINCE + GRACE_S)
        assert step == Move(LeaseState.SAVED, "its grace of 60 s is over")
    step = carried_on(told, PRESENT, SaveReport(1300, 1300), SINCE + 1)
    assert step == Move(LeaseState.SAVED, "the job says so")


def test_a_checkpoint_of_the_jobs_own_accord_is_not_disturbed() -> None:
    ending = lease(LeaseState.ENDING)
    busy = SaveReport(1300, 1200, is_writing=True)
    for report in (busy, NOT_READABLE):
        assert carried_on(ending, PRESENT, report, SINCE + 10) is None
        step = carried_on(ending, PRESENT, report, REVOKE.valid_until + 2)
        why = "too late by 2 s: " + (report.unheard or "it was saving until then")
        assert step == Move(LeaseState.LAPSED, why, is_unsaved=True)
    step = carried_on(ending, PRESENT, replace(busy, is_writing=False), SINCE + 10)
    assert step == Act("r1/signal", Verb.SIGNAL, REVOKE.valid_until)
    # the requeue follows all the same: what it writes now is more than it was to save
    step = carried_on(lease(LeaseState.SAVED), PRESENT, busy, SINCE + 10)
    assert step == Act("r1/requeue", Verb.REQUEUE, SINCE + REQUEUE_WINDOW_S)


@pytest.mark.parametrize("state", UNDER_WAY)
def test_nothing_is_done_to_a_job_that_does_not_run_in_its_attempt(state: LeaseState) -> None:
    now = SINCE + 10
    for shown in set(JobState) - {JobState.RUNNING}:
        step = carried_on(lease(state), replace(PRESENT, state=shown), None, now)
        assert not isinstance(step, Act)
    for other in (JobSeen(1400, 1, JobState.RUNNING), JobSeen(1500, 3, JobState.RUNNING)):
        assert carried_on(lease(state), other, None, now) is None


@pytest.mark.parametrize("state", UNDER_WAY)
def test_a_job_that_must_be_left_alone_keeps_its_gpus(state: LeaseState) -> None:
    seen = replace(PRESENT, excluded="opted-out")
    step = carried_on(lease(state), seen, SaveReport(5, 5), SINCE + 1)
    assert step == Move(LeaseState.KEPT, "left alone: opted-out")


def test_a_job_that_is_suspended_when_it_is_to_save_keeps_its_gpus() -> None:
    told, suspended = lease(LeaseState.SIGNALLED), replace(PRESENT, state=JobState.SUSPENDED)
    for now in (SINCE + 1, SINCE + GRACE_S, SINCE + GRACE_S + 100):
        for grant in (told, replace(told, told=TOLD)):
            step = carried_on(grant, suspended, None, now)
            why = "has not saved: it was suspended when it was to"
            assert step == Move(LeaseState.KEPT, why, is_unsaved=True)
    grant = replace(told, told=TOLD)  # where it has, it is requeued when it runs again
    step = carried_on(grant, suspended, says(1300, 1200), SINCE + 1)
    assert step == Move(LeaseState.SAVED, "the job says so")
    ending = replace(PRESENT, state=JobState.COMPLETING)
    last = SINCE + GRACE_S + REQUEUE_WINDOW_S
    assert carried_on(told, ending, None, last) is None
    step = carried_on(told, ending, None, last + 2)
    assert step == Move(LeaseState.LAPSED, "too late by 2 s")


OF_SIGNAL = {
    JobState.FAILED: "failed after it was told to save: a script that does not trap USR1 dies of "
    "it",
    JobState.COMPLETED: "completed after it was told to save: was it done, or does it end at USR1 "
    "instead of training on?",
}


@pytest.mark.parametrize("state", [LeaseState.SIGNALLED, LeaseState.SAVED])
def test_a_job_that_ends_when_it_is_to_save_is_told_of(state: LeaseState) -> None:
    last = SINCE + GRACE_S + CLOCK_SLACK_S
    for shown, words in OF_SIGNAL.items():
        seen = replace(PRESENT, state=shown)
        for now in (SINCE, last):
            assert settled(lease(state), seen, now) == (
                Move(LeaseState.ENDED, words, is_of_signal=True),
            )
        plain = (Move(LeaseState.ENDED, shown.value.lower()),)
        assert settled(lease(state), seen, last + 1) == plain
        assert settled(lease(state), seen) == plain
        for other in {LeaseState.GRANTED, LeaseState.ENDING, LeaseState.REQUEUED}:
            assert settled(lease(other), seen, SINCE) == plain
    for shown in (JobState.TIMEOUT, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY):
        (move,) = settled(lease(state), replace(PRESENT, state=shown), SINCE)
        assert not move.is_of_signal


def test_what_a_job_says_is_kept_when_it_is_told() -> None:
    assert says(1300, 1200).told == Told(1300, "run", 51)
    assert NOT_READABLE.told is None


def test_what_comes_too_late_is_not_done() -> None:
    late = {
        LeaseState.ENDING: REVOKE.valid_until,
        LeaseState.SIGNALLED: SINCE + GRACE_S + REQUEUE_WINDOW_S,
        LeaseState.SAVED: SINCE + REQUEUE_WINDOW_S,
    }
    for state, last in late.items():
        in_time = carried_on(lease(state), PRESENT, None, last)
        assert isinstance(in_time, Act) or in_time == Move(LeaseState.SAVED, in_time.detail)  # type: ignore[union-attr]
        step = carried_on(lease(state), PRESENT, None, last + 2)
        assert step == Move(LeaseState.LAPSED, "too late by 2 s")


@pytest.mark.parametrize("state", UNDER_WAY)
def test_a_clock_that_was_set_back_tells_no_age(state: LeaseState) -> None:
    step = carried_on(lease(state), PRESENT, None, SINCE - CLOCK_SLACK_S - 1)
    assert step == Move(LeaseState.LAPSED, "the clock was set back")
    step = carried_on(lease(state), PRESENT, None, SINCE - 1)  # what NTP does now and then
    assert step is None or isinstance(step, Act)


def test_only_what_is_under_way_goes_on() -> None:
    for state in set(LeaseState) - set(UNDER_WAY):
        assert carried_on(lease(state), PRESENT, SaveReport(5, 5), SINCE + GRACE_S) is None


def test_a_revoke_can_be_taken_back_until_the_requeue() -> None:
    for state in LeaseState:
        step = undone(lease(state), PRESENT, "why")
        assert step == (Move(LeaseState.KEPT, "why") if state in UNDER_WAY else None)
        assert state.can_be_undone == (state in UNDER_WAY)
        assert undone(lease(state), replace(PRESENT, restarts=3), "why") is None


def test_answers() -> None:
    signal, requeue = (Act("x", verb, 0) for verb in (Verb.SIGNAL, Verb.REQUEUE))
    assert answered(signal, "") == Move(LeaseState.SIGNALLED)
    assert answered(signal, "", TOLD) == Move(LeaseState.SIGNALLED, told=TOLD)
    assert answered(requeue, "") is None  # the job shows it
    assert answered(signal, "no") == Move(LeaseState.REFUSED, "signal: no")
    assert answered(requeue, "no") == Move(LeaseState.REFUSED, "requeue: no")


def test_the_ways_of_a_lease() -> None:
    standing = {state for state in LeaseState if not state.is_over}
    assert standing == set(STANDING)
    for state in STANDING:
        assert state.may_become(LeaseState.VANISHED)
        assert not state.may_become(state)
    before = {s for s in LeaseState if s.may_become(LeaseState.REGRANTED)}
    assert before == {LeaseState.REQUEUED}
    grant = moved(lease(LeaseState.ENDING), Move(LeaseState.SIGNALLED), 10_500)
    assert (grant.lease.state, grant.since, grant.told) == (LeaseState.SIGNALLED, 10_500, None)
    grant = moved(grant, Move(LeaseState.SIGNALLED, told=TOLD), 10_500)
    assert moved(grant, Move(LeaseState.SAVED), 10_600).told == TOLD
