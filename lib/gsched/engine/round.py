"""One round: look, snapshot, decide, validate, plan, journal, apply, confirm.

The same code runs on a live Slurm and in the simulator. Killing the process between any two calls
loses nothing: the intent is in the journal before the first write, and the next round settles
what an interrupted one left by its own look at the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gsched.engine.deciding import NO_RULES, RoundRules, decide, no_limit
from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.engine.lease_driver import LeaseDriver
from gsched.engine.phase_times import PhaseTimes, no_stopwatch
from gsched.engine.ports import Backend, Clock, Journal, Plan, Predictor, Stopwatch, TimeLimit
from gsched.engine.predictions import PredictionBook
from gsched.engine.settling import Ended, carry_out, settle_interrupted
from gsched.engine.starvation import lift_starving
from gsched.engine.validate import Problem
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import JobKey
from gsched.model.journal import Change, ChangeState, RoundInfo
from gsched.model.ranks import RankTable, ReasonTable
from gsched.policy.base import Policy

REFUSAL_ROUNDS = 20
"""Rounds for which a job is left alone whose change Slurm has refused twice, one time after the
other. After the first refusal the next round tries again: the cause may have passed."""

CHANGE_LIFE_S = 300
"""A change that is not sent within so many seconds of its round's beginning is dropped: the process
stood still, and the next round knows better."""


Seed = Callable[[Policy, Mapping[str, JsonValue], int], Mapping[str, JsonValue]]
"""A policy's memory, and when (epoch) the look was → the memory with which it decides."""


def as_it_is(
    _policy: Policy, memory: Mapping[str, JsonValue], _as_of: int
) -> Mapping[str, JsonValue]:
    """The memory as the journal has it."""
    return memory


WithProgress = Callable[[ClusterState, Policy], ClusterState]
"""A state, and the policy that is to decide on it → the state with what its jobs tell."""


def untold(state: ClusterState, _policy: Policy) -> ClusterState:
    """Where jobs have no way to tell how far they are."""
    return state


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round saw, decided and did.

    `recovered` counts changes of earlier rounds that were settled now, `postponed` those that are
    left for a later one. `timings_s` has the seconds of each phase that there was: look, leases,
    predict, decide (with the check of the answer), plan, journal, apply. `extra` is what the
    caller counts besides.
    """

    info: RoundInfo
    state: ClusterState
    decision: Decision
    problems: tuple[Problem, ...]
    changes: tuple[Change, ...]
    settled: Mapping[str, tuple[ChangeState, str]]  # by change_id
    recovered: int
    postponed: int = 0
    timings_s: Mapping[str, float] = field(default_factory=dict)
    extra: Mapping[str, JsonValue] = field(default_factory=dict)

    def count(self, state: ChangeState) -> int:
        """How many of this round's changes ended in `state`."""
        return sum(1 for ended, _ in self.settled.values() if ended is state)

    @property
    def summary(self) -> dict[str, JsonValue]:
        """The counts that the journal keeps and the log shows."""
        counts = {s.value: self.count(s) for s in ChangeState if self.count(s)}
        return {
            "jobs": len(self.state.jobs),
            "pending": int(self.state.jobs.pending.sum()),
            "ranked": len(self.decision.order),
            "changes": len(self.changes),
            "recovered": self.recovered,
            "problems": len(self.problems),
            "postponed": self.postponed,
            **counts,
            **self.extra,
        }


