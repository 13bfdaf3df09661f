"""Why a job with a deadline, or one beside such jobs, stands where it stands (policy chronus)."""

from __future__ import annotations

from collections.abc import Callable

from gsched.explain.params import Params, amount, number, span, text
from gsched.explain.words import count, moment, percent

PLANNERS = ("chronus", "unisched")
"""The policies that promise deadlines: they tell the same reasons, each by its own name."""

REFUSED = "chronus.refused-"
"""The beginning of the codes with which a deadline is refused."""

RISK_HELD = "chronus.risk-held"
"""Of a promised job that cannot start: it is held, or not eligible."""

HELD_WORDS = (
    "it is held, or waits for its begin time or another job: no GPUs are kept for it meanwhile"
)

_MOST_JOBS = 5

_SOURCES = {
    "heartbeat": "its own pace and the steps that are left",
    "profile": "its profile runs",
    "history": "past jobs like it",
    "limit": "its time limit",
    "default": "the site's guess",
}
_RULES = {
    "user": "its user may ask for no deadlines here ([deadlines] users)",
    "account": "its account may ask for no deadlines here ([deadlines] accounts)",
    "qos": "its QOS may ask for no deadlines here ([deadlines] qos)",
}


def deadline_reason(code: str, params: Params) -> str | None:
    """The reason in one sentence; None for a code that is none of PLANNERS."""
    code = _as_chronus(code)
    refused = refusal_reason(code, params)
    if refused is not None:
        return f"deadline refused, best effort: {refused}"
    words = _WORDS.get(code)
    return words(params) if words else None


def refusal_reason(code: str, params: Params) -> str | None:
    """Why a deadline was refused; None for a code that is no refusal."""
    words = _REFUSALS.get(_as_chronus(code))
    return words(params) if words else None


def _as_chronus(code: str) -> str:
    """The code by which `chronus` tells the same."""
    planner, _, rest = code.partition(".")
    return f"{PLANNERS[0]}.{rest}" if planner in PLANNERS else code


def tells_hold(code: object) -> bool:
    """Whether a code says of a promised job that it cannot start."""
    return isinstance(code, str) and _as_chronus(code) == RISK_HELD


def refusal_codes() -> frozenset[str]:
    """The codes of all reasons to refuse a deadline."""
    return frozenset(_REFUSALS)


def source_words(source: str) -> str:
    """What an estimate of the remaining time is made of; an unknown code is shown as it is."""
    return _SOURCES.get(source, source)


def gpu_time_words(gpu_s: float) -> str:
    """``16.0 GPU-h``, below a tenth of an hour ``240 GPU-s``."""
    return f"{gpu_s:.0f} GPU-s" if gpu_s < 360 else f"{gpu_s / 3600:,.1f} GPU-h"


def _gpu_time(params: Params, name: str) -> str:
    value = amount(params, name)
    return "? GPU-h" if value is None else gpu_time_words(value)


def _minute(params: Params, name: str) -> str:
    value = amount(params, name)
    try:
        return "?" if value is None else moment(value, "minutes")
    except (OverflowError, ValueError, OSError):  # no year of the calendar
        return "?"


def _left(params: Params) -> str:
    """How much of its run is left, at most, and how that is known."""
    if amount(params, "remaining_s") is None:
        return "how long it runs is not known"
    return f"{span(params, 'remaining_s')} left, by {source_words(text(params, 'source'))}"


def _gpus(params: Params, name: str = "num_gpus") -> str:
    value = amount(params, name)
    return "? GPUs" if value is None else count(round(value), "GPU")


def _share(params: Params, name: str) -> str:
    value = amount(params, name)
    return "?" if value is None else percent(value)


def _target(params: Params) -> str:
    due = f"its turn comes by {_minute(params, 'start_time')} at the latest"
    if not amount(params, "start_time"):
        due = "no time could be held for it"
    elif params.get("is_due"):
        due = "its GPUs are due now"
    return f"target for {_minute(params, 'deadline_time')}: {due} ({_left(params)})"


