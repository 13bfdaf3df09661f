"""Leases under any order of events, with the process killed between any two calls.

Hypothesis plays users, nodes, slurmctld, the clock and the killer. What must hold after each event:
only legal transitions; gsched requeues a job at most once for a revoke, in the lease's own attempt,
after it was told and had its grace; nobody is touched who must not be; nothing is forgotten.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.jobs import T0
from support.memory_leases import MemoryLeases
from support.toy_slurm import ToyJob, ToySlurm

from gsched.engine.lease_driver import LeaseDriver
from gsched.engine.leases import CLOCK_SLACK_S, REQUEUE_WINDOW_S
from gsched.engine.validate import validate
from gsched.errors import GschedError
from gsched.model.decision import Action, Decision, Grant, Renew, Revoke
from gsched.model.job import Capability, JobState, LeaseState
from gsched_sql import History

LENGTH_S = 3600
GRACE_S = 30
NUMBERS = itertools.count(1)
RUNS = JobState.RUNNING


class Killed(BaseException):
    """SIGKILL: nothing in the process can do anything about it."""


class Killing:
    """Passes calls on; call number `at` is not made any more, or its answer not received."""

    def __init__(self, inner: Any, next_call: Callable[[], None]) -> None:
        self._inner, self._next_call = inner, next_call

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._next_call()
            answer = found(*args, **kwargs)
            self._next_call()
            return answer

        return call


class World:
    """Two jobs with leases at their end, on a cluster of their own."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.slurm = ToySlurm(f"c{next(NUMBERS)}", T0)
        self.all = [self.slurm.submit() for _ in range(2)]
        for job in self.all:
            job.state = RUNS
        self.run([self._action(job, Grant, length_s=LENGTH_S) for job in self.all], None)
        self.slurm.now += LENGTH_S

    # -- events -----------------------------------------------------------------------------

    def round(self, _job: ToyJob, kill_at: int | None) -> None:
        self.run([], kill_at)

    def revoke(self, job: ToyJob, kill_at: int | None) -> None:
        self.run([self._action(job, Revoke, grace_s=GRACE_S, beneficiary=None)], kill_at)

    def grant(self, job: ToyJob, kill_at: int | None) -> None:
        self.run([self._action(job, Grant, length_s=LENGTH_S)], kill_at)

    def renew(self, job: ToyJob, kill_at: int | None) -> None:
        self.run([self._action(job, Renew, length_s=LENGTH_S)], kill_at)

    def take_back(self, _job: ToyJob, kill_at: int | None) -> None:
        try:
            self._driver(kill_at).take_back("a test")
        except (Killed, GschedError):
            return
        assert not [g for g in self.standing() if g.lease.state.can_be_undone]

    def goes_on(self, job: ToyJob, _kill_at: int | None) -> None:
        """What Slurm does next with a job that is on its way."""
        if job.state in {JobState.PENDING, JobState.SUSPENDED}:
            job.state = RUNS
        elif job.state is JobState.COMPLETING:
            self.slurm.nodes_are_free(job)
        elif job.state.is_terminal:
            self.slurm.jobs.pop(job.key, None)

    def suspended(self, job: ToyJob, _kill_at: int | None) -> None:
        if job.state is RUNS:
            job.state = JobState.SUSPENDED

    def requeued(self, job: ToyJob, _kill_at: int | None) -> None:
        self.slurm.requeue(job)

    def fails(self, job: ToyJob, _kill_at: int | None) -> None:
        self._ends(job, JobState.FAILED)

    def cancelled(self, job: ToyJob, _kill_at: int | None) -> None:
        self._ends(job, JobState.CANCELLED)

    def _ends(self, job: ToyJob, state: JobState) -> None:
        if not job.state.is_terminal and job.state is not JobState.COMPLETING:
            job.state = state

    def opts_out(self, job: ToyJob, _kill_at: int | None) -> None:
        job.excluded = "" if job.excluded else "opted-out"

    def says_saved(self, job: ToyJob, _kill_at: int | None) -> None:
        job.reports_saved = not job.reports_saved

    def writes(self, job: ToyJob, _kill_at: int | None) -> None:
        job.is_writing = not job.is_writing

    def slurmctld(self, _job: ToyJob, _kill_at: int | None) -> None:
        self.slurm.answers = not self.slurm.answers

    def moment(self, _job: ToyJob, _kill_at: int | None) -> None:
        self.slurm.now += 5

    def grace(self, _job: ToyJob, _kill_at: int | None) -> None:
        self.slurm.now += GRACE_S

    def lease(self, _job: ToyJob, _kill_at: int | None) -> None:
        self.slurm.now += LENGTH_S

    def set_back(self, _job: ToyJob, _kill_at: int | None) -> None:
        self.slurm.now -= 10 * CLOCK_SLACK_S

    # -- the daemon -------------------------------------------------------------------------

    def _driver(self, kill_at: int | None) -> LeaseDriver:
        calls = itertools.count(1)

        def next_call() -> None:
            if next(calls) == kill_at:
                raise Killed

        store, port = Killing(self.store, next_call), Killing(self.slurm, next_call)
        return LeaseDriver(self.slurm.cluster, store, port, self.slurm.clock)

    def _action(self, job: ToyJob, kind: Any, **values: Any) -> Action:
        made: Action = kind(
            action_id=f"a{next(NUMBERS)}",
            key=job.key,
            attempt=job.submit,
            after_seq=0,
            valid_until=self.slurm.now + 60,
            undo=None,
            **values,
        )
        return made

    def run(self, actions: list[Action], kill_at: int | None) -> None:
        driver, slurm = self._driver(kill_at), self.slurm
        try:
            state = driver.seen(slurm.snapshot(), acting=True)
            decision = Decision({}, tuple(actions), {}, {})
            abilities = frozenset({Capability.PREEMPT})
            decision, _ = validate(decision, state, abilities, slurm.now)
            driver.carry_out(decision, state)
        except Killed:
            pass
        except GschedError:
            if slurm.answers:
                raise

    def standing(self) -> list[Any]:
        return list(self.store.standing(self.slurm.cluster))

    # -- what must hold ---------------------------------------------------------------------

    def check(self) -> None:
        held = [g.key for g in self.standing()]
        assert len(held) == len(set(held))
        for job in self.all:
            assert job.wronged == []
            leases = self.store.of_job(job.key)
            for grant in leases:
                self._is_legal(grant)
            assert len({restarts for restarts, _ in job.requeues}) == len(job.requeues)
            for restarts, at in job.requeues:
                self._was_told(job, restarts, at)
                revoked = [g for g in leases if g.restarts == restarts and g.revoke is not None]
                states = {e.after for g in revoked for e in self.store.events(g.lease.lease_id)}
                assert {LeaseState.ENDING, LeaseState.SIGNALLED, LeaseState.SAVED} <= states

    def _is_legal(self, grant: Any) -> None:
        events = self.store.events(grant.lease.lease_id)
        assert (events[0].before, events[0].after) == (None, LeaseState.GRANTED)
        for before, event in itertools.pairwise(events):
            assert event.before is before.after
            assert before.after.may_become(event.after)
        assert events[-1].after is grant.lease.state

    def _was_told(self, job: ToyJob, restarts: int, at: int) -> None:
        """Told in this very attempt, with its grace from then on unless it said it was done."""
        told = [when for attempt, when in job.signals if attempt == restarts]
        assert told
        assert job.saved_once or at - min(told) >= GRACE_S or at < min(told)  # the clock went back

    def left_alone(self) -> None:
        """Every revoke comes to an end, and what stands is what Slurm shows."""
        self.slurm.answers = True
        for _ in range(6):
            self.slurm.now += REQUEUE_WINDOW_S
            for job in self.all:
                if not job.state.is_terminal:
                    self.goes_on(job, None)
            self.run([], None)
            self.check()
        for grant in self.standing():
            job = self.slurm.jobs[grant.key]
            assert grant.lease.state is LeaseState.GRANTED
            assert (job.submit, job.restarts, job.state) == (grant.attempt, grant.restarts, RUNS)


