"""What becomes of each thing that a job's user asked for, honestly."""

from __future__ import annotations

from collections.abc import Mapping

from gsched.model.decision import Action, Admit, Decision, JsonValue, Refuse
from gsched.model.job import MAX_DEADLINE, Capability, JobKey, JobView
from gsched.model.user_request import UserRequest, wants_document

_NOTHING: Mapping[str, JsonValue] = {}

ACCEPTED, UNUSED, REFUSED, OPEN = "accepted", "unused", "refused", "open"
"""Outcomes: granted; a hint that the policy does not use; declined, or planned by nobody; not
answered yet."""


def promises_of(decision: Decision) -> dict[JobKey, tuple[Action, ...]]:
    """A policy's answers to requests for deadlines, by job."""
    found: dict[JobKey, tuple[Action, ...]] = {}
    for action in decision.actions:
        if isinstance(action, Admit | Refuse):
            found[action.key] = (*found.get(action.key, ()), action)
    return found


def answer_document(
    view: JobView,
    decision: Decision,
    policy: str,
    acting: bool,
    asked: UserRequest | None,
    problem: str,
    refusal: Mapping[str, JsonValue] = _NOTHING,
    *,
    keeps_deadlines: bool = False,
) -> dict[str, JsonValue]:
    """The part of a job's public answer that is about its request.

    ``accepted`` is false when something is refused, or the token cannot be understood. Without a
    request it is true and the rest has no key. Each of ``outcomes`` has ``want``, ``outcome``
    and ``reason`` (words), and where known ``earliest``, ``why`` and ``alternatives`` (refused, see
    ``target_document.refusal_document``: `refusal` is what is kept of it) or ``finish_time`` and
    ``probability`` (accepted). `keeps_deadlines`: the policy does, so that a deadline without an
    answer waits for one.
    """
    document: dict[str, JsonValue] = {"accepted": not problem}
    if problem:
        document["request_problem"] = problem
    if asked is None:
        return document
    wants = view.wants
    outcomes: list[dict[str, JsonValue]] = []
    if wants.opt_out:
        outcomes.append(_outcome("none", ACCEPTED, "gsched keeps away from this job"))
    promises = {"deadline": wants.deadline is not None, "soft_deadlines": wants.soft_deadlines}
    for want in [want for want, is_asked in promises.items() if is_asked]:
        said = _promise(want, view, decision, policy, acting, refusal)
        outcomes.append(said or _no_promise(want, view, policy, keeps_deadlines))
    unused = f"policy {policy} does not use it"
    if wants.phases:
        outcomes.append(_outcome("phases", UNUSED, unused))
    if wants.shareable:
        outcomes.append(_outcome("shareable", UNUSED, unused))
    if wants.checkpoint:
        outcomes.append(_outcome("checkpoint", ACCEPTED, "the job's own script sees to it"))
    document["request"] = {
        "token": asked.token,
        "first_seen": asked.first_seen,
        "unknown": asked.unknown,
        "wants": wants_document(wants),
    }
    document["outcomes"] = list(outcomes)
    if any(found["outcome"] == REFUSED for found in outcomes):
        document["accepted"] = False
    return document


def _promise(
    want: str,
    view: JobView,
    decision: Decision,
    policy: str,
    acting: bool,
    refusal: Mapping[str, JsonValue],
) -> dict[str, JsonValue] | None:
    """The answer to a deadline: a policy's Admit or Refuse; None where there is none."""
    left_alone = view.exclusion(Capability.ADMIT)
    if left_alone is not None:
        return _outcome(want, REFUSED, f"gsched leaves this job alone: {left_alone.detail}")
    if not acting:
        return _outcome(want, REFUSED, "not planned: the daemon only observes")
    for action in decision.actions:
        if action.key != view.key:
            continue
        if isinstance(action, Admit):
            said = _outcome(want, ACCEPTED, f"planned by policy {policy}")
            end = action.finish_time  # MAX_DEADLINE: none can be planned
            planned: dict[str, JsonValue] = {} if end >= MAX_DEADLINE else {"finish_time": end}
            return {**said, **planned, "probability": action.probability}
        if isinstance(action, Refuse):
            said = _outcome(want, REFUSED, f"policy {policy} cannot keep it")
            told = {} if action.earliest is None else {"earliest": action.earliest}
            return {**said, **told, **refusal}
    return None


def _no_promise(
    want: str, view: JobView, policy: str, keeps_deadlines: bool
) -> dict[str, JsonValue]:
    """What is said of a deadline without an answer: why it has none yet, or that none will come."""
    if view.awaits_profile:
        return _outcome(want, OPEN, "its profile runs are not over yet")
    if not keeps_deadlines:
        return _outcome(want, REFUSED, f"not planned: policy {policy} keeps no deadlines")
    if view.waiting_tasks > 1:
        return _outcome(want, OPEN, "each task of the array is answered once Slurm splits it off")
    if view.eligible is None:
        why = "it is not eligible yet: held, before its begin time, or waiting for another job"
        return _outcome(want, OPEN, why)
    return _outcome(want, OPEN, f"policy {policy} has not planned it yet")


def _outcome(want: str, outcome: str, reason: str) -> dict[str, JsonValue]:
    return {"want": want, "outcome": outcome, "reason": reason}
