"""One round: snapshot, decide, validate, journal, apply, confirm.

The same code runs on a live Slurm and in the simulator. Killing the process between any two calls
loses nothing: the intent is in the journal before the first write, and the next round settles
what an interrupted one left by looking at the cluster itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.engine.ports import Backend, Clock, Journal, Predictor
from gsched.engine.validate import Problem, validate
from gsched.errors import GschedError
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import JobKey, JobState, JobView, Prediction
from gsched.model.jobtable import JobTable
from gsched.model.journal import Change, ChangeState, Readback, RoundInfo
from gsched.policy.base import Policy

APPLY_CHUNK = 50
"""Changes sent at a time; after each chunk the journal learns which were accepted."""

REFUSAL_ROUNDS = 20
"""Rounds for which a change that Slurm refused is not asked for again."""

_UNCONFIRMED = "accepted, not readable yet"


@dataclass(frozen=True, slots=True)
class RoundResult:
    """What one round saw, decided and did."""

    info: RoundInfo
    state: ClusterState
    decision: Decision
    problems: tuple[Problem, ...]
    changes: tuple[Change, ...]
    settled: Mapping[str, tuple[ChangeState, str]]  # by change_id
    recovered: int  # changes of an interrupted round settled now

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
            **counts,
        }


class RoundRunner:
    """Runs rounds of one policy on one backend. Keeps predictions between rounds."""

    def __init__(
        self,
        backend: Backend,
        policy: Policy,
        journal: Journal,
        predictor: Predictor,
        clock: Clock,
        new_id: Callable[[], str],
        on_point: FaultHook = no_faults,
    ) -> None:
        self.backend = backend
        self.policy = policy
        self.journal = journal
        self.predictor = predictor
        self.clock = clock
        self.new_id = new_id
        self.on_point = on_point
        self._predicted: dict[tuple[JobKey, int], Prediction | None] = {}
        self._predicted_by = ""
        self._observed: dict[tuple[JobKey, str], int] = {}
        self._refused: dict[tuple[JobKey, int, str, int], int] = {}

    def run(self, acting: bool) -> RoundResult:
        """Run one round; write to the cluster only when `acting`.

        Raises UnavailableError when the cluster or the journal does not answer; nothing is half
        done then that the next round would not repair.
        """
        # An observing round holds no writer lock: the open changes may be another process's.
        recovered = settle_interrupted(self.backend, self.journal, self.clock) if acting else 0
        standing = self.journal.standing(self.backend.cluster)
        state = self._with_predictions(self.backend.snapshot(standing))
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
        memory = self.journal.memory(info.cluster, info.policy)
        decision, problems = validate(
            self._decide(state, memory, info.started_at),
            state,
            self.backend.capabilities,
            info.started_at,
        )
        self.on_point(FaultPoint.DECIDED)
        changes = tuple(self.backend.plan(decision, state, info.round_id))
        changes = self._not_refused(changes) if acting else self._not_yet_observed(changes)
        result = RoundResult(info, state, decision, problems, changes, {}, recovered)
        if changes or recovered or decision.memory != memory:
            self.journal.begin_round(info)
            result = replace(result, settled=self._carry_out(info, changes))
            self.journal.end_round(info.round_id, self.clock(), result.summary, decision.memory)
        if acting:
            self._remember_refusals(result)
        self.on_point(FaultPoint.ROUND_ENDED)
        return result

    def _carry_out(
        self, info: RoundInfo, changes: Sequence[Change]
    ) -> dict[str, tuple[ChangeState, str]]:
        if not info.acting:
            self.journal.record(info.round_id, changes, ChangeState.OBSERVED, self.clock())
            return {c.change_id: (ChangeState.OBSERVED, "") for c in changes}
        return carry_out(
            self.backend, self.journal, info.round_id, changes, self.clock, self.on_point
        )

    def _decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        try:
            return self.policy.decide(state, memory, now)
        except Exception as e:  # a site's own policy may raise anything; a round must not end so
            raise GschedError(
                f"policy {self.policy.name} failed: {type(e).__name__}: {e}",
                "choose another one in [daemon] policy; Slurm keeps the last order until then",
            ) from e

    def _with_predictions(self, state: ClusterState) -> ClusterState:
        """Fill in run-time predictions: one a pending attempt and model, kept for its life."""
        if self._predicted_by != self.predictor.model_id:
            self._predicted.clear()
            self._predicted_by = self.predictor.model_id
        waiting = [v for v in state.jobs.views if v.state is JobState.PENDING]
        new = [v for v in waiting if (v.key, v.attempt) not in self._predicted]
        if new:
            made = self.predictor.predict(new, state.as_of)
            fresh = [(v.key, v.attempt, _usable(p)) for v, p in zip(new, made, strict=True)]
            self._predicted.update({(key, attempt): p for key, attempt, p in fresh})
            self.journal.record_predictions([(k, a, p) for k, a, p in fresh if p], state.as_of)
        alive = {(v.key, v.attempt) for v in waiting}
        self._predicted = {k: p for k, p in self._predicted.items() if k in alive}

        def filled(view: JobView) -> JobView:
            prediction = self._predicted.get((view.key, view.attempt))
            return replace(view, predictions=(prediction,)) if prediction else view

        return replace(state, jobs=JobTable.from_views([filled(v) for v in state.jobs.views]))

    def _not_yet_observed(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """In observe mode nothing is written, so the same wish comes every round: keep it once."""
        new = tuple(c for c in changes if self._observed.get((c.key, c.channel)) != c.after)
        self._observed = {(c.key, c.channel): c.after for c in changes}
        return new

    def _not_refused(self, changes: Sequence[Change]) -> tuple[Change, ...]:
        """Without what Slurm has refused a short while ago: it would only fill the journal."""
        return tuple(c for c in changes if _wish(c) not in self._refused)

    def _remember_refusals(self, result: RoundResult) -> None:
        left = {wish: rounds - 1 for wish, rounds in self._refused.items() if rounds > 1}
        for c in result.changes:
            if result.settled[c.change_id][0] is ChangeState.REJECTED:
                left[_wish(c)] = REFUSAL_ROUNDS
        self._refused = left


def _wish(change: Change) -> tuple[JobKey, int, str, int]:
    return (change.key, change.attempt, change.channel, change.after)


def _usable(prediction: Prediction | None) -> Prediction | None:
    """None instead of a prediction that is no finite number: the job keeps the median place."""
    if prediction is None or not math.isfinite(prediction.mean):
        return None
    values = (value for _, value in prediction.quantiles)
    return prediction if all(map(math.isfinite, values)) else None


def settle_interrupted(backend: Backend, journal: Journal, clock: Clock) -> int:
    """Ask the cluster what became of changes that an interrupted round left open.

    For the one who holds the writer lock only: nobody else's changes are under way then. Returns
    how many were settled.
    """
    entries = journal.unsettled(backend.cluster)
    if not entries:
        return 0
    changes = {e.change.change_id: e.change for e in entries}
    settled = []
    for seen in backend.read_back(tuple(changes.values())):
        state, detail = _judge(changes[seen.change_id], seen)
        if state is not ChangeState.SENT:
            settled.append((seen.change_id, state, f"{detail} (looked up later)".strip()))
    journal.settle(settled, clock())
    return len(settled)


def carry_out(
    backend: Backend,
    journal: Journal,
    round_id: str,
    changes: Sequence[Change],
    clock: Clock,
    on_point: FaultHook = no_faults,
) -> dict[str, tuple[ChangeState, str]]:
    """Intent, act, confirm. Returns how each change ended (by change_id)."""
    if not changes:
        return {}
    journal.record(round_id, changes, ChangeState.INTENT, clock())
    on_point(FaultPoint.INTENT_RECORDED)
    ended = {c.change_id: (ChangeState.INTENT, "not answered") for c in changes}
    for start in range(0, len(changes), APPLY_CHUNK):
        chunk = changes[start : start + APPLY_CHUNK]
        outcomes = backend.apply(chunk)
        on_point(FaultPoint.CHUNK_SENT)
        for o in outcomes:
            state = ChangeState.SENT if o.accepted else ChangeState.REJECTED
            ended[o.change_id] = (state, o.error)
        journal.settle([(o.change_id, *ended[o.change_id]) for o in outcomes], clock())
    on_point(FaultPoint.ALL_SENT)
    sent = [c for c in changes if ended[c.change_id][0] is ChangeState.SENT]
    by_id = {c.change_id: c for c in sent}
    for seen in backend.read_back(sent):
        ended[seen.change_id] = _judge(by_id[seen.change_id], seen)
    journal.settle(
        [(c.change_id, *ended[c.change_id]) for c in sent],
        clock(),
    )
    on_point(FaultPoint.CONFIRMED)
    return ended


def _judge(change: Change, seen: Readback) -> tuple[ChangeState, str]:
    if not seen.present:
        return ChangeState.VOID, "the job no longer waits, or waits anew"
    if seen.value is None:
        return ChangeState.SENT, _UNCONFIRMED
    if seen.value == change.after:
        return ChangeState.CONFIRMED, ""
    return ChangeState.VOID, f"Slurm shows {seen.value}"
