"""The driver of leases: what it takes on, and what it sees to before and after each act."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from support.jobs import T0, view
from support.memory_leases import MemoryLeases
from support.toy_slurm import GPUS, WAIT_S, ToyJob, ToySlurm, node

from gsched.engine.faults import LEASE_POINTS, FaultPoint
from gsched.engine.lease_driver import MAX_GRACE_S, MAX_ID_CHARS, LeaseDriver
from gsched.engine.lease_rules import FIRST_SAVE_S, HAND_OVERS_A_LEASE
from gsched.engine.leases import NOT_READABLE, REQUEUE_WINDOW_S, JobSeen, Move, SaveReport
from gsched.errors import TryAgainError
from gsched.model.cluster import ClusterState
from gsched.model.decision import Action, Decision, Grant, Rank, Renew, Revoke
from gsched.model.job import JobKey, JobState, LeaseState
from gsched.model.jobtable import JobTable

LENGTH_S = 3600
SHORTEST_S = HAND_OVERS_A_LEASE * (FIRST_SAVE_S + WAIT_S)
RUNS = JobState.RUNNING


class Setting:
    """One job that runs, a store, and a driver."""

    def __init__(self) -> None:
        self.slurm = ToySlurm("c", T0)
        self.store = MemoryLeases()
        self.points: list[FaultPoint] = []
        self.told: list[LeaseState] = []
        self.driver = LeaseDriver(
            "c",
            self.store,
            self.slurm,
            self.slurm.clock,
            self.points.append,
            lambda _, move: self.told.append(move.state),
        )
        self.job = self.slurm.submit()
        self.job.state = RUNS

    def round(
        self,
        *actions: Action,
        meanwhile: Callable[[], object] = lambda: None,
        order: dict[JobKey, Rank] | None = None,
        edit: Callable[[ClusterState], ClusterState] = lambda state: state,
    ) -> list[str]:
        """A round with these actions; `meanwhile` happens after its look. What was not done."""
        state = edit(self.driver.seen(self.slurm.snapshot(), acting=True))
        meanwhile()
        decision = Decision(order or {}, actions, {}, {})
        return [p.what for p in self.driver.carry_out(decision, state)]

    def action(
        self, kind: Any, action_id: str = "a", job: ToyJob | None = None, **rest: Any
    ) -> Any:
        job = job or self.job
        base = {"key": job.key, "attempt": job.submit, "after_seq": 0, "undo": None}
        base |= {"valid_until": self.slurm.now + 60}
        return kind(action_id=action_id, **(base | rest))

    def grant(self, action_id: str = "g", **rest: Any) -> Any:
        return self.action(Grant, action_id, **({"length_s": LENGTH_S} | rest))

    def renew(self, action_id: str = "n", **rest: Any) -> Any:
        return self.action(Renew, action_id, **({"length_s": LENGTH_S} | rest))

    def revoke(self, action_id: str = "r", **rest: Any) -> Any:
        return self.action(Revoke, action_id, **({"grace_s": 30, "beneficiary": None} | rest))

    def states(self, lease_id: str = "g") -> list[LeaseState]:
        return [event.after for event in self.store.events(lease_id)]

    @property
    def state(self) -> LeaseState:
        return self.states()[-1]


@pytest.fixture
def setting() -> Setting:
    return Setting()


@pytest.fixture
def leased(setting: Setting) -> Setting:
    """With a lease that is at its end."""
    assert setting.round(setting.grant()) == []
    setting.slurm.now += LENGTH_S
    return setting


@pytest.fixture
def told(leased: Setting) -> Setting:
    """With a lease whose job has been told to save, just now."""
    assert leased.round(leased.revoke()) == []
    assert leased.state is LeaseState.SIGNALLED
    return leased


def test_the_whole_way_and_its_fault_points(told: Setting) -> None:
    told.slurm.now += 30
    told.round()
    assert told.state is LeaseState.REQUEUED  # seen at once: the restart count says so
    told.slurm.nodes_are_free(told.job)
    told.round()
    told.job.state = RUNS
    told.round()
    way = ["granted", "ending", "signalled", "saved", "requeued", "regranted"]
    assert [state.value for state in told.states()] == way
    assert [state.value for state in told.told] == way
    assert told.points == list(LEASE_POINTS)
    assert (told.job.signals, told.job.requeues) == (
        [(0, T0 + LENGTH_S)],
        [(0, T0 + LENGTH_S + 30)],
    )
    assert told.store.save_times("c") == [30]


def test_a_policy_sees_the_leases(leased: Setting) -> None:
    state = leased.driver.seen(leased.slurm.snapshot(), acting=False)
    (shown,) = state.jobs.views
    assert shown.lease is not None
    assert (shown.lease.lease_id, shown.lease.state) == ("g", LeaseState.GRANTED)
    assert shown.lease.end_time == T0 + LENGTH_S


def test_a_policy_sees_for_whom_a_revoke_is_under_way(leased: Setting) -> None:
    other = leased.slurm.submit()
    rank = {other.key: Rank("gpu", 1, 1, 0.0, 1.0)}

    def shown() -> str:
        state = leased.driver.seen(leased.slurm.snapshot(), acting=True)
        lease = state.jobs.view(leased.job.key).lease
        return "no lease" if lease is None else lease.beneficiary

    assert shown() == ""
    revoke = leased.revoke(beneficiary=other.key)
    assert leased.round(revoke, order=rank, edit=with_a_node) == []
    assert leased.state is LeaseState.SIGNALLED
    assert shown() == other.key.slurm_id
    assert leased.round(leased.renew()) == []  # is taken back
    assert shown() == ""


def test_who_was_requeued_and_waits_shows_no_lease(told: Setting) -> None:
    """It would be charged for GPUs that it does not hold."""

    def shown() -> Any:
        return told.driver.seen(told.slurm.snapshot(), acting=True).jobs.view(told.job.key).lease

    assert shown() is not None
    told.slurm.now += 30
    told.round()
    assert (told.state, told.job.state) == (LeaseState.REQUEUED, JobState.COMPLETING)
    assert shown() is None
    told.slurm.nodes_are_free(told.job)
    assert shown() is None
    assert [grant.lease.lease_id for grant in told.driver.standing] == ["g"]  # it is not over


def test_who_only_observes_writes_nothing_down(leased: Setting) -> None:
    leased.job.state = JobState.FAILED
    leased.driver.seen(leased.slurm.snapshot(), acting=False)
    assert leased.state is LeaseState.GRANTED
    leased.driver.seen(leased.slurm.snapshot(), acting=True)
    assert leased.state is LeaseState.ENDED


def test_a_job_that_left_the_queue_is_asked_for(leased: Setting) -> None:
    leased.job.state = JobState.CANCELLED
    leased.slurm.answers = False
    with pytest.raises(TryAgainError):
        leased.round()
    assert leased.state is LeaseState.GRANTED  # it is not known: nothing is concluded
    leased.slurm.answers = True
    leased.round()
    assert leased.state is LeaseState.CANCELLED


# What happens between the round's look and its act: the act is not done any more.
BETWEEN = {
    "requeued": lambda s: s.slurm.requeue(s.job),
    "opted out": lambda s: setattr(s.job, "excluded", "opted-out"),
    "suspended": lambda s: setattr(s.job, "state", JobState.SUSPENDED),
    "ended": lambda s: setattr(s.job, "state", JobState.COMPLETED),
    "gone": lambda s: s.slurm.jobs.pop(s.job.key),
}
THEN = {
    "requeued": LeaseState.REQUEUED,
    "opted out": LeaseState.KEPT,
    "suspended": None,
    "ended": LeaseState.ENDED,
    "gone": LeaseState.VANISHED,
}


@pytest.mark.parametrize("what", BETWEEN)
def test_the_precondition_is_looked_at_right_before_the_signal(leased: Setting, what: str) -> None:
    leased.round(leased.revoke(), meanwhile=lambda: BETWEEN[what](leased))
    assert leased.job.signals == []
    assert leased.job.wronged == []
    assert leased.state is (THEN[what] or LeaseState.ENDING)


@pytest.mark.parametrize("what", BETWEEN)
def test_the_precondition_is_looked_at_right_before_the_requeue(told: Setting, what: str) -> None:
    told.slurm.now += 30
    told.round(meanwhile=lambda: BETWEEN[what](told))
    assert told.job.requeues == []
    assert told.job.wronged == []
    assert told.state is (THEN[what] or LeaseState.SAVED)


def test_a_job_that_reports_need_not_wait_for_its_grace(told: Setting) -> None:
    told.slurm.now += 3
    told.round()
    assert told.state is LeaseState.SIGNALLED
    told.job.reports_saved = True
    told.round()
    assert told.state is LeaseState.REQUEUED


def test_a_job_that_has_not_saved_keeps_its_gpus_and_gets_another_lease(leased: Setting) -> None:
    leased.job.reports_saved = False
    leased.round(leased.revoke())
    told = leased.store.standing("c")[0].told
    assert told is not None
    assert told.step == 5
    leased.slurm.now += 30
    leased.round()
    assert leased.state is LeaseState.KEPT
    last = leased.store.events("g")[-1]
    assert last.detail == "has not saved within 30 s: step 4 of the 5 that were done is saved"
    assert leased.job.requeues == []
    assert leased.store.save_times("c") == []
    assert leased.round(leased.grant("g2")) == []
    assert leased.states("g2") == [LeaseState.GRANTED]


def test_of_a_job_that_has_left_nothing_unsaved_is_kept(leased: Setting) -> None:
    leased.job.reports_saved = False
    leased.round(leased.revoke())
    leased.slurm.now += 30
    leased.round()
    leased.round()
    assert list(leased.driver.unsaved) == [leased.job.key]  # as long as it is in the queue
    leased.job.state = JobState.COMPLETED
    leased.round()
    assert leased.driver.unsaved == {}


def test_what_a_job_said_before_it_was_told_does_not_say_that_it_has_saved(
    leased: Setting,
) -> None:
    """Its heartbeat is an old one: nobody writes it any more."""
    leased.job.reports_saved, leased.job.stopped = True, True
    leased.round(leased.revoke())
    leased.slurm.now += 29
    leased.round()
    assert (leased.state, leased.job.requeues) == (LeaseState.SIGNALLED, [])
    leased.slurm.now += 1
    leased.round()
    assert leased.state is LeaseState.KEPT
    last = leased.store.events("g")[-1]
    assert last.detail == "has not saved within 30 s: its heartbeat says nothing new"
    assert leased.job.requeues == []


@pytest.mark.parametrize("report", [None, NOT_READABLE])
def test_a_job_that_cannot_be_heard_any_more_keeps_its_gpus(
    leased: Setting, report: SaveReport | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    leased.job.reports_saved = False
    leased.round(leased.revoke())
    monkeypatch.setattr(leased.slurm, "report", lambda _: report)
    leased.slurm.now += 30
    leased.round()
    assert (leased.state, leased.job.requeues) == (LeaseState.KEPT, [])
    assert leased.driver.unsaved[leased.job.key].why.startswith("has not saved within 30 s: it")


def test_what_was_saved_too_long_ago_is_not_requeued(leased: Setting) -> None:
    """Whoever is to have the GPUs does not come first: meanwhile the job trains on."""
    other = leased.slurm.submit()
    first = {other.key: Rank("gpu", 1, 1, 0.0, 1.0)}
    leased.round(leased.revoke(beneficiary=other.key), order=first, edit=with_a_node)
    leased.slurm.behind.add(other.key.slurm_id)
    leased.slurm.now += 30
    leased.round()
    leased.slurm.now += REQUEUE_WINDOW_S
    leased.round()
    assert leased.state is LeaseState.SAVED
    leased.slurm.now += 1
    leased.slurm.behind.clear()
    leased.round()
    assert (leased.state, leased.job.requeues) == (LeaseState.LAPSED, [])
    assert REQUEUE_WINDOW_S <= 120


def test_none_is_requeued_while_those_that_begin_fail(leased: Setting) -> None:
    leased.slurm.nodes_are_known = False
    leased.round(leased.revoke())
    leased.slurm.now += 30
    leased.round()
    assert (leased.state, leased.job.requeues) == (LeaseState.SAVED, [])
    leased.slurm.nodes_are_known = True
    leased.round()
    assert [restarts for restarts, _ in leased.job.requeues] == [0]


def test_a_job_that_ends_when_it_is_told_is_warned_of(told: Setting) -> None:
    moves: list[Move] = []
    told.driver._tell = lambda _grant, move: moves.append(move)
    told.job.state = JobState.FAILED
    told.round()
    assert [(m.state, m.is_of_signal) for m in moves] == [(LeaseState.ENDED, True)]


def test_a_job_that_dies_of_the_signal_at_once_is_warned_of(
    leased: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[Move] = []
    leased.driver._tell = lambda _grant, move: moves.append(move)
    act = leased.slurm.act

    def deadly(*args: Any) -> str:
        answer = act(*args)
        leased.job.state = JobState.FAILED
        return answer

    monkeypatch.setattr(leased.slurm, "act", deadly)
    leased.round(leased.revoke())
    assert [(m.state, m.is_of_signal) for m in moves[-2:]] == [
        (LeaseState.SIGNALLED, False),
        (LeaseState.ENDED, True),
    ]


def test_what_slurm_does_by_itself_is_left_to_it(leased: Setting) -> None:
    other = leased.slurm.submit()
    leased.slurm.preempts.add((leased.job.key, other.key))
    first = {other.key: Rank("gpu", 1, 1, 0.0, 1.0)}
    (what,) = leased.round(leased.revoke(beneficiary=other.key), order=first, edit=with_a_node)
    assert what == "Revoke r: Slurm preempts it by itself for 2"
    assert (leased.state, leased.job.signals) == (LeaseState.GRANTED, [])
    leased.slurm.requeue(leased.job)  # Slurm does
    leased.round()
    assert [e.detail for e in leased.store.events("g")][-1] == "not by gsched"
    assert leased.state is LeaseState.REQUEUED


def with_a_node(state: ClusterState) -> ClusterState:
    return replace(state, nodes=(node("gn01", GPUS),))


def test_nobody_gives_way_while_slurm_would_start_another_first(leased: Setting) -> None:
    other = leased.slurm.submit()
    first = {other.key: Rank("gpu", 1, 1, 0.0, 1.0)}
    leased.slurm.behind.add(other.key.slurm_id)
    revoke = leased.revoke(beneficiary=other.key)
    (what,) = leased.round(revoke, order=first, edit=with_a_node)
    assert what == "Revoke r: Slurm would start another job before 2, for which it is"
    assert leased.state is LeaseState.GRANTED
    leased.slurm.behind.clear()
    assert leased.round(revoke, order=first, edit=with_a_node) == []
    assert leased.state is LeaseState.SIGNALLED


def test_a_requeue_waits_until_its_beneficiary_is_first(leased: Setting) -> None:
    other = leased.slurm.submit()
    first = {other.key: Rank("gpu", 1, 1, 0.0, 1.0)}
    leased.round(leased.revoke(beneficiary=other.key), order=first, edit=with_a_node)
    leased.slurm.behind.add(other.key.slurm_id)
    leased.slurm.now += 30
    for _ in range(3):
        leased.round()
        leased.slurm.now += 30
    assert (leased.state, leased.job.requeues) == (LeaseState.SAVED, [])
    leased.slurm.behind.clear()
    leased.round()
    assert leased.state is LeaseState.REQUEUED


def test_what_was_done_is_asked_before_the_signal(
    leased: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the step before that has to be saved: a quick job does more while it is told."""
    leased.job.reports_saved = True
    steps = {0: 5}
    monkeypatch.setattr(leased.slurm, "report", lambda _: SaveReport(steps[0], 0), raising=True)
    act = leased.slurm.act

    def quick(*args: Any) -> str:
        steps[0] = 50
        return act(*args)

    monkeypatch.setattr(leased.slurm, "act", quick)
    leased.round(leased.revoke())
    told = leased.store.standing("c")[0].told
    assert told is not None
    assert told.step == 5


