"""Why a job stands where it stands, in words: the codes of gsched's own ordering policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from gsched.explain.words import moment, short_time

Params = Mapping[str, Any]


def order_reason(code: str, params: Params) -> str | None:
    """The reason in one sentence; None for a code that no policy of gsched has.

    Params come from files that anybody may have written: what is no number is shown as ``?``.
    """
    words = _WORDS.get(code)
    return words(params) if words else None


def _amount(params: Params, name: str) -> float | None:
    value = params.get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]


def _number(params: Params, name: str) -> str:
    value = _amount(params, name)
    if value is None:
        return "?"
    return f"{value:.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"


def _time(params: Params, name: str) -> str:
    value = _amount(params, name)
    if value is None:
        return "?"
    return short_time(value) if value >= 0 else f"−{short_time(-value)}"


def _moment(params: Params, name: str) -> str:
    value = _amount(params, name)
    try:
        return "?" if value is None else moment(value)
    except (OverflowError, ValueError, OSError):  # no year of the calendar
        return "?"


def _hours(params: Params, name: str) -> str:
    value = _amount(params, name)
    return "?" if value is None else f"{value / 3600:.1f} GPU-h"


def _of_tenant(params: Params) -> str:
    return f"account {params.get('tenant')} has received {_hours(params, 'tenant_gpu_s')}"


def _remaining_service(unit: str) -> Callable[[Params], str]:
    name = f"remaining_{unit}_time_s"
    return lambda p: f"{_number(p, name)} {unit.upper()}-s left of what is predicted"


_WORDS: dict[str, Callable[[Params], str]] = {
    "fifo.first-submit": lambda p: f"first submitted {_moment(p, 'first_submit')}",
    "fewest-gpus.size": lambda p: (
        f"asks for {_number(p, 'num_gpus')} GPUs"
        if "num_gpus" in p
        else f"asks for {_number(p, 'num_cpus')} CPUs"
    ),
    "sjf.duration": lambda p: f"runs for {_time(p, 'duration_s')}",
    "srtf.remaining-time": lambda p: (
        f"{_time(p, 'remaining_s')} left of {_time(p, 'duration_s')} of run time"
    ),
    "edf.deadline": lambda p: f"deadline {_moment(p, 'deadline')}",
    "edf.no-deadline": lambda _: "no deadline: after all jobs that have one",
    "multifactor.points": lambda p: (
        f"{_number(p, 'points')} points, {_number(p, 'fair_share_points')} of them for the fair "
        f"share of account {p.get('tenant')}"
    ),
    "fair-tree.tenant-gpu-time": lambda p: f"{_of_tenant(p)} (older use counts less)",
    "yarn-cs.tenant-gpus": lambda p: (
        f"account {p.get('tenant')} holds {_number(p, 'tenant_gpus')} GPUs"
    ),
    "tiresias.queue": lambda p: (
        f"in queue {_number(p, 'queue')}, having received {_hours(p, 'attained_gpu_s')}"
    ),
    "tiresias-l.service": lambda p: f"has received {_hours(p, 'attained_gpu_s')}",
    "themis.finish-time-ratio": lambda p: (
        f"takes {_number(p, 'finish_time_ratio')} times as long as alone ({_time(p, 'duration_s')})"
    ),
    "gandiva-fair.tenant-gpu-time": lambda p: (
        f"{_of_tenant(p)} (older use counts less), this job {_hours(p, 'attained_gpu_s')}"
    ),
    "allox.duration": lambda p: f"runs for {_time(p, 'duration_s')}; {_of_tenant(p)}",
    "optimus.remaining-gpu-time": _remaining_service("gpu"),
    "optimus.remaining-cpu-time": _remaining_service("cpu"),
}
"""Every code of a policy that is not told elsewhere (see ``policy_reasons``)."""
