"""Whether a job's entry in the status file has the shape that the daemon gives it."""

from __future__ import annotations

from typing import Any

from gsched.daemon.forecast_shapes import is_foreseen
from gsched.daemon.lease_document import is_lease
from gsched.daemon.request_answers import ACCEPTED, OPEN, REFUSED, UNUSED
from gsched.daemon.shapes import is_number
from gsched.daemon.target_document import is_refusal, is_target


def is_sound(job: object) -> bool:
    """Whether a job's answer has the shape of `job_document`; one that has not is no answer."""
    if not isinstance(job, dict) or not is_number(job.get("submit_time")):
        return False
    rank, reason = job.get("rank"), job.get("reason")
    excluded, duration = job.get("excluded"), job.get("duration_s")
    return (
        (rank is None or _has(rank, {"queue": str, "position": int, "of": int}))
        and (reason is None or _has(reason, {"code": str, "params": dict}))
        and (excluded is None or _has(excluded, {"code": str, "detail": str}))
        and (duration is None or _is_duration(duration))
        and ("lease" not in job or is_lease(job["lease"]))
        and ("target" not in job or is_target(job["target"]))
        and _is_answer(job)
        and is_foreseen(job)
    )


_ANSWER_KEYS = frozenset({"accepted", "request_problem", "request", "outcomes"})


def _is_answer(job: dict[str, Any]) -> bool:
    """Whether the part of ``answer_document`` has its shape; most jobs have none."""
    if _ANSWER_KEYS.isdisjoint(job):
        return True
    outcomes = job.get("outcomes", [])
    return (
        isinstance(job.get("accepted", True), bool)
        and isinstance(job.get("request_problem", ""), str)
        and ("request" not in job or _is_request(job["request"]))
        and isinstance(outcomes, list)
        and all(_is_outcome(found) for found in outcomes)
    )


def _is_request(request: object) -> bool:
    shape = {"token": str, "unknown": int, "wants": dict}
    return (
        isinstance(request, dict)
        and _has(request, shape)
        and is_number(request.get("first_seen"))
        and _is_wants(request["wants"])
    )


def _is_wants(wants: dict[str, Any]) -> bool:
    """Whether it has the shape of ``wants_document``."""
    soft, phases = wants.get("soft_deadlines", []), wants.get("phases", [])
    profiles = wants.get("profiles", [])
    return (
        all(isinstance(wants.get(flag, True), bool) for flag in ("none", "shareable", "checkpoint"))
        and all(is_number(wants.get(name, 0)) for name in ("deadline", "number"))
        and isinstance(soft, list)
        and all(map(_is_pair, soft))
        and isinstance(phases, list)
        and all(isinstance(phase, str) for phase in phases)
        and isinstance(profiles, list)
        and all(map(is_number, profiles))
    )


def _is_outcome(found: object) -> bool:
    return (
        isinstance(found, dict)
        and _has(found, {"want": str, "reason": str})
        and found.get("outcome") in (ACCEPTED, OPEN, UNUSED, REFUSED)
        and all(is_number(found.get(key, 0)) for key in ("earliest", "finish_time", "probability"))
        and is_refusal(found)
    )


def _is_duration(duration: object) -> bool:
    return (
        isinstance(duration, dict)
        and _has(duration, {"quantiles": list, "similar_jobs": int})
        and is_number(duration.get("mean"))
        and is_number(duration.get("caution", 1))
        and all(map(_is_pair, duration["quantiles"]))
    )


def _is_pair(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(is_number, value))


def _has(value: object, types: dict[str, Any]) -> bool:
    if not isinstance(value, dict):
        return False
    for name, kind in types.items():  # noqa: SIM110 - a generator costs a tenth of `queue`
        if not isinstance(value.get(name), kind):
            return False
    return True
