"""What the daemon tells of jobs' deadlines: in its status file, and to those who ask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gsched.daemon.shapes import is_number

if TYPE_CHECKING:
    from gsched.model.decision import Alternative, JsonValue, Reason
    from gsched.model.target_records import TargetRecord

STATES = ("on-target", "at-risk", "late")
KINDS = ("later", "fewer-gpus", "soft")
MAX_RUNS = 24
"""Of a plan so many runs are told."""

MAX_ALTERNATIVES = 8
MAX_DEADLINES = 64

_PROMISED = ("finish_time", "probability", "time")
_ESTIMATE = {"mean_s": "remaining_mean_s", "safe_s": "remaining_s"}


@dataclass(frozen=True, slots=True)
class TargetsTold:
    """What is told of deadlines: `head` is about all, `jobs` by Slurm's id about each promise,
    `answers` about each refusal.
    """

    head: Mapping[str, JsonValue] = field(default_factory=dict)
    jobs: Mapping[str, dict[str, JsonValue]] = field(default_factory=dict)
    answers: Mapping[str, dict[str, JsonValue]] = field(default_factory=dict)


NOTHING_TOLD = TargetsTold()


def target_document(
    record: TargetRecord, reason: Reason | None, *, private: bool = False
) -> dict[str, JsonValue]:
    """How a promise stands: its ``target`` in the job's entry. What is not known has no key.

    Without ``finish_time`` no end can be planned: no node is usable, say. `reason` is the policy's,
    of this round; it is told as ``risk`` while there is one. On a `private` cluster nobody is told
    of another's job.
    """
    steps, plan = record.steps, record.plan
    pairs = list(zip(steps.times, steps.rewards, strict=True))[:MAX_DEADLINES]
    found: dict[str, JsonValue] = {
        "state": record.risk.value,
        "deadlines": [[time, round(reward, 2)] for time, reward in pairs],
        "num_gpus": record.num_gpus,
        "plan": [[run.start_time, run.end_time, run.num_gpus] for run in plan[:MAX_RUNS]],
    }
    if len(plan) > MAX_RUNS:
        found["plan_cut"] = len(plan) - MAX_RUNS
    if record.finish_time is not None:
        found["finish_time"] = record.finish_time
    if record.probability is not None:
        found["probability"] = round(record.probability, 4)
    if record.promise is not None:
        found["promised"] = {
            "finish_time": record.promise.finish_time,
            "probability": round(record.promise.probability, 4),
            "time": record.promise.time,
        }
        found["budget_gpu_s"] = round(record.promise.budget_gpu_s, 1)
    if record.warned.value != "on-target" and record.warned_time is not None:
        found["warned"] = {"level": record.warned.value, "time": record.warned_time}
    if reason is not None:
        found |= _told_by(reason, private, is_at_risk=record.risk.value != "on-target")
    return found


def _told_by(reason: Reason, private: bool, *, is_at_risk: bool) -> dict[str, JsonValue]:
    """How the estimate came about, and what is wrong, as a reason's params have it."""
    params = reason.params
    found: dict[str, JsonValue] = {}
    remaining: dict[str, JsonValue] = {
        name: params[key] for name, key in _ESTIMATE.items() if is_number(params.get(key))
    }
    for name in ("quantile", "source"):
        if isinstance(params.get(name), int | float | str):
            remaining[name] = params[name]
    if "safe_s" in remaining:
        found["remaining"] = remaining
    used = params.get("used_gpu_s")
    if is_number(used):
        found["used_gpu_s"] = used
    if is_at_risk:
        found["risk"] = {"code": reason.code, "params": told_params(params, private)}
    return found


def told_params(params: Mapping[str, JsonValue], private: bool) -> dict[str, JsonValue]:
    """The numbers behind a reason; on a `private` cluster without the jobs that it names."""
    return {name: value for name, value in params.items() if not (private and name == "jobs")}


def refusal_document(record: TargetRecord, *, private: bool = False) -> dict[str, JsonValue]:
    """Why a request was refused, and what could be had: for the ``outcomes`` of the job's entry.

    `private` as in `target_document`.
    """
    found: dict[str, JsonValue] = {}
    if record.earliest is not None:
        found["earliest"] = record.earliest
    if record.why:
        found["why"] = {"code": record.why, "params": told_params(record.params, private)}
    if record.alternatives:
        told = record.alternatives[:MAX_ALTERNATIVES]
        found["alternatives"] = [_alternative(alternative) for alternative in told]
    return found


def _alternative(told: Alternative) -> dict[str, JsonValue]:
    return {
        "kind": told.kind,
        "finish_time": told.finish_time,
        "num_gpus": told.num_gpus,
        "probability": round(told.probability, 4),
    }


def is_target(target: Any) -> bool:
    """Whether it has the shape of `target_document`."""
    if not isinstance(target, dict) or target.get("state") not in STATES:
        return False
    optional = ("finish_time", "budget_gpu_s", "used_gpu_s", "num_gpus", "plan_cut")
    return (
        _has_numbers(target, "probability")
        and all(is_number(target.get(name, 0)) for name in optional)
        and _are_rows(target.get("deadlines"), 2, MAX_DEADLINES)
        and bool(target["deadlines"])
        and _are_rows(target.get("plan"), 3, MAX_RUNS)
        and ("promised" not in target or _has_numbers(target["promised"], *_PROMISED))
        and ("remaining" not in target or _has_numbers(target["remaining"], "safe_s"))
        and ("risk" not in target or _is_reason(target["risk"]))
        and ("warned" not in target or _is_warned(target["warned"]))
        and isinstance(target.get("pool", ""), str)
    )


def is_refusal(found: dict[str, Any]) -> bool:
    """Whether an outcome has the shape of `refusal_document`, as far as it has any of it."""
    alternatives = found.get("alternatives", [])
    return (
        ("why" not in found or _is_reason(found["why"]))
        and isinstance(alternatives, list)
        and len(alternatives) <= MAX_ALTERNATIVES
        and all(map(_is_alternative, alternatives))
    )


def _is_alternative(told: Any) -> bool:
    return (
        isinstance(told, dict)
        and told.get("kind") in KINDS
        and all(is_number(told.get(n)) for n in ("finish_time", "num_gpus", "probability"))
    )


def _is_reason(told: Any) -> bool:
    return (
        isinstance(told, dict)
        and isinstance(told.get("code"), str)
        and isinstance(told.get("params"), dict)
    )


def _is_warned(told: Any) -> bool:
    return isinstance(told, dict) and told.get("level") in STATES and is_number(told.get("time"))


def _has_numbers(told: Any, *names: str) -> bool:
    return isinstance(told, dict) and all(is_number(told.get(name)) for name in names)


def _are_rows(rows: Any, width: int, most: int) -> bool:
    return (
        isinstance(rows, list)
        and len(rows) <= most
        and all(isinstance(r, list) and len(r) == width and all(map(is_number, r)) for r in rows)
    )
