"""What becomes of each thing that a job's user asked for, honestly."""

from __future__ import annotations

from gsched.model.decision import Admit, Decision, JsonValue, Refuse
from gsched.model.job import Capability, JobView
from gsched.model.user_request import UserRequest, wants_document

ACCEPTED, UNUSED, REFUSED = "accepted", "unused", "refused"
"""Outcomes: granted; a hint that the policy does not use; declined, or planned by nobody."""


def answer_document(
    view: JobView,
    decision: Decision,
    policy: str,
    acting: bool,
    asked: UserRequest | None,
    problem: str,
) -> dict[str, JsonValue]:
    """The part of a job's public answer that is about its request.

    ``accepted`` is false when something is refused, or the token cannot be understood. Without a
    request it is true and the rest has no key. Each of ``outcomes`` has ``want``, ``outcome``
    and ``reason`` (words), and where known ``earliest`` (refused) or ``finish_time`` and
    ``probability`` (accepted).
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
    if wants.deadline is not None:
        outcomes.append(_promise("deadline", view, decision, policy, acting))
    if wants.soft_deadlines:
        outcomes.append(_promise("soft_deadlines", view, decision, policy, acting))
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
    want: str, view: JobView, decision: Decision, policy: str, acting: bool
) -> dict[str, JsonValue]:
    """The answer to a deadline: a policy's Admit or Refuse, else that nobody plans it."""
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
            return said | {"finish_time": action.finish_time, "probability": action.probability}
        if isinstance(action, Refuse):
            said = _outcome(want, REFUSED, f"policy {policy} cannot keep it")
            return said if action.earliest is None else said | {"earliest": action.earliest}
    return _outcome(want, REFUSED, f"not planned: policy {policy} keeps no deadlines")


def _outcome(want: str, outcome: str, reason: str) -> dict[str, JsonValue]:
    return {"want": want, "outcome": outcome, "reason": reason}
