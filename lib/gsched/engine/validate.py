"""A policy's answer, checked before anything is written down or sent."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from gsched.model.cluster import ClusterState
from gsched.model.decision import Action, Decision, Rank
from gsched.model.job import Capability, JobKey


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a decision that will not be carried out, and why."""

    key: JobKey
    what: str


# What a backend must be able to do to carry out an action; Admit, Refuse and SetKnob are answers.
_NEEDS = {
    "Grant": Capability.PREEMPT,
    "Renew": Capability.PREEMPT,
    "Revoke": Capability.PREEMPT,
    "Resize": Capability.RESIZE,
    "Place": Capability.PLACE,
    "Share": Capability.SHARE,
    "Power": Capability.POWER,
    "Admit": Capability.ADMIT,
    "Refuse": Capability.ADMIT,
}


def validate(
    decision: Decision, state: ClusterState, capabilities: frozenset[Capability], now: int
) -> tuple[Decision, tuple[Problem, ...]]:
    """Drop from `decision` whatever does not fit `state`; say what was dropped."""
    problems: list[Problem] = []
    order: dict[JobKey, Rank] = {}
    for key, rank in decision.order.items():
        what = _rank_problem(key, rank, state)
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
    return replace(decision, order=order, actions=tuple(actions)), tuple(problems)


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
    need = _NEEDS.get(kind)
    if need is not None and need not in capabilities:
        return f"{kind} needs {need.value}, which this backend cannot do"
    if now > action.valid_until:
        return f"{kind} {action.action_id} expired"
    if action.after_seq > state.seq:
        return f"{kind} {action.action_id} belongs to a later snapshot"
    if action.key in state.jobs and state.jobs.view(action.key).attempt != action.attempt:
        return f"{kind} {action.action_id} is for another attempt"
    return ""
