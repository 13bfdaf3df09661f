"""A policy's answer, checked before anything is written down or sent."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from gsched.model.cluster import ClusterState
from gsched.model.decision import QUEUES, Action, Decision, JsonValue, Rank, Reason, Share
from gsched.model.job import Capability, JobKey
from gsched.model.jobtable import BoolColumn, JobTable
from gsched.model.ranks import RankTable, ReasonGroup, ReasonTable

MEMORY_BYTES = 2**20
"""The most that a policy may remember, as JSON: the journal keeps it with every round."""

PARAM_BYTES = 1024
"""The most that one value of a reason may take, as JSON."""

_LARGE = 2**62
_PARAMS = 16  # values of one reason
_CODE_LENGTH = 80
_NO_REASON = "ranked without a reason that can be kept"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in a decision that will not be carried out, and why; `key` None: no one job's."""

    key: JobKey | None
    what: str


def validate(
    decision: Decision, state: ClusterState, capabilities: frozenset[Capability], now: int
) -> tuple[Decision, tuple[Problem, ...]]:
    """Drop from `decision` whatever does not fit `state`; say what was dropped.

    Order and reasons that are left are tables over ``state.jobs``. Memory that is no JSON, or too
    much, is dropped too, so that it never reaches the journal. Raises TypeError for what is no
    Decision.
    """
    if not isinstance(decision, Decision):
        raise TypeError(f"its answer is a {type(decision).__name__}, no Decision")
    problems: list[Problem] = []
    reasons = _sound_reasons(decision, state.jobs, problems)
    order = _sound_order(decision.order, reasons, state.jobs, problems)
    if len(order) < len(decision.order):  # nothing is decided of a job whose rank is none
        jobs = state.jobs
        dropped = [jobs.row(k) for k in decision.order if k in jobs and k not in order]
        reasons = reasons.without(dropped)
    actions: list[Action] = []
    for action in decision.actions:
        what = _action_problem(action, state, capabilities, now)
        if what:
            key = getattr(action, "key", None)
            problems.append(Problem(key if isinstance(key, JobKey) else None, what))
        else:
            actions.append(action)
    memory = _memory(decision.memory)
    if memory is None:
        what = f"its memory is no finite JSON of at most {MEMORY_BYTES} bytes and was forgotten"
        problems.append(Problem(None, what))
        memory = {}
    wakeup = decision.next_wakeup if _is_whole(decision.next_wakeup) else None
    kept = replace(
        decision,
        order=order,
        actions=tuple(actions),
        reasons=reasons,
        memory=memory,
        next_wakeup=wakeup,
    )
    return kept, tuple(problems)


# -- reasons --------------------------------------------------------------------------------


def _sound_reasons(decision: Decision, jobs: JobTable, problems: list[Problem]) -> ReasonTable:
    given = decision.reasons
    if not (isinstance(given, ReasonTable) and given.jobs is jobs):
        shaped = {k: r for k, r in given.items() if k in jobs and _is_reason(r)}
        table = ReasonTable.of(shaped, jobs)
    else:
        table = given
    kept = replace(table, groups=tuple(_sound_group(group) for group in table.groups))
    if len(kept) < len(given):
        problems += [
            Problem(key if isinstance(key, JobKey) else None, "its reason is no finite, short JSON")
            for key in given
            if key not in kept and key not in decision.order
        ]
    return kept


def _is_reason(reason: object) -> bool:
    """Whether it has the shape of a reason, whatever its values are."""
    return (
        isinstance(reason, Reason)
        and isinstance(reason.code, str)
        and isinstance(reason.params, Mapping)
        and all(isinstance(name, str) for name in reason.params)
    )


def _sound_group(group: ReasonGroup) -> ReasonGroup:
    """Those rows of which every value can be kept."""
    known = 0 < len(group.code) <= _CODE_LENGTH and group.code.isprintable()
    fits = np.full(len(group.rows), known and len(group.params) <= _PARAMS)
    for name, column in group.params.items():
        fits &= _storable(column) & (len(name) <= _CODE_LENGTH)
    return group if fits.all() else group.take(fits)


def _storable(column: NDArray[Any]) -> BoolColumn:
    if column.dtype.kind in "iub":
        return np.full(len(column), True)
    if column.dtype.kind == "f":
        return np.asarray(np.isfinite(column), dtype=np.bool_)
    return np.array([_is_storable(value) for value in column], dtype=np.bool_)


