"""Carries leases out, round by round: what a policy decides of them, and what they have come to.

Every step is an intent that is written down, an act, and a look at what became of it. A process
that is killed between any two calls leaves a lease from which the next round goes on, see
``gsched.engine.leases``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.engine.lease_ports import LeasePort, LeaseStore
from gsched.engine.lease_rules import HandOver, benefit_refusal
from gsched.engine.leases import (
    Act,
    JobSeen,
    Move,
    Verb,
    answered,
    carried_on,
    moved,
    settled,
    undone,
)
from gsched.engine.ports import Clock
from gsched.engine.validate import Problem
from gsched.model.accounts import LeaseGrant, LeaseRevoke, Told
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, Grant, Renew, Revoke
from gsched.model.job import JobKey, JobState, Lease, LeaseState
from gsched.model.jobtable import JobTable

MAX_ID_CHARS = 128
MAX_GRACE_S = 3600

_POINT_OF_STATE = {
    LeaseState.GRANTED: FaultPoint.LEASE_GRANTED,
    LeaseState.ENDING: FaultPoint.LEASE_ENDING,
    LeaseState.SIGNALLED: FaultPoint.LEASE_SIGNALLED,
    LeaseState.SAVED: FaultPoint.LEASE_SAVED,
    LeaseState.REQUEUED: FaultPoint.LEASE_REQUEUED,
    LeaseState.REGRANTED: FaultPoint.LEASE_REGRANTED,
}
_POINT_OF_ACT = {
    Verb.SIGNAL: FaultPoint.LEASE_SIGNAL_SENT,
    Verb.REQUEUE: FaultPoint.LEASE_REQUEUE_SENT,
}


@dataclass(frozen=True, slots=True)
class Unsaved:
    """At `at` an attempt kept its GPUs though its lease was revoked: it had not saved, `why`."""

    attempt: int
    at: int
    why: str


class LeaseDriver:
    """The leases of one cluster. Its calls are those of one round, in their order.

    `standing` are the leases that were not over after the last of them; `unsaved`, by job, what
    this process has seen of jobs that did not save in time.
    """

    def __init__(
        self,
        cluster: str,
        store: LeaseStore,
        port: LeasePort,
        clock: Clock,
        on_point: FaultHook = no_faults,
        tell: Callable[[LeaseGrant, Move], None] = lambda _grant, _move: None,
    ) -> None:
        """`tell` hears of every transition once it is kept."""
        self.cluster = cluster
        self.port = port
        self._store, self._clock = store, clock
        self._on_point, self._tell = on_point, tell
        self.standing: Sequence[LeaseGrant] = ()
        self.unsaved: dict[JobKey, Unsaved] = {}

    def seen(self, state: ClusterState, acting: bool) -> ClusterState:
        """`state` with the leases of its jobs. Settles them first when `acting`.

        Raises UnavailableError when a job that has left the queue cannot be asked for.
        """
        standing = self._store.standing(self.cluster)
        if acting:
            standing = self._settled(standing, state)
        self.standing = standing
        self.unsaved = {key: told for key, told in self.unsaved.items() if key in state.jobs}
        held = {g.key: _shown(g) for g in standing if g.lease.state is not LeaseState.REQUEUED}
        if not held:
            return state
        views = [replace(v, lease=held[v.key]) if v.key in held else v for v in state.jobs.views]
        return replace(state, jobs=JobTable.from_views(views, state.jobs))

    def carry_out(self, decision: Decision, state: ClusterState) -> tuple[Problem, ...]:
        """Take on what was decided of leases, then carry every revoked one as far as it goes.

        For an acting round, after its changes: the beneficiary's place stands before GPUs are
        freed. Returns what is not carried out, and why.
        """
        problems = self._take(decision, state)
        for grant in self._store.standing(self.cluster):
            if grant.lease.state.can_be_undone:
                self._carry(grant, _from(state, grant.key))
        self.standing = self._store.standing(self.cluster)
        return problems

    def take_back(self, why: str) -> tuple[str, ...]:
        """Take back every revoke that can be; the ids of those leases.

        For a kill switch or `clear`: jobs that were told to save run on. What was requeued waits.
        """
        back = []
        for grant in self._store.standing(self.cluster):
            if grant.lease.state.can_be_undone and self._undo(grant, why):
                back.append(grant.lease.lease_id)
        return tuple(back)

    # -- what has become of leases -------------------------------------------------------------

    def _settled(self, standing: Sequence[LeaseGrant], state: ClusterState) -> list[LeaseGrant]:
        """Write down what the look says of each; those that still stand."""
        missing = [g.key for g in standing if g.key not in state.jobs]
        asked = self.port.observe(missing) if missing else {}
        left = []
        for grant in standing:
            seen = _from(state, grant.key) or asked.get(grant.key)
            after = self._write(grant, settled(grant, seen, self._clock()))
            if not after.lease.state.is_over:
                left.append(after)
        return left

    def _write(self, grant: LeaseGrant, moves: Iterable[Move]) -> LeaseGrant:
        for move in moves:
            at = self._clock()
            self._store.move(grant.lease.lease_id, move.state, at, move.detail, move.told)
            grant = moved(grant, move, at)
            if move.is_unsaved:
                self.unsaved[grant.key] = Unsaved(grant.attempt, at, move.detail)
            self._tell(grant, move)
            if move.state in _POINT_OF_STATE:
                self._on_point(_POINT_OF_STATE[move.state])
        return grant

    def _carry(self, grant: LeaseGrant, seen: JobSeen | None) -> None:
        """Go on until there is nothing to do for now. `seen` may be some seconds old."""
        while not grant.lease.state.is_over:
            if seen is None:
                seen, moves = self._look(grant)
                if moves or seen is None:
                    self._write(grant, moves)
                    return
            report = self.port.report(grant)
            step = carried_on(grant, seen, report, self._clock())
            if isinstance(step, Act):  # what it needs must hold now, not only some seconds ago
                seen, moves = self._look(grant)
                if moves or seen is None:
                    self._write(grant, moves)
                    return
                report = self.port.report(grant)
                step = carried_on(grant, seen, report, self._clock())
            if isinstance(step, Act) and step.verb is Verb.REQUEUE:
                if self._is_behind(grant):
                    return  # the GPUs would be another's: it is put in front first
                if not self.port.starts_safely():
                    return  # whoever got them would fail: it keeps them for some seconds more
            if isinstance(step, Act):
                step = self._act(grant, step, report.told if report else None)
            if step is None:
                return
            grant = self._write(grant, [step])

    def _is_behind(self, grant: LeaseGrant) -> bool:
        whom = grant.revoke.beneficiary if grant.revoke else ""
        return bool(whom) and self.port.is_behind(whom)

    def _act(self, grant: LeaseGrant, act: Act, told: Told | None) -> Move | None:
        """Do it, look at what became of it, and write that down; the move that it is, if any.

        `told` is what the job said before.
        """
        refusal = self.port.act(act.verb, grant.key)
        self._on_point(_POINT_OF_ACT[act.verb])
        answer = answered(act, refusal, told)
        if answer is None or answer.state is not LeaseState.SIGNALLED:
            _, moves = self._look(grant)
        else:  # what became of it, it may have come to by being told
            _, moves = self._look(moved(grant, answer, self._clock()))
            moves = (answer, *moves) if moves else ()
        if moves:
            self._write(grant, moves)
            return None
        return answer

    def _look(self, grant: LeaseGrant) -> tuple[JobSeen | None, tuple[Move, ...]]:
        seen = self.port.observe([grant.key]).get(grant.key)
        return seen, settled(grant, seen, self._clock())

    def _undo(self, grant: LeaseGrant, why: str) -> bool:
        """Take a revoke back unless it has come too far. Looks first: it may have come further."""
        seen, moves = self._look(grant)
        if moves or seen is None:
            self._write(grant, moves)
            return False
        back = undone(grant, seen, why)
        self._write(grant, [] if back is None else [back])
        return back is not None

    # -- what is decided of leases -------------------------------------------------------------

    def _take(self, decision: Decision, state: ClusterState) -> tuple[Problem, ...]:
        actions = [a for a in decision.actions if isinstance(a, Grant | Renew | Revoke)]
        if not actions:
            return ()
        held = {g.key: g for g in self._store.standing(self.cluster)}
        cost = HandOver.measured(self._store.save_times(self.cluster), self.port.wait_s)
        vain = _in_vain([a for a in actions if isinstance(a, Revoke)], decision, state)
        problems = []
        done: set[JobKey] = set()
        for action in actions:
            if action.key in done:
                what = "the job has another action in this decision"
            elif isinstance(action, Revoke):
                what = vain.get(action.action_id) or self._slurms(action, state)
                what = what or self._begin(action, held.get(action.key))
            else:
                what = self._give(action, held.get(action.key), cost, state)
            done.add(action.key)
            if what:
                kind = type(action).__name__
                problems.append(Problem(action.key, f"{kind} {action.action_id}: {what}"))
        return tuple(problems)

    def _give(
        self, action: Grant | Renew, held: LeaseGrant | None, cost: HandOver, state: ClusterState
    ) -> str:
        """Begin a lease; why not, if not."""
        view, now = state.jobs.view(action.key), self._clock()
        if isinstance(action, Grant) and view.state is JobState.PENDING:
            return ""  # Slurm starts it, by its place in the order; its lease begins when it runs
        if held is not None and held.lease.lease_id == action.action_id:
            return ""
        length_s = action.length_s or cost.default_lease_s
        what = _formal_problem(action, now) or cost.refusal(length_s)
        if not what and view.state is not JobState.RUNNING:
            what = "the job does not run"
        if not what and self._store.events(action.action_id):
            what = "an earlier lease has this id"
        if what:
            return what
        lease = Lease(action.action_id, LeaseState.GRANTED, now, length_s)
        new = LeaseGrant(
            lease, action.key, view.attempt, view.request.gpus.minimum, view.restarts, now
        )
        if isinstance(action, Grant):
            return self._grant(new, held)
        return self._renew(new, held)

    def _grant(self, new: LeaseGrant, held: LeaseGrant | None) -> str:
        if held is not None:
            return f"the job has the lease {held.lease.lease_id}"
        self._store.grant(new, new.since)
        self._tell(new, Move(LeaseState.GRANTED))
        self._on_point(FaultPoint.LEASE_GRANTED)
        return ""

    def _renew(self, new: LeaseGrant, held: LeaseGrant | None) -> str:
        if held is None:
            return "the job has no lease"
        detail = ""
        if held.lease.state is not LeaseState.GRANTED:  # being revoked: this takes it back
            seen, moves = self._look(held)
            if moves or seen is None or undone(held, seen, "") is None:
                self._write(held, moves)
                return "its revoke cannot be taken back any more"
            detail = "its revoke is taken back"
        begins = max(new.since, held.lease.end_time)
        following = replace(new, lease=replace(new.lease, start_time=begins))
        self._store.renew(held.lease.lease_id, following, new.since, detail)
        self._tell(held, Move(LeaseState.RENEWED, detail))
        self._on_point(FaultPoint.LEASE_GRANTED)
        return ""

    def _slurms(self, action: Revoke, state: ClusterState) -> str:
        """That the cluster does by itself what is decided, or would do another thing; else ""."""
        whom = action.beneficiary
        if whom is None or whom not in state.jobs:
            return ""
        if self.port.is_slurms(state.jobs.view(action.key), state.jobs.view(whom)):
            return f"Slurm preempts it by itself for {whom.slurm_id}"
        if self.port.is_behind(whom.slurm_id):
            return f"Slurm would start another job before {whom.slurm_id}, for which it is"
        return ""

    def _begin(self, action: Revoke, held: LeaseGrant | None) -> str:
        """Write a revoke down; why not, if not."""
        now = self._clock()
        if held is None or held.attempt != action.attempt:
            return "the job has no lease in this attempt"
        if held.revoke is not None:
            same = held.revoke.revoke_id == action.action_id
            return "" if same else f"it is being revoked by {held.revoke.revoke_id}"
        if held.lease.state is not LeaseState.GRANTED:
            return f"its lease is {held.lease.state.value} already"
        what = _formal_problem(action, now)
        if not what and not 0 <= action.grace_s <= MAX_GRACE_S:
            what = f"a grace of {action.grace_s} s is not within 0..{MAX_GRACE_S}"
        if not what and now < held.lease.end_time - action.grace_s:
            what = f"the lease runs for another {held.lease.end_time - now} s"
        if what:
            return what
        whom = action.beneficiary.slurm_id if action.beneficiary else ""
        revoke = LeaseRevoke(action.action_id, action.grace_s, action.valid_until, whom)
        self._store.revoke(held.lease.lease_id, revoke, now)
        self._tell(held, Move(LeaseState.ENDING))
        self._on_point(FaultPoint.LEASE_ENDING)
        return ""


def _shown(grant: LeaseGrant) -> Lease:
    """With for whom it is being revoked: a policy that picked others each round would have jobs
    save for nothing.
    """
    if grant.revoke is None:
        return grant.lease
    return replace(grant.lease, beneficiary=grant.revoke.beneficiary)


def _from(state: ClusterState, key: JobKey) -> JobSeen | None:
    return JobSeen.of(state.jobs.view(key)) if key in state.jobs else None


def _formal_problem(action: Grant | Renew | Revoke, now: int) -> str:
    if len(action.action_id) > MAX_ID_CHARS:
        return f"its id has more than {MAX_ID_CHARS} characters"
    if now > action.valid_until:
        return f"expired {now - action.valid_until} s ago"
    return ""


def _in_vain(revokes: Sequence[Revoke], decision: Decision, state: ClusterState) -> dict[str, str]:
    """Why a revoke would help nobody, by action id. Those for one beneficiary count together."""
    together: dict[JobKey, list[Revoke]] = {}
    for action in revokes:
        if action.beneficiary is not None:
            together.setdefault(action.beneficiary, []).append(action)
    vain = {}
    for whom, group in together.items():
        victims = [state.jobs.view(a.key) for a in group]
        what = benefit_refusal(whom, victims, state, decision.order, len(together))
        vain.update({a.action_id: what for a in group if what})
    return vain
