"""Why a job stands where it stands, in words: the codes of gsched's own ordering policies."""

from __future__ import annotations

from collections.abc import Callable

from gsched.explain.deadline_reasons import deadline_reason
from gsched.explain.params import Params, amount, at, number, span


def order_reason(code: str, params: Params) -> str | None:
    """The reason in one sentence; None for a code that no policy of gsched has.

    Params come from files that anybody may have written: what is no number is shown as ``?``.
    """
    words = _WORDS.get(code)
    return words(params) if words else deadline_reason(code, params)


def _hours(params: Params, name: str) -> str:
    value = amount(params, name)
    return "?" if value is None else f"{value / 3600:.1f} GPU-h"


def _of_tenant(params: Params) -> str:
    return f"account {params.get('tenant')} has received {_hours(params, 'tenant_gpu_s')}"


def _owed(params: Params) -> str:
    """What an account is owed by its quota, or has had before its turn."""
    name = params.get("tenant")
    owed_s, quota = amount(params, "owed_gpu_s"), amount(params, "quota")
    if owed_s is None or quota is None:
        return f"account {name} is owed ? GPU-h"
    part = f"its quota is {100 * quota:.3g}% of the GPUs"
    if abs(owed_s) < 180:  # 0.05 GPU-h
        return f"account {name} has received what it was owed ({part})"
    hours = f"{abs(owed_s) / 3600:.1f} GPU-h"
    if owed_s > 0:
        return f"account {name} is owed {hours} ({part})"
    return f"account {name} has had {hours} of what others were owed ({part})"


def _remaining_service(unit: str) -> Callable[[Params], str]:
    name = f"remaining_{unit}_time_s"
    return lambda p: f"{number(p, name)} {unit.upper()}-s left of what is predicted"


_WORDS: dict[str, Callable[[Params], str]] = {
    "fifo.first-submit": lambda p: f"first submitted {at(p, 'first_submit')}",
    "fewest-gpus.size": lambda p: (
        f"asks for {number(p, 'num_gpus')} GPUs"
        if "num_gpus" in p
        else f"asks for {number(p, 'num_cpus')} CPUs"
    ),
    "sjf.duration": lambda p: f"runs for {span(p, 'duration_s')}",
    "srtf.remaining-time": lambda p: (
        f"{span(p, 'remaining_s')} left of {span(p, 'duration_s')} of run time"
    ),
    "edf.deadline": lambda p: f"deadline {at(p, 'deadline')}",
    "edf.no-deadline": lambda _: "no deadline: after all jobs that have one",
    "multifactor.points": lambda p: (
        f"{number(p, 'points')} points, {number(p, 'fair_share_points')} of them for the fair "
        f"share of account {p.get('tenant')}"
    ),
    "fair-tree.tenant-gpu-time": lambda p: f"{_of_tenant(p)} (older use counts less)",
    "yarn-cs.tenant-gpus": lambda p: (
        f"account {p.get('tenant')} holds {number(p, 'tenant_gpus')} GPUs"
    ),
    "tiresias.queue": lambda p: (
        f"in queue {number(p, 'queue')}, having received {_hours(p, 'attained_gpu_s')}"
    ),
    "tiresias-l.service": lambda p: f"has received {_hours(p, 'attained_gpu_s')}",
    "themis.finish-time-ratio": lambda p: (
        f"takes {number(p, 'finish_time_ratio')} times as long as alone ({span(p, 'duration_s')})"
    ),
    "gandiva-fair.tenant-gpu-time": lambda p: (
        f"{_of_tenant(p)} (older use counts less), this job {_hours(p, 'attained_gpu_s')}"
    ),
    "ltgf.quota": lambda p: (
        f"{_owed(p)}; this job has received {_hours(p, 'attained_gpu_s')} of the "
        f"{_hours(p, 'entitled_gpu_s')} that were its share"
    ),
    "allox.duration": lambda p: f"runs for {span(p, 'duration_s')}; {_of_tenant(p)}",
    "optimus.remaining-gpu-time": _remaining_service("gpu"),
    "optimus.remaining-cpu-time": _remaining_service("cpu"),
}
"""Every code of a policy that is not told elsewhere (``policy_reasons``, ``deadline_reasons``)."""