def test_a_job_that_writes_a_checkpoint_is_told_when_it_has_done_so(leased: Setting) -> None:
    leased.job.reports_saved, leased.job.is_writing = True, True
    assert leased.round(leased.revoke()) == []
    leased.slurm.now += 20
    leased.round()
    assert (leased.state, leased.job.signals) == (LeaseState.ENDING, [])
    leased.job.is_writing = False
    leased.round()
    assert [restarts for restarts, _ in leased.job.signals] == [0]
    assert leased.state is LeaseState.REQUEUED  # all was saved already


def test_a_checkpoint_that_begins_right_before_the_signal_is_not_disturbed(
    leased: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The job is asked once more when its state has been looked at."""
    leased.job.reports_saved = True
    observe = leased.slurm.observe

    def begins(keys: Sequence[JobKey]) -> Mapping[JobKey, JobSeen]:
        leased.job.is_writing = True
        return observe(keys)

    monkeypatch.setattr(leased.slurm, "observe", begins)
    assert leased.round(leased.revoke()) == []
    assert (leased.state, leased.job.signals) == (LeaseState.ENDING, [])
    assert leased.job.wronged == []


def test_a_job_is_told_to_save_while_its_beneficiary_is_put_in_front(leased: Setting) -> None:
    """Only the requeue waits for that: until then nobody loses GPUs."""
    other = leased.slurm.submit()
    first = {other.key: Rank("gpu", 1, 1, 0.0, 1.0)}
    leased.job.reports_saved, leased.job.is_writing = True, True
    leased.round(leased.revoke(beneficiary=other.key), order=first, edit=with_a_node)
    assert leased.state is LeaseState.ENDING
    leased.slurm.behind.add(other.key.slurm_id)
    leased.job.is_writing = False
    leased.round()
    assert len(leased.job.signals) == 1
    assert (leased.state, leased.job.requeues) == (LeaseState.SAVED, [])


def test_what_slurm_refuses_is_given_up(told: Setting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told.slurm, "requeue", lambda _: "Requested operation is disabled")
    told.slurm.now += 30
    told.round()
    assert told.state is LeaseState.REFUSED
    last = told.store.events("g")[-1]
    assert last.detail == "requeue: Requested operation is disabled"
    told.round()
    assert told.job.requeues == []


def test_an_answer_that_does_not_come_is_looked_up(told: Setting) -> None:
    """scontrol has done it, but its answer is lost: the next round sees, and sends nothing."""
    told.slurm.now += 30
    act = told.slurm.act

    def silent(*args: Any) -> str:
        act(*args)
        raise TryAgainError("no answer within 60 s")

    told.slurm.act = silent  # type: ignore[method-assign]
    with pytest.raises(TryAgainError):
        told.round()
    assert told.state is LeaseState.SAVED
    told.round()
    assert told.state is LeaseState.REQUEUED
    assert len(told.job.requeues) == 1


def test_the_kill_switch_takes_back_what_can_be(told: Setting) -> None:
    assert told.driver.take_back("kill switch") == ("g",)
    assert told.state is LeaseState.KEPT
    assert told.store.events("g")[-1].detail == "kill switch"
    told.slurm.now += 30
    told.round()
    assert told.job.requeues == []
    assert told.driver.take_back("again") == ()


def test_what_was_requeued_is_not_taken_back(told: Setting) -> None:
    told.slurm.requeue(told.job)
    assert told.driver.take_back("kill switch") == ()
    assert told.state is LeaseState.REQUEUED


# -- what is taken on ------------------------------------------------------------------------------


def test_a_lease_must_be_long_against_its_hand_over(setting: Setting) -> None:
    (what,) = setting.round(setting.grant(length_s=SHORTEST_S - 1))
    assert f"shorter than 20 hand-overs of {FIRST_SAVE_S + WAIT_S} s" in what
    assert setting.round(setting.grant(length_s=SHORTEST_S)) == []


def test_the_hand_over_is_measured(told: Setting) -> None:
    told.slurm.now += 30
    told.round()
    told.slurm.nodes_are_free(told.job)
    told.job.state = RUNS
    told.round()
    shortest = HAND_OVERS_A_LEASE * (30 + WAIT_S)
    assert told.round(told.grant("h", length_s=shortest - 1)) != []
    assert told.round(told.grant("h", length_s=shortest)) == []


def test_a_length_of_its_own_is_an_hour(setting: Setting) -> None:
    assert setting.round(setting.grant(length_s=0)) == []
    assert setting.store.kept["g"].lease.length_s == 3600


def test_a_lease_is_a_promise_until_its_end(setting: Setting) -> None:
    setting.round(setting.grant())
    setting.slurm.now += LENGTH_S - 31
    (what,) = setting.round(setting.revoke())
    assert "the lease runs for another 31 s" in what
    setting.slurm.now += 1  # the grace ends with the lease
    assert setting.round(setting.revoke()) == []


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda s: s.grant("g2"), "the job has the lease g"),
        (lambda s: s.renew("n", length_s=10), "is shorter than 20 hand-overs"),
        (lambda s: s.revoke(grace_s=-1), "a grace of -1 s"),
        (lambda s: s.revoke(grace_s=MAX_GRACE_S + 1), "a grace of 3601 s"),
        (lambda s: s.revoke("x" * (MAX_ID_CHARS + 1)), "more than 128 characters"),
        (lambda s: s.revoke(valid_until=s.slurm.now - 2), "expired 2 s ago"),
        (lambda s: s.revoke(attempt=1), "no lease in this attempt"),
    ],
)
def test_what_does_not_fit_is_told_and_not_done(
    leased: Setting, made: Callable[[Setting], Any], words: str
) -> None:
    (what,) = leased.round(made(leased))
    assert words in what
    assert leased.state is LeaseState.GRANTED
    assert len(leased.store.kept) == 1


def test_the_same_action_again_changes_nothing(leased: Setting) -> None:
    assert leased.round(leased.grant("g")) == []
    assert leased.round(leased.revoke()) == []
    assert leased.round(leased.revoke()) == []
    assert len(leased.job.signals) == 1
    (what,) = leased.round(leased.revoke("r2"))
    assert "it is being revoked by r" in what


def test_an_id_is_not_used_twice(told: Setting) -> None:
    told.driver.take_back("a test")
    (what,) = told.round(told.grant("g"))
    assert "an earlier lease has this id" in what
    assert told.round(told.grant("g2")) == []


def test_one_action_a_job_and_decision(leased: Setting) -> None:
    (what,) = leased.round(leased.renew(), leased.revoke())
    assert "another action in this decision" in what
    assert leased.states() == [LeaseState.GRANTED, LeaseState.RENEWED]


def test_a_renewal_follows_in_place(leased: Setting) -> None:
    leased.slurm.now -= 100
    assert leased.round(leased.renew()) == []
    assert leased.states() == [LeaseState.GRANTED, LeaseState.RENEWED]
    following = leased.store.kept["n"]
    assert (following.lease.start_time, following.attempt) == (T0 + LENGTH_S, leased.job.submit)
    assert leased.round(leased.renew()) == []
    assert leased.job.signals == []


def test_a_renewal_takes_a_revoke_back(told: Setting) -> None:
    assert told.round(told.renew()) == []
    assert told.states()[-1] is LeaseState.RENEWED
    told.slurm.now += 30
    told.round()
    assert told.job.requeues == []
    assert told.states("n") == [LeaseState.GRANTED]


def test_a_renewal_that_comes_too_late(told: Setting) -> None:
    (what,) = told.round(told.renew(), meanwhile=lambda: told.slurm.requeue(told.job))
    assert "cannot be taken back any more" in what
    assert told.state is LeaseState.REQUEUED


def test_a_waiting_job_gets_its_lease_when_it_runs(setting: Setting) -> None:
    setting.job.state = JobState.PENDING
    assert setting.round(setting.grant()) == []
    assert setting.store.kept == {}
    setting.job.state = RUNS
    assert setting.round(setting.grant()) == []
    assert setting.state is LeaseState.GRANTED


# -- for whose good --------------------------------------------------------------------------------


def test_gpus_are_freed_only_for_one_who_gets_them(leased: Setting) -> None:
    whom = leased.slurm.submit()
    rank = Rank("gpu", 1, 1, 0.0, 1.0)
    revoke = leased.revoke(beneficiary=whom.key)

    def on_node(name: str) -> Callable[[ClusterState], ClusterState]:
        return lambda state: replace(state, nodes=(node(name, GPUS),))

    (what,) = leased.round(revoke, order={whom.key: rank}, edit=on_node("gn02"))
    assert "would not fit" in what
    (what,) = leased.round(revoke, order={}, edit=on_node("gn01"))
    assert "is not ranked" in what
    (what,) = leased.round(
        revoke, order={whom.key: replace(rank, position=2)}, edit=on_node("gn01")
    )
    assert "is number 2 of its queue" in what
    assert leased.job.signals == []
    assert leased.round(revoke, order={whom.key: rank}, edit=on_node("gn01")) == []
    assert leased.store.kept["g"].revoke.beneficiary == whom.key.slurm_id  # type: ignore[union-attr]


def test_gpus_are_freed_for_as_many_as_come_first(setting: Setting) -> None:
    """The second of two in one decision is not first, but first of those who are left."""
    second = setting.slurm.submit()
    second.state = RUNS
    assert setting.round(setting.grant(), setting.grant("g2", job=second)) == []
    setting.slurm.now += LENGTH_S
    whom = [setting.slurm.submit() for _ in range(3)]
    order = {job.key: Rank("gpu", n, 3, 0.0, 1.0) for n, job in enumerate(whom, 1)}

    def revokes(*beneficiaries: ToyJob) -> list[str]:
        pairs = zip((setting.job, second), beneficiaries, strict=True)
        return setting.round(
            *[setting.revoke(f"r{v.key.job_id}", job=v, beneficiary=b.key) for v, b in pairs],
            order=order,
            edit=lambda state: replace(state, nodes=(node("gn01", 2 * GPUS),)),
        )

    (what,) = revokes(whom[0], whom[2])
    assert "Revoke r2: 5, for which it is, is number 3 of its queue" in what
    assert [setting.states(name)[-1].value for name in ("g", "g2")] == ["signalled", "granted"]
    setting.driver.take_back("a test")
    setting.round(setting.grant("h"))
    setting.slurm.now += LENGTH_S
    assert revokes(whom[0], whom[1]) == []
    assert [setting.states(name)[-1].value for name in ("h", "g2")] == ["signalled"] * 2


def test_many_leases_cost_no_look_while_nothing_is_due(setting: Setting) -> None:
    jobs = [setting.slurm.submit() for _ in range(50)]
    for job in jobs:
        job.state = RUNS
    setting.round(*[setting.grant(f"g{j.key.job_id}", job=j) for j in jobs])
    setting.slurm.answers = False  # any question would raise
    assert setting.round() == []
    assert len(setting.store.standing("c")) == 50


def test_a_table_without_leases_is_handed_on(setting: Setting) -> None:
    state = replace(setting.slurm.snapshot(), jobs=JobTable.from_views([view(1)]))
    assert setting.driver.seen(state, acting=True) is state