def _no_room(params: Params) -> str:
    """Which window, what is free there of what is needed, and which targets hold most of it."""
    needed, free = amount(params, "needed_gpu_s"), amount(params, "free_gpu_s")
    until = f"until {_minute(params, 'deadline_time')}"
    if needed is not None and free is not None and free >= needed:
        words = (
            f"{until} {_gpu_time(params, 'free_gpu_s')} are free, yet not {_gpus(params)} at a "
            f"time for {span(params, 'remaining_s')}"
        )
    else:
        words = (
            f"{until} {_gpu_time(params, 'free_gpu_s')} are free, and it needs "
            f"{_gpu_time(params, 'needed_gpu_s')} ({_gpus(params)}, {span(params, 'remaining_s')})"
        )
    jobs = _jobs(params)
    words += f"; most of the rest is promised to {jobs}" if jobs else ""
    return f"{words}; the search for a plan ended by its time" if params.get("gave_up") else words


def _jobs(params: Params) -> str:
    """``job 7``, ``jobs 7, 9``; "" for none. Others' words: few, short ones."""
    told = params.get("jobs")
    names = [str(name)[:40] for name in told[:_MOST_JOBS]] if isinstance(told, list | tuple) else []
    return f"job{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""


def _rule(params: Params) -> str:
    rule, limit = text(params, "rule"), number(params, "limit")
    if rule == "max_per_user":
        return f"its user has as many targets as one may have: {limit} ([deadlines] {rule})"
    if rule == "max_gpu_hours_per_user":
        return f"with it the targets of its user would hold over {limit} GPU-h ([deadlines] {rule})"
    if rule == "max_horizon_s":
        return f"its deadline is further away than {span(params, 'limit')} ([deadlines] {rule})"
    if rule == "max_requests":
        return f"too many deadlines are asked for at a time: of a user {limit} are judged"
    return _RULES.get(rule, f"the site's rules forbid it ([deadlines] {rule})")


_REFUSALS: dict[str, Callable[[Params], str]] = {
    f"{REFUSED}no-room": _no_room,
    f"{REFUSED}room": lambda p: (
        f"{_gpus(p)} for {span(p, 'remaining_s')} could be kept, but are left for smaller jobs, "
        f"which of late have asked for {_share(p, 'smaller_share')} of the GPUs"
    ),
    f"{REFUSED}too-late": lambda p: (
        f"it needs {span(p, 'remaining_s')} from now on, even on an empty cluster"
    ),
    f"{REFUSED}too-wide": lambda p: (
        f"it asks for {_gpus(p)}, and {_gpus(p, 'pool_gpus')} of its partition can be promised"
    ),
    f"{REFUSED}nodes-lost": lambda p: (
        f"it asks for {_gpus(p)}, and of the {_gpus(p, 'pool_gpus')} of its partition that can "
        f"be promised {_gpus(p, 'usable_gpus')} can be used now, for nodes are drained or down: "
        "submit it again when they are back"
    ),
    f"{REFUSED}no-estimate": lambda _: (
        "how long it runs is not known: a time limit (--time) or --gs-profile tells it"
    ),
    f"{REFUSED}no-gpus": lambda _: "it asks for no GPUs, and only GPUs are promised",
    f"{REFUSED}rule": _rule,
}
_WORDS: dict[str, Callable[[Params], str]] = {
    "chronus.target": _target,
    "chronus.spot": lambda p: (
        f"{_gpus(p)}, {_left(p)}: short and narrow jobs first, with what no target needs"
    ),
    RISK_HELD: lambda _: HELD_WORDS,
    "chronus.awaits-profile": lambda _: "its profile runs are not over yet",
    "chronus.no-estimate": lambda p: (
        f"{_gpus(p)}, how long it runs is not known: after those of which it is"
    ),
    "chronus.profiling": lambda p: (
        f"nothing is known of it: runs first, for {span(p, 'profile_s')}, to be measured"
    ),
    "chronus.after-targets": lambda p: (
        f"cannot give way, and targets need its GPUs from {_minute(p, 'free_until_time')} on"
    ),
}
"""Every code of chronus but refusals."""
