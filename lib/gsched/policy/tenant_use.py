"""What each tenant has, or has received, of a cluster's GPUs: from one snapshot to the next.

Use that was received is counted up in the policy's memory. A job that has left its GPUs since the
last look is taken to have held them until now: on a live cluster, that is too much by one round's
worth at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.model.decision import JsonValue
from gsched.policy.base import KnobSpec

if TYPE_CHECKING:
    from gsched.model.job import JobView
    from gsched.model.jobtable import FloatColumn, JobTable
    from gsched.policy.order_form import TenantTerm

MEMORY_VERSION = 1

HALF_LIFE = KnobSpec(
    name="half_life_s",
    default=7 * 86400.0,
    minimum=3600.0,
    maximum=3650 * 86400.0,
    unit="s",
    help="time in which what a tenant has received counts half (PriorityDecayHalfLife)",
)

_RECEIVED_AS_OF = "received_as_of"
"""In memory that was seeded: as of when the use is, where not as of the last look."""

FORGOTTEN_GPU_S = 1.0
"""A tenant without jobs that has received less is forgotten."""


def tenant_use(
    term: TenantTerm | None,
    state: ClusterState,
    memory: Mapping[str, JsonValue],
    worth: Callable[[JobView], float] | None = None,
) -> tuple[FloatColumn, dict[str, JsonValue]]:
    """By tenant code of ``state.jobs``: its use as `term` counts it, and what is to be remembered.

    Nothing is remembered where nothing is received. Without memory the use begins with what the
    jobs at hand have received. `worth` is that of a GPU of a job, where types differ.
    """
    import numpy as np

    from gsched.policy.order_form import TenantUse

    jobs = state.jobs
    a_gpu = worth or _one
    if term is None:
        return np.zeros(len(jobs.tenants)), {}
    holders = jobs.holders()
    if term.use is TenantUse.ALLOCATED:
        held = _sums({}, ((view, held_gpus(view)) for view in holders))
        return _column(jobs, held), {}
    known = _remembered(memory)
    if known is None:
        attained = np.nan_to_num(jobs.attained_gpu_s).tolist()
        told = zip(jobs.views, attained, strict=True)
        received = _sums({}, ((view, gpu_s * a_gpu(view)) for view, gpu_s in told))
    else:
        as_of, before = known
        fade = _fade(state.as_of - as_of, term.half_life_s)
        faded = {name: gpu_s * fade for name, gpu_s in before.items()}
        served = [
            (view, a_gpu(view) * _served(view, as_of, state.as_of, term.half_life_s))
            for view in (*holders, *state.ended)
        ]
        received = _sums(faded, served)
    return _column(jobs, received), _kept(state.as_of, received, jobs.tenants)


def total_use(use: FloatColumn, kept: Mapping[str, JsonValue]) -> float:
    """Of all tenants that are remembered in `kept`; where none are, of those in `use`."""
    known = _remembered(kept)
    return float(use.sum()) if known is None else math.fsum(known[1].values())


def seeded(
    memory: Mapping[str, JsonValue], as_of: int, received_gpu_s: Mapping[str, float]
) -> dict[str, JsonValue]:
    """`memory` where tenants have received so much until `as_of`, whatever it had of that before.

    Whatever else is in it still is as of its own time.
    """
    known = memory if _remembered(memory) is not None else {"as_of": as_of}
    told: dict[str, JsonValue] = dict(sorted(received_gpu_s.items()))
    marks: dict[str, JsonValue] = {"version": MEMORY_VERSION, _RECEIVED_AS_OF: as_of}
    return {**known, **marks, "received_gpu_s": told}


def held_gpus(view: JobView) -> int:
    """The GPUs of a job that holds any; as many as it asks for where nobody tells."""
    return sum(view.allocation.gpus) if view.allocation else view.request.gpus.minimum


def _one(view: JobView) -> float:
    del view
    return 1.0


def _sums(
    before: Mapping[str, float], amounts: Iterable[tuple[JobView, float]]
) -> dict[str, float]:
    """By tenant: `before` and what each of the jobs adds; their order does not matter."""
    parts = {name: [gpu_s] for name, gpu_s in before.items()}
    for view, amount in amounts:
        parts.setdefault(view.tenant, []).append(amount)
    return {name: math.fsum(added) for name, added in parts.items()}


def _column(jobs: JobTable, of_tenant: Mapping[str, float]) -> FloatColumn:
    """By tenant code."""
    import numpy as np

    return np.array([of_tenant.get(name, 0.0) for name in jobs.tenants], dtype=np.float64)


def _served(view: JobView, since: int, now: int, half_life_s: float) -> float:
    """GPU-seconds between the later of `since` and the job's start and `now`, faded until `now`."""
    start = view.allocation.start_time if view.allocation else since
    seconds = max(0, now - max(since, start))
    if math.isinf(half_life_s):
        return float(held_gpus(view) * seconds)
    return held_gpus(view) * half_life_s / math.log(2.0) * (1.0 - _fade(seconds, half_life_s))


def _fade(seconds: float, half_life_s: float) -> float:
    """What is left of 1 after so long."""
    return float(0.5 ** (max(0.0, seconds) / half_life_s))


def _kept(
    as_of: int, received: Mapping[str, float], at_hand: Sequence[str]
) -> dict[str, JsonValue]:
    told: dict[str, JsonValue] = {
        name: gpu_s
        for name, gpu_s in sorted(received.items())
        if gpu_s >= FORGOTTEN_GPU_S or name in at_hand
    }
    return {"version": MEMORY_VERSION, "as_of": as_of, "received_gpu_s": told}


def _remembered(memory: Mapping[str, JsonValue]) -> tuple[int, dict[str, float]] | None:
    """As of when, and GPU-seconds by tenant; None from another version or from damaged memory."""
    as_of = memory.get(_RECEIVED_AS_OF, memory.get("as_of"))
    stored = memory.get("received_gpu_s")
    if memory.get("version") != MEMORY_VERSION:
        return None
    if not isinstance(as_of, int) or not isinstance(stored, dict):
        return None
    return as_of, {
        name: float(gpu_s)
        for name, gpu_s in stored.items()
        if isinstance(gpu_s, (int, float)) and math.isfinite(gpu_s) and gpu_s >= 0
    }
