"""What becomes of a job's deadline from one round to the next: promise, risk, outcome. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gsched.daemon.target_document import MAX_ALTERNATIVES
from gsched.model.decision import Admit, JsonValue, PlannedRun, Reason, Refuse
from gsched.model.job import MAX_DEADLINE, JobState, JobView
from gsched.model.target_records import (
    Promise,
    PromiseUse,
    Risk,
    TargetEvent,
    TargetRecord,
    TargetState,
)
from gsched.model.targets import LATE_REWARD, Steps

MAX_PARAMS = 32
MAX_TEXT = 256

CALM = 0.05
"""A target at risk is on target again only when its probability lies so far above the bound."""

WARN_AGAIN_S = 900
"""A level of which a user was warned is not warned of again within so many seconds."""

_FAILED = {
    JobState.FAILED,
    JobState.TIMEOUT,
    JobState.OUT_OF_MEMORY,
    JobState.DEADLINE,
}
_RANK = {Risk.ON_TARGET: 0, Risk.AT_RISK: 1, Risk.LATE: 2}


@dataclass(frozen=True, slots=True)
class Turn:
    """A record as a round leaves it, and what has befallen it: events are its warnings, too."""

    record: TargetRecord
    events: tuple[TargetEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Request:
    """What a job in the queue asks for, and since when (epoch)."""

    view: JobView
    steps: Steps
    asked_time: int


def admitted(
    request: Request,
    action: Admit,
    before: TargetRecord | None,
    now: int,
    warn_probability: float,
    used: PromiseUse | None = None,
) -> Turn:
    """A deadline that is promised, or stands; `used` is what it has used of it, where it is known.

    `before` is what is kept of the same request. The promise is that of the admission, whatever is
    planned by now.
    """
    view, steps = request.view, request.steps
    promise = None if before is None else before.promise
    events: list[TargetEvent] = []
    if before is None or before.state is not TargetState.STANDING or promise is None:
        at = action.admitted_time or now
        told = (at, told_end(action), action.probability, action.budget_gpu_s)
        promise = Promise(*told, view.restarts)
        events.append(
            TargetEvent(now, TargetState.STANDING.value, end_of(action), action.probability)
        )
        before = None
    record = TargetRecord(
        key=view.key,
        asked_time=request.asked_time,
        user=view.user,
        steps=steps,
        num_gpus=view.request.gpus.minimum,
        state=TargetState.STANDING,
        since=now if before is None else before.since,
        promise=promise,
        finish_time=end_of(action),
        probability=action.probability,
        plan=joined(action.plan),
        warned=Risk.ON_TARGET if before is None else before.warned,
        warned_time=None if before is None else before.warned_time,
        used=before.used if used is None and before is not None else used,
    )
    was = Risk.ON_TARGET if before is None else before.risk
    record = replace(record, risk=risk_of(record, was, now, warn_probability))
    warned = _warned(record, now)
    return Turn(warned.record, (*events, *warned.events))


def told_end(action: Admit) -> int:
    """The end that the user is told: the plan's, where there is one (epoch)."""
    return max((run.end_time for run in action.plan), default=action.finish_time)


def end_of(action: Admit) -> int | None:
    """When the job is to end as it is planned now; None where no end can be planned."""
    return None if action.finish_time >= MAX_DEADLINE else action.finish_time


def refused(
    request: Request, action: Refuse, reason: Reason | None, before: TargetRecord | None, now: int
) -> Turn:
    """A deadline that is not promised. The first answer to a request stays the answer.

    Where a promise stands it stays one, which nobody plans any more.
    """
    if before is not None and before.state is TargetState.STANDING:
        return unplanned(before, now)
    if before is not None and before.state is TargetState.REFUSED:
        return Turn(before)
    view = request.view
    record = TargetRecord(
        key=view.key,
        asked_time=request.asked_time,
        user=view.user,
        steps=request.steps,
        num_gpus=view.request.gpus.minimum,
        state=TargetState.REFUSED,
        since=now,
        earliest=action.earliest,
        why="" if reason is None else reason.code[:128],
        params={} if reason is None else bounded(reason.params),
        alternatives=tuple(action.alternatives[:MAX_ALTERNATIVES]),
    )
    return Turn(record, (TargetEvent(now, TargetState.REFUSED.value),))


def unplanned(before: TargetRecord, now: int) -> Turn:
    """A promise that stands and that no policy plans now."""
    risk = Risk.LATE if now > before.deadline else Risk.AT_RISK
    record = replace(before, plan=(), risk=risk, gone_time=None)
    return _warned(record, now)


