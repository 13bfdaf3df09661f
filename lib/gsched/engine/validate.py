"""A policy's answer, checked before anything is written down or sent."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, replace

from gsched.model.cluster import ClusterState
from gsched.model.decision import Action, Decision, JsonValue, Rank, Share
from gsched.model.job import Capability, JobKey


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a decision that will not be carried out, and why; `key` None: no one job's."""

    key: JobKey | None
    what: str


def validate(
    decision: Decision, state: ClusterState, capabilities: frozenset[Capability], now: int
) -> tuple[Decision, tuple[Problem, ...]]:
    """Drop from `decision` whatever does not fit `state`; say what was dropped.

    Memory that is no JSON is dropped too, so that it never reaches the journal.
    """
    problems: list[Problem] = []
    order: dict[JobKey, Rank] = {}
    reasons = {key: r for key, r in decision.reasons.items() if _plain(r.params) is not None}
    problems += [
        Problem(key, "its reason is no finite JSON")
        for key in decision.reasons
        if key not in reasons and key not in decision.order
    ]
    for key, rank in decision.order.items():
        what = _rank_problem(key, rank, state)
        if not what and key not in reasons:
            what = "ranked without a reason that can be kept"
        if what:
            problems.append(Problem(key, what))
        else:
            order[key] = rank
    actions: list[Action] = []
    for action in decision.actions:
        what = _action_problem(action, state, capabilities, now)
        if what:
            problems.append(Problem(action.key, what))
        else:
            actions.append(action)
    memory = _plain(decision.memory)
    if memory is None:
        problems.append(Problem(None, "its memory is no finite JSON and was forgotten"))
        memory = {}
    kept = replace(decision, order=order, actions=tuple(actions), reasons=reasons, memory=memory)
    return kept, tuple(problems)


def _plain(value: object) -> dict[str, JsonValue] | None:
    """A mapping as the journal will give it back; None when it is no finite JSON object."""
    try:
        kept = json.loads(json.dumps(dict(value), allow_nan=False))  # type: ignore[call-overload]
    except (TypeError, ValueError, RecursionError):
        return None
    return dict(kept)


def _rank_problem(key: JobKey, rank: Rank, state: ClusterState) -> str:
    if key not in state.jobs:
        return "ranked, but not in the snapshot"
    if not state.jobs.reorderable[state.jobs.row(key)]:
        return "ranked, but not to be reordered"
    if not math.isfinite(rank.key):
        return f"its key is {rank.key}"
    if not -1.0 <= rank.level <= 1.0:
        return f"its level {rank.level} is outside -1..1"
    return ""


def _action_problem(
    action: Action, state: ClusterState, capabilities: frozenset[Capability], now: int
) -> str:
    kind = type(action).__name__
    if action.needs not in capabilities:
        return f"{kind} needs {action.needs.value}, which this backend cannot do"
    if now > action.valid_until:
        return f"{kind} {action.action_id} expired"
    if action.after_seq > state.seq:
        return f"{kind} {action.action_id} belongs to a later snapshot"
    if action.key not in state.jobs:
        return f"{kind} {action.action_id} is for a job that is gone"
    if state.jobs.view(action.key).attempt != action.attempt:
        return f"{kind} {action.action_id} is for another attempt"
    return _touch_problem(action, state)


def _touch_problem(action: Action, state: ClusterState) -> str:
    """The one gate: nothing is done to a job that is excluded from it, whatever a policy says."""
    touched = [action.key, *(action.group if isinstance(action, Share) else ())]
    for key in touched:
        what = f"{type(action).__name__} {action.action_id}"
        if key not in state.jobs:
            return f"{what} is for a job that is gone"
        excluded = state.jobs.view(key).exclusion(action.needs)
        if excluded is not None:
            return f"{what} would touch {key.slurm_id}, which is left alone: {excluded.code}"
    return ""