class RoundRunner:
    """Runs rounds of one policy on one backend. Keeps predictions between rounds.

    Policy, predictor and rules may be replaced between two rounds.
    """

    def __init__(
        self,
        backend: Backend,
        policy: Policy,
        journal: Journal,
        predictor: Predictor,
        clock: Clock,
        new_id: Callable[[], str],
        on_point: FaultHook = no_faults,
        rules: RoundRules = NO_RULES,
        time_limit: TimeLimit = no_limit,
        stopwatch: Stopwatch = no_stopwatch,
        leases: LeaseDriver | None = None,
        extra: Callable[[], Mapping[str, JsonValue]] = dict,
        seed: Seed = as_it_is,
        progress: WithProgress = untold,
    ) -> None:
        """`extra` is asked once in a round, after the plan; `seed` before the policy decides, and
        `progress` of what it decides on.
        """
        self.backend = backend
        self.policy = policy
        self.journal = journal
        self.predictor = predictor
        self.clock = clock
        self.new_id = new_id
        self.on_point = on_point
        self.rules = rules
        self.time_limit = time_limit
        self.stopwatch = stopwatch
        self.leases = leases
        self.extra = extra
        self.seed = seed
        self.progress = progress
        self._predictions = PredictionBook()
        self._observed: dict[tuple[JobKey, str], int] = {}
        # Attempts whose last change was refused, and for how many rounds they are left alone.
        self._refused: dict[tuple[JobKey, int], int] = {}

    def run(self, acting: bool) -> RoundResult:
        """Run one round; write to the cluster only when `acting`.

        Raises UnavailableError when the cluster or the journal does not answer, GschedError when
        the policy fails; nothing is half done then that the next round would not repair.
        """
        times = PhaseTimes(self.stopwatch)
        state, recovered = self._look(acting, times)
        self.on_point(FaultPoint.SNAPSHOT_TAKEN)
        info = RoundInfo(
            round_id=self.new_id(),
            cluster=self.backend.cluster,
            started_at=self.clock(),
            policy=self.policy.name,
            acting=acting,
            seq=state.seq,
            model_id=self.predictor.model_id,
        )
        with times.of("journal"):
            memory = self.journal.memory(info.cluster, info.policy)
            memory = self.seed(self.policy, memory, state.as_of)
        with times.of("decide"):
            decision, problems = self._decide(state, memory, info.started_at)
        self.on_point(FaultPoint.DECIDED)
        with times.of("plan"):
            plan = self._plan(decision, state, info)
        if plan.reasons:
            reasons = ReasonTable.of(decision.reasons, state.jobs).with_(plan.reasons)
            decision = replace(decision, reasons=reasons)
        result = RoundResult(
            info,
            state,
            decision,
            problems,
            plan.changes,
            {},
            recovered,
            plan.postponed,
            times.seconds,
            self.extra(),
        )
        if plan.changes or recovered or decision.memory != memory:
            result = self._carry_out(result, times)
        if acting:
            self._remember_refusals(result)
            result = self._carry_out_leases(result, times)
        self.on_point(FaultPoint.ROUND_ENDED)
        return result

    def _look(self, acting: bool, times: PhaseTimes) -> tuple[ClusterState, int]:
        """The state with predictions, and how many open changes the look has settled."""
        with times.of("look"):
            self.backend.look()
        with times.of("journal"):
            # An observing round holds no writer lock: the open changes may be another process's.
            recovered = settle_interrupted(self.backend, self.journal, self.clock) if acting else 0
            standing = self.journal.standing(self.backend.cluster)
        with times.of("look"):
            state = self.backend.snapshot(standing)
        if self.leases is not None:
            with times.of("leases"):
                state = self.leases.seen(state, acting)
        with times.of("predict"):
            state = self._predictions.fill(state, self.predictor, self.journal)
            return self.progress(state, self.policy), recovered

    def _decide(
        self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
    ) -> tuple[Decision, tuple[Problem, ...]]:
        decision, problems = decide(
            self.policy,
            state,
            memory,
            now,
            self.backend.capabilities,
            self.rules.decide_limit_s,
            self.time_limit,
        )
        return lift_starving(decision, state, now, self.rules.starvation_bound_s), problems

    def _plan(self, decision: Decision, state: ClusterState, info: RoundInfo) -> Plan:
        if not info.acting:
            plan = self.backend.plan(decision, state, info.round_id)
            return replace(plan, changes=self._not_yet_observed(plan.changes))
        paused = {attempt for attempt, rounds in self._refused.items() if rounds}
        if paused:  # before the plan: they must not use up its budget
            decision = _without(decision, state, paused)
        plan = self.backend.plan(decision, state, info.round_id)
        last = info.started_at + CHANGE_LIFE_S
        changes = tuple(
            replace(c, valid_until=last) for c in plan.changes if (c.key, c.attempt) not in paused
        )
        return replace(plan, changes=changes)

    def _carry_out(self, result: RoundResult, times: PhaseTimes) -> RoundResult:
        info = result.info
        with times.of("journal"):
            self.journal.begin_round(info)
        result = replace(result, settled=self._settled(info, result.changes, times))
        with times.of("journal"):
            self.journal.end_round(
                info.round_id, self.clock(), result.summary, result.decision.memory
            )
        return result

    def _carry_out_leases(self, result: RoundResult, times: PhaseTimes) -> RoundResult:
        """Last of all: whoever is to have the GPUs stands in front before they are freed."""
        if self.leases is None:
            return result
        with times.of("leases"):
            problems = self.leases.carry_out(result.decision, result.state)
        return replace(result, problems=(*result.problems, *problems))

    def _settled(self, info: RoundInfo, changes: Sequence[Change], times: PhaseTimes) -> Ended:
        if not info.acting:
            with times.of("journal"):
                self.journal.record(info.round_id, changes, ChangeState.OBSERVED, self.clock())
            return {c.change_id: (ChangeState.OBSERVED, "") for c in changes}
        return carry_out(
            self.backend, self.journal, info.round_id, changes, self.clock, self.on_point, times
        )

    def _not_yet_observed(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """In observe mode nothing is written, so the same wish comes every round: keep it once."""
        new = tuple(c for c in changes if self._observed.get((c.key, c.channel)) != c.after)
        self._observed = {(c.key, c.channel): c.after for c in changes}
        return new

    def _remember_refusals(self, result: RoundResult) -> None:
        jobs = result.state.jobs
        left = {
            attempt: max(0, rounds - 1)
            for attempt, rounds in self._refused.items()
            if attempt[0] in jobs
        }
        for c in result.changes:
            attempt = (c.key, c.attempt)
            if result.settled[c.change_id][0] is not ChangeState.REJECTED:
                left.pop(attempt, None)
            else:
                left[attempt] = REFUSAL_ROUNDS if attempt in left else 0
        self._refused = left


def _without(
    decision: Decision, state: ClusterState, attempts: Collection[tuple[JobKey, int]]
) -> Decision:
    """Neither rank nor reason: nothing is decided of these."""
    order = RankTable.of(decision.order, state.jobs)
    rows = [state.jobs.row(key) for key, _ in attempts if key in state.jobs]
    return replace(
        decision,
        order=order.take(~np.isin(order.rows, rows)),
        reasons=ReasonTable.of(decision.reasons, state.jobs).without(rows),
    )
