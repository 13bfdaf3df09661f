"""Reasons in words: codes of gsched's policies and exclusions, and of Slurm's queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
}


def prediction_source(source: str, similar_jobs: int) -> str:
    """Where a predicted duration comes from, in words."""
    text = _SOURCES.get(source, source)
    return text.format(n=similar_jobs, jobs="job" if similar_jobs == 1 else "jobs")


def prediction_words(duration: Mapping[str, Any]) -> str:
    """A predicted run time as the daemon tells it (``duration_s``)."""
    quantiles: Sequence[Any] = duration.get("quantiles") or []
    text = f"{float(duration['mean']):.0f} s"
    if len(quantiles) >= 2:
        (low_p, low), (high_p, high) = quantiles[0], quantiles[-1]
        text += f" ({100 * (high_p - low_p):.0f} %: {low:.0f}–{high:.0f} s)"
    source = prediction_source(str(duration.get("source")), int(duration.get("similar_jobs") or 0))
    return f"{text}, {source}"


def policy_reason(code: str, params: Mapping[str, Any]) -> str:
    """A reason of a policy in one sentence; an unknown code is shown as it is."""
    if code.endswith((".predicted-gpu-time", ".predicted-cpu-time")):
        unit = "gpu" if code.endswith("gpu-time") else "cpu"
        source = prediction_source(str(params.get("source")), int(params.get("similar_jobs") or 0))
        return (
            f"{_number(params.get(f'{unit}_time_s'))} {unit.upper()}-s predicted: "
            f"{params.get(f'num_{unit}s')} × {_number(params.get('duration_s'))} s ({source})"
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
        return in_order
    details = ", ".join(f"{k} {_number(v)}" for k, v in params.items())
    return f"{code} ({details})" if details else code


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
    return short_time(seconds) if isinstance(seconds, int) else "?"


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 10 else f"{value:.1f}"
    return str(value)