def _is_storable(value: object) -> bool:
    if type(value) is str:  # quickly: most are of one of these types
        return len(value) <= PARAM_BYTES
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int and -_LARGE < value < _LARGE:
        return True
    return _plain({"": value}, PARAM_BYTES) is not None


# -- the order ------------------------------------------------------------------------------


def _sound_order(
    order: Mapping[JobKey, Rank],
    reasons: ReasonTable,
    jobs: JobTable,
    problems: list[Problem],
) -> RankTable:
    if not (isinstance(order, RankTable) and order.jobs is jobs):
        return RankTable.of(dict(_sound_ranks(order, reasons, jobs, problems)), jobs)
    fits = (
        jobs.reorderable[order.rows]
        & np.isfinite(order.key)
        & (np.abs(order.level) <= 1.0)  # False for NaN
        & (order.position >= 1)
        & (order.position <= order.out_of)
        & reasons.has[order.rows]
    )
    if fits.all():
        return order
    dropped = order.take(~fits)
    problems += [
        Problem(key, _rank_problem(key, rank, jobs) or _NO_REASON) for key, rank in dropped.items()
    ]
    return order.take(fits)


def _sound_ranks(
    order: Mapping[JobKey, Rank],
    reasons: ReasonTable,
    jobs: JobTable,
    problems: list[Problem],
) -> Iterator[tuple[JobKey, Rank]]:
    for key, rank in order.items():
        what = _rank_problem(key, rank, jobs)
        if not what and key not in reasons:
            what = _NO_REASON
        if what:
            problems.append(Problem(key if isinstance(key, JobKey) else None, what))
        else:
            yield key, rank


def _rank_problem(key: JobKey, rank: Rank, jobs: JobTable) -> str:
    if key not in jobs:
        return "ranked, but not in the snapshot"
    if not jobs.reorderable[jobs.row(key)]:
        return "ranked, but not to be reordered"
    if not isinstance(rank, Rank) or not (_is_number(rank.key) and _is_number(rank.level)):
        return "its rank is none"
    if not math.isfinite(rank.key):
        return f"its key is {rank.key}"
    if not -1.0 <= rank.level <= 1.0:
        return f"its level {rank.level} is outside -1..1"
    if not (
        _is_whole(rank.position) and _is_whole(rank.of) and 1 <= rank.position <= rank.of < _LARGE
    ):
        return "its position is none"
    return "" if rank.queue in QUEUES else "its queue is none"


def _is_number(value: object) -> bool:
    """Whether it can be a float; a whole number can be too large for one."""
    return isinstance(value, (float, np.floating)) or (_is_whole(value) and abs(value) < _LARGE)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, Integral) and not isinstance(value, bool)


# -- actions and memory ---------------------------------------------------------------------


def _action_problem(
    action: Action, state: ClusterState, capabilities: frozenset[Capability], now: int
) -> str:
    kind = type(action).__name__
    if not _is_sound_action(action):
        return f"{kind} is no action, or not all of its values have their types"
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


def _is_sound_action(action: object) -> bool:
    return (
        isinstance(action, Action)
        and isinstance(action.action_id, str)
        and isinstance(action.key, JobKey)
        and all(map(_is_whole, (action.attempt, action.after_seq, action.valid_until)))
        and (not isinstance(action, Share) or isinstance(action.group, tuple))
    )


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


def _memory(value: Mapping[str, JsonValue]) -> dict[str, JsonValue] | None:
    """As `_plain`; no more of it is made into text than may be kept."""
    length = 0
    try:
        for part in json.JSONEncoder(allow_nan=False).iterencode(dict(value)):
            length += len(part)
            if length > MEMORY_BYTES:
                return None
    except (TypeError, ValueError, RecursionError):
        return None
    return _plain(value, MEMORY_BYTES)


def _plain(value: object, most: int) -> dict[str, JsonValue] | None:
    """A mapping as the journal will give it back; None for what is no finite JSON object, or one
    of more than `most` bytes.
    """
    try:
        text = json.dumps(dict(value), allow_nan=False)  # type: ignore[call-overload]
        return dict(json.loads(text)) if len(text) <= most else None
    except (TypeError, ValueError, RecursionError):
        return None