def replaced(before: TargetRecord, now: int) -> Turn:
    """A promise in whose place there is another request, or none."""
    return _over(before, TargetState.WITHDRAWN, now)


def ended(before: TargetRecord, state: JobState, end_time: int | None, now: int) -> Turn:
    """A promise whose job has left the queue in `state` at `end_time` (epoch)."""
    at = now if end_time is None else end_time
    is_in_time = at <= before.deadline
    if not is_in_time:
        outcome = TargetState.MISSED
    elif state is JobState.COMPLETED:
        outcome = TargetState.KEPT
    elif state is JobState.CANCELLED:
        outcome = TargetState.WITHDRAWN
    elif state in _FAILED:
        outcome = TargetState.FAILED
    else:  # its nodes have failed, and nobody starts it again
        outcome = TargetState.MISSED
    reward = before.steps.reward(at) if outcome is TargetState.KEPT else None
    if outcome is TargetState.MISSED:
        reward = LATE_REWARD if state is JobState.COMPLETED else 0.0
    turn = _over(before, outcome, now)
    return replace(turn, record=replace(turn.record, end_time=end_time, reward=reward))


def lost(before: TargetRecord, now: int) -> Turn:
    """A promise whose job has left the queue, and nobody has told how."""
    return _over(before, TargetState.UNKNOWN, now)


def risk_of(record: TargetRecord, was: Risk, now: int, warn_probability: float) -> Risk:
    """How a promise stands, by its present plan."""
    if now > record.deadline:
        return Risk.LATE
    if record.finish_time is None or record.probability is None or record.promise is None:
        return Risk.AT_RISK
    promised = record.promise.finish_time
    times = record.steps.times
    due = next((time for time in times if time >= promised), record.deadline)
    bound = warn_probability
    if was is not Risk.ON_TARGET:
        bound = min(1.0, warn_probability + CALM, max(warn_probability, record.promise.probability))
    is_safe = record.finish_time <= due and record.probability >= bound
    return Risk.ON_TARGET if is_safe else Risk.AT_RISK


def _warned(record: TargetRecord, now: int) -> Turn:
    """With a warning where the risk is another than that of the last one."""
    risk, last = record.risk, record.warned_time
    is_worse = _RANK[risk] > _RANK[record.warned]
    is_calm = risk is Risk.ON_TARGET and record.warned is not Risk.ON_TARGET
    is_soon = last is not None and 0 <= now - last < WARN_AGAIN_S
    if (is_worse and (not is_soon or risk is Risk.LATE)) or (is_calm and not is_soon):
        event = TargetEvent(now, risk.value, _end_of_plan(record), record.probability)
        return Turn(replace(record, warned=risk, warned_time=now), (event,))
    return Turn(record)


def _end_of_plan(record: TargetRecord) -> int | None:
    """When it should end as it is planned, which may be before the deadline that is aimed at; None
    where no end can be planned.
    """
    if record.finish_time is None or not record.plan:
        return record.finish_time
    return record.plan[-1].end_time


def _over(before: TargetRecord, state: TargetState, now: int) -> Turn:
    record = replace(before, state=state, since=now, plan=())
    event = TargetEvent(now, state.value, before.finish_time, before.probability)
    return Turn(record, (event,))


def joined(plan: tuple[PlannedRun, ...]) -> tuple[PlannedRun, ...]:
    """A plan in its order, with runs that follow each other on as many GPUs as one."""
    runs: list[PlannedRun] = []
    for run in sorted(plan, key=lambda run: run.start_time):
        if run.end_time <= run.start_time or run.num_gpus < 1:
            continue
        last = runs[-1] if runs else None
        if last and last.num_gpus == run.num_gpus and run.start_time <= last.end_time:
            end = max(last.end_time, run.end_time)
            runs[-1] = PlannedRun(last.start_time, end, last.num_gpus)
        elif last and run.start_time <= last.start_time:
            continue
        else:
            runs.append(run)
    return tuple(runs)


def bounded(params: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The numbers behind a reason, as far as they are few and short."""
    found: dict[str, JsonValue] = {}
    for name, value in list(params.items())[:MAX_PARAMS]:
        if isinstance(value, str):
            found[name] = value[:MAX_TEXT]
        elif isinstance(value, list):
            short = [item[:MAX_TEXT] if isinstance(item, str) else item for item in value]
            found[name] = list[JsonValue](
                item for item in short[:MAX_PARAMS] if not isinstance(item, list | dict)
            )
        elif not isinstance(value, dict):
            found[name] = value
    return found
