"""Deadlines in words: what a job was promised, how that is to be kept, and why one was refused.

All is told by the daemon (``target`` and ``outcomes`` of a job's entry in its status file). Times
are epoch seconds; `at` is the present one, which clock times are told from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gsched.explain.deadline_reasons import (
    HELD_WORDS,
    gpu_time_words,
    refusal_reason,
    source_words,
    tells_hold,
)
from gsched.explain.params import amount, text
from gsched.explain.start_words import clock, soon
from gsched.explain.words import count, moment, percent, short_time
from gsched.model.job import MAX_DEADLINE

ON_TARGET, AT_RISK, LATE = "on-target", "at-risk", "late"
"""States of a target: as promised; promised, and not likely any more; its last deadline is over."""

DEADLINES = ("deadline", "soft_deadlines")
"""What of that which a job may ask for is a deadline."""

MOST_PARTS = 4
"""So many parts of a plan are told in one line."""

_STATES = {ON_TARGET: "on target", AT_RISK: "at risk", LATE: "late"}
_MINUTE_S = 60
_CERTAINTY = 0.9


def state_words(target: Mapping[str, Any]) -> str:
    """``on target``, ``at risk``, ``late``; another state as it is."""
    state = str(target.get("state"))
    return _STATES.get(state, state)


def target_words(target: Mapping[str, Any], at: float) -> str:
    """How a promise stands: ``on target with probability 0.93: should end by Mon 05:30``."""
    words, end = state_words(target), planned_end(target)
    told = "no end can be planned" if end is None else f"should end by {end_clock(end, at)}"
    if target.get("state") == LATE:
        return f"{words}: its last deadline is over, {told}"
    chance = "" if end is None else f" with probability {chance_words(target['probability'])}"
    return f"{words}{chance}: {told}"


def end_clock(end: float, at: float) -> str:
    """A planned end: the time of one to come, however near; ``now`` for one that is over."""
    return clock(end, at) if end > at else "now"


def planned_end(target: Mapping[str, Any]) -> int | None:
    """When the last part of its plan ends; what was promised where that is not told (epoch).

    None where nothing can be planned.
    """
    plan = target.get("plan")
    if plan and not target.get("plan_cut"):
        return int(plan[-1][1])
    end = target.get("finish_time", MAX_DEADLINE)
    return None if end >= MAX_DEADLINE else int(end)


def deadlines_words(target: Mapping[str, Any], at: float) -> str:
    """``Mon 09:00``; of soft ones each with what it counts: ``Mon 09:00 (100), Mon 12:00 (50)``."""
    steps = target["deadlines"]
    if len(steps) == 1:
        return clock(steps[0][0], at)
    return ", ".join(f"{clock(time, at)} ({reward:.3g})" for time, reward in steps)


def end_of_target_words(times: Sequence[int], end: int, state: str, at: float) -> str:
    """What came of the deadlines `times` of a job that has ended at `end` in `state`."""
    met = next((time for time in times if end <= time), None)
    if met is None:
        late = f"missed by {short_time(end - times[-1])}"
        return f"{late}: it asked for an end by {clock(times[-1], at)}"
    if state != "COMPLETED":
        return f"{clock(times[-1], at)} was not over yet: it is {state}"
    which = "the deadline" if met == times[0] else "a later one of its soft deadlines"
    return f"met: it ended {short_time(met - end)} before {which}, {clock(met, at)}"


def promise_words(target: Mapping[str, Any], at: float) -> str:
    """What was promised when the job was admitted, and until when; "" where it is not told."""
    promised = target.get("promised")
    if not promised:
        return ""
    end, chance = clock(promised["finish_time"], at), chance_words(promised["probability"])
    words = f"an end by {end} with probability {chance}"
    if (budget := target.get("budget_gpu_s")) is not None:
        used = target.get("used_gpu_s")
        words += f", within {gpu_time_words(budget)}"
        words += "" if used is None else f" ({gpu_time_words(used)} of them are used)"
    return words


def plan_words(target: Mapping[str, Any], at: float) -> str:
    """When the job is to hold which GPUs: ``4 GPUs Mon 02:10–05:30, then 07:00–09:00``."""
    parts = target.get("plan") or []
    if not parts:
        return "no time is held for it"
    words, before = [], None
    for start, end, num_gpus in parts[:MOST_PARTS]:
        span = f"{soon(start, at)}–{clock(end, max(start, at))}"
        words.append(span if num_gpus == before else f"{count(num_gpus, 'GPU')} {span}")
        before = num_gpus
    left = len(parts[MOST_PARTS:]) + int(target.get("plan_cut") or 0)
    told = ", then ".join(words)
    return f"{told}, and {count(left, 'later part')}" if left else told


def estimate_words(target: Mapping[str, Any]) -> str:
    """How long it should still run, and how that is known; "" where nothing is told."""
    left = target.get("remaining") or {}
    mean_s, safe_s = amount(left, "mean_s"), amount(left, "safe_s")
    if safe_s is None:
        return ""
    source = f"(by {source_words(text(left, 'source'))})"
    certainty = percent(amount(left, "quantile") or _CERTAINTY)
    if mean_s is None:
        return f"{short_time(safe_s)} left with {certainty} certainty {source}"
    if safe_s <= mean_s:
        return f"{short_time(mean_s)} left {source}"
    return f"{short_time(mean_s)} left, {short_time(safe_s)} with {certainty} certainty {source}"


def risk_words(target: Mapping[str, Any], at: float) -> str:
    """Why a promise is in danger, as far as that can be seen; "" where it is not."""
    if target.get("state") == ON_TARGET:
        return ""
    if tells_hold((target.get("risk") or {}).get("code")):
        return HELD_WORDS
    end, last = planned_end(target), target["deadlines"][-1][0]
    if end is None:
        return "no GPUs can be held for it: nodes are lost, or others' promises need them"
    found = [f"its plan ends after its last deadline, {clock(last, at)}"] if end > last else []
    safe_s, budget = amount(target.get("remaining") or {}, "safe_s"), target.get("budget_gpu_s")
    if safe_s is not None and budget:
        still = safe_s * target.get("num_gpus", 0)
        needs = still + target.get("used_gpu_s", 0.0)
        if needs > budget:
            found.append(
                f"it may still need {gpu_time_words(still)}, more than is left of the "
                f"{gpu_time_words(budget)} that were promised: beyond that it gets what others "
                "leave"
            )
    return "; ".join(found) or "it may need longer than its plan has for it"


def refusal_words(refused: Mapping[str, Any]) -> str:
    """Why a deadline was refused, of an outcome that says so."""
    why = refused.get("why") or {}
    told = refusal_reason(str(why.get("code")), why.get("params") or {})
    return told or str(refused.get("reason"))


def alternatives_words(refused: Mapping[str, Any], num_gpus: int | None = None) -> list[str]:
    """What would be taken instead, each as it is to be asked for; not the ``earliest`` end again.

    `num_gpus` is what the job asks for now, where it is known.
    """
    params = (refused.get("why") or {}).get("params") or {}
    return [
        _alternative_words(found, num_gpus, amount(params, "deadline_time"))
        for found in refused.get("alternatives") or ()
        if (found["kind"], found["finish_time"]) != ("later", refused.get("earliest"))
    ]


def _alternative_words(
    found: Mapping[str, Any], num_gpus: int | None, deadline: float | None
) -> str:
    """``--gs-deadline 2026-12-08T02:10+01:00 (probability 0.95)``."""
    by = minute_after(found["finish_time"])
    words = f"--gs-deadline {by}"
    if found["kind"] == "soft":
        first = f"--gs-soft-deadline {minute_after(deadline)}=100 " if deadline else ""
        words = f"{first}--gs-soft-deadline {by}=50"
    elif found["kind"] == "fewer-gpus":
        fewer = found["num_gpus"]
        gpus = f"{fewer} instead of {num_gpus} GPUs" if num_gpus else count(fewer, "GPU")
        words += f" with {gpus}, if each does as much as now"
    return f"{words} (probability {chance_words(found['probability'])})"


def minute_after(epoch: float) -> str:
    """Local time with its offset, to the next full minute: what is asked for must not be sooner."""
    return moment(-(-epoch // _MINUTE_S) * _MINUTE_S, "minutes")


def chance_words(probability: float) -> str:
    """``0.93``; never 1 or 0: nothing is certain."""
    return f"{min(0.99, max(0.01, probability)):.2f}"


def deadline_outcome(outcomes: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """What became of the deadline that a job asked for, of its ``outcomes``; None without one."""
    return next((found for found in outcomes if found["want"] in DEADLINES), None)