OFTEN = ["round"] * 6 + ["revoke"] * 5 + ["goes_on"] * 5 + ["grace"] * 4 + ["moment"] * 2
SELDOM = [
    "grant", "renew", "take_back", "suspended", "requeued", "fails", "cancelled", "opts_out",
    "says_saved", "writes", "slurmctld", "lease", "set_back",
]  # fmt: skip
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(OFTEN + SELDOM),
        st.sampled_from([0, 0, 0, 1]),
        st.one_of(st.none(), st.none(), st.integers(1, 24)),
    ),
    max_size=30,
)
PLAIN = [("revoke", 0, None), ("grace", 0, None), ("round", 0, None), ("goes_on", 0, None)]


def live(store: Any, events: list[tuple[str, int, int | None]]) -> World:
    world = World(store)
    for what, which, kill_at in events:
        getattr(world, what)(world.all[which], kill_at)
        world.check()
    world.left_alone()
    return world


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(EVENTS)
@example(PLAIN)
def test_leases_survive_everything(events: list[tuple[str, int, int | None]]) -> None:
    live(MemoryLeases(), events)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(events=EVENTS)
@example(events=PLAIN)
def test_leases_survive_everything_in_the_database(
    history: History, events: list[tuple[str, int, int | None]]
) -> None:
    live(history.leases(), events)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Any:
    url = f"sqlite:///{tmp_path_factory.mktemp('leases') / 'history.db'}"
    History.create(url)
    with History.open(url) as opened:
        yield opened


@pytest.mark.parametrize("kill_at", range(1, 40))
def test_a_kill_at_any_call_ends_like_none(kill_at: int) -> None:
    """The whole way of one lease, cut off at one call, then gone on with by another process."""
    world = World(MemoryLeases())
    job = world.all[0]
    world.revoke(job, kill_at if kill_at < 20 else None)
    if world.standing()[0].revoke is None:  # killed before the intent was written down
        world.revoke(job, None)
    world.round(job, None)
    world.slurm.now += GRACE_S
    world.round(job, kill_at - 20 if kill_at >= 20 else None)
    world.round(job, None)
    world.goes_on(job, None)
    world.goes_on(job, None)
    world.round(job, None)
    world.check()
    (lease,) = world.store.of_job(job.key)
    states = [event.after for event in world.store.events(lease.lease.lease_id)]
    assert states == [
        LeaseState.GRANTED,
        LeaseState.ENDING,
        LeaseState.SIGNALLED,
        LeaseState.SAVED,
        LeaseState.REQUEUED,
        LeaseState.REGRANTED,
    ]
    assert [restarts for restarts, _ in job.requeues] == [0]
    assert {restarts for restarts, _ in job.signals} == {0}
