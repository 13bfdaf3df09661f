"""Reasons in words: codes of gsched's policies and exclusions, and of Slurm's queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gsched.explain.order_reasons import order_reason
from gsched.explain.slurm_reasons import explain_reason
from gsched.explain.words import short_time
from gsched.model.decision import LAST_ORDER_STANDS

_SOURCES = {
    "similar-name": "from {n} similar {jobs} of this user",
    "user-gpus": "from {n} {jobs} of this user with as many GPUs",
    "user": "from {n} {jobs} of this user",
    "gpus": "from {n} {jobs} with as many GPUs",
    "all": "from all {n} past {jobs}",
    "table": "from the site's table",
    "constant": "the same for every job",
    "time-limit": "its time limit, for nothing has ended yet",
    "site-default": "the site's default, for nothing has ended yet",
}


def prediction_source(source: str, similar_jobs: int) -> str:
    """Where a predicted duration comes from, in words."""
    text = _SOURCES.get(source, source)
    return text.format(n=similar_jobs, jobs="job" if similar_jobs == 1 else "jobs")


def quantiles_of(duration: Mapping[str, Any]) -> dict[float, float]:
    """The quantiles of a run time as the daemon tells it (``duration_s``): seconds by share."""
    return {round(p, 3): value for p, value in duration.get("quantiles") or ()}


def prediction_words(duration: Mapping[str, Any]) -> str:
    """A predicted run time as the daemon tells it (``duration_s``): the median, and its interval.

    Policies order by the mean, in which a run that may become long counts for more.
    """
    quantiles = quantiles_of(duration)
    text = short_time(quantiles.get(0.5, float(duration["mean"])))
    source = prediction_source(str(duration.get("source")), int(duration.get("similar_jobs") or 0))
    if 0.1 in quantiles and 0.9 in quantiles:
        span = f"80 %: {short_time(quantiles[0.1])}–{short_time(quantiles[0.9])}"
        return f"{text} ({span}, {source})"
    return f"{text} ({source})"


def caution_words(duration: Mapping[str, Any]) -> str:
    """By how much orders reckon with more than is predicted (``caution``), and why; "" for none."""
    factor = duration.get("caution") or 1
    if factor <= 1:
        return ""
    return f"orders reckon with {factor:.2g} times that: recent jobs of this user outran theirs"


def policy_reason(code: str, params: Mapping[str, Any]) -> str:
    """A reason of a policy in one sentence; an unknown code is shown as it is."""
    if code.endswith((".predicted-gpu-time", ".predicted-cpu-time")):
        unit = "gpu" if code.endswith("gpu-time") else "cpu"
        source = prediction_source(str(params.get("source")), int(params.get("similar_jobs") or 0))
        return (
            f"{_amount(params.get(f'{unit}_time_s'), unit)} predicted: "
            f"{params.get(f'num_{unit}s')} × {_span(params.get('duration_s'))} ({source})"
        )
    if code.endswith(".no-prediction"):
        return "no prediction: keeps the median place"
    if code.endswith(LAST_ORDER_STANDS):
        return "nothing can be predicted for now: the last order stands"
    if code == "starving":
        return _starving_words(params)
    if code == "scope.several-policies":
        return f"in partitions of several policies ({params.get('policies')}): median place"
    if code == "clear":
        because = params.get("because")
        return "taken back" + (f": {because}" if because else "")
    in_order = order_reason(code, params)
    if in_order is not None:
        front = "; GPUs are being freed for it, before all others" if params.get("in_front") else ""
        return in_order + front + _repaid_words(params)
    details = ", ".join(f"{k} {_number(v)}" for k, v in params.items())
    return f"{code} ({details})" if details else code


def _repaid_words(params: Mapping[str, Any]) -> str:
    """What a job has got back of the age that its requeue has cost; "" for none."""
    points, waited_s = params.get("repaid_points"), params.get("repaid_wait_s")
    if not _is_amount(points) or not points:
        return ""
    return f"; moved up by {points:.0f} points for {_span(waited_s)} of waiting before its requeue"


def slurm_reason(reason: str) -> str:
    """Slurm's reason for a pending job in words; an unknown one is shown as it is."""
    found = explain_reason(reason)
    never = found.code == "DependencyNeverSatisfied"
    return f"can never start: {found.words}" if never else found.words


def _starving_words(params: Mapping[str, Any]) -> str:
    bound = f"waits for longer than starvation_bound_s ({_span(params.get('bound_s'))})"
    if params.get("out_of_reach"):
        return (
            f"{bound}: moved up as far as max_shift allows, yet other factors keep a job that has "
            "not before it"
        )
    return f"{bound}: before all jobs that do not"


def _span(seconds: Any) -> str:
    return short_time(seconds) if _is_amount(seconds) else "?"


def _amount(seconds: Any, unit: str) -> str:
    """GPU-time or CPU-time: ``2.8 GPU-h``, seconds where it is less than six minutes."""
    if not _is_amount(seconds):
        return f"? {unit.upper()}-s"
    if seconds < 360:
        return f"{seconds:.0f} {unit.upper()}-s"
    return f"{seconds / 3600:,.{0 if seconds >= 36000 else 1}f} {unit.upper()}-h"


def _is_amount(value: Any) -> bool:
    """Whether it can be an amount of time: what others have written may be anything."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
    return str(value)
