"""What jobs have received of their tenants' quotas, and were entitled to, from look to look.

The quota of a tenant is a part of its pool's GPUs. It is shared evenly by the tenant's active jobs,
those that wait for GPUs or run on some, and no job is entitled to more than it asks for. Who is
active is seen at each look, and counts until the next one.

A job that has received nothing has had none of its share, however large that is: nothing needs to
be remembered of it. What it is entitled to is its present share since it began to wait; from its
first GPU-time on it is counted up. So memory grows with the jobs that have run, not with those that
wait; of more than MOST_JOBS those with the least GPU-time are forgotten, and count as if they had
been met for the first time.

This is the account that the rule of ltgf goes by. The metric by which fairness is judged afterwards
is another one (``gsched.fairness``).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from gsched.model.cluster import ClusterState
from gsched.model.decision import JsonValue
from gsched.model.job import JobKey, JobView
from gsched.policy.attained import with_attained
from gsched.policy.tenant_use import held_gpus

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable
    from gsched.policy.worth import Worth

MEMORY_KEY = "entitled"

MOST_JOBS = 12_000
"""Jobs with GPU-time that are remembered: some 60 bytes each, of the MiB that a policy has."""

SUM_STEPS, RATE_STEPS = 1e3, 1e6
"""Sums are kept to the millisecond of a GPU and rates to its millionth: it is JSON."""


class Counted(NamedTuple):
    """What is remembered of a job: GPU-seconds entitled to, GPUs that are its from then on,
    GPU-seconds received, the worth of each GPU that it held last.
    """

    entitled: float
    rate: float
    received: float
    worth: float


@dataclass(frozen=True, eq=False)
class Remembered:
    """What was remembered `as_of`, by row of the table at hand."""

    as_of: int
    jobs: Mapping[int, Counted]

    @classmethod
    def of(cls, memory: Mapping[str, JsonValue], jobs: JobTable) -> Remembered:
        """Nothing from damaged memory, nor of jobs that are gone."""
        as_of, stored = memory.get("as_of"), memory.get(MEMORY_KEY)
        if not isinstance(as_of, int) or not isinstance(stored, dict) or not stored:
            return cls(0, {})
        rows = {_name(jobs.keys[row]): row for row in _may_be_known(jobs)}
        known = {}
        for name, told in stored.items():
            counted = _counted(told)
            if name in rows and counted is not None:
                known[rows[name]] = counted
        return cls(as_of, known)


def with_received(state: ClusterState, known: Remembered) -> JobTable:
    """``state.jobs`` with what jobs have received over all attempts, where nobody tells it.

    Of an attempt between two looks that nobody has seen nothing is known.
    """
    import numpy as np

    untold = np.isnan(state.jobs.attained_gpu_s)
    jobs = with_attained(state)
    if not untold.any() or not known.jobs:
        return jobs
    received = jobs.attained_gpu_s.copy()
    for row, counted in known.jobs.items():
        if untold[row]:
            view = jobs.views[row]
            passed_s = 0
            if jobs.running[row] and view.allocation is not None:
                passed_s = max(0, state.as_of - max(known.as_of, view.allocation.start_time))
            received[row] = counted.received + held_gpus(view) * passed_s
    received.flags.writeable = False
    return replace(jobs, attained_gpu_s=received)


def entitled_gpu_s(
    state: ClusterState, quotas: FloatColumn | None, known: Remembered, worth: Worth
) -> tuple[FloatColumn, FloatColumn, dict[str, JsonValue]]:
    """By row of ``state.jobs``: GPU-seconds entitled to so far, and the worth of one GPU of each
    job; then what is to be remembered.

    `quotas` as in ``order_form.JobShares``. Received counts at the worth of what a job held last.
    """
    import numpy as np

    jobs = state.jobs
    received = np.nan_to_num(jobs.attained_gpu_s)
    a_gpu = _worth_of_a_gpu(state, known, worth)
    shares = _rounded(_shares(state, quotas, worth, a_gpu), RATE_STEPS)
    entitled = shares * np.maximum(0.0, state.as_of - _since(jobs))
    passed_s = max(0, state.as_of - known.as_of)
    for row, counted in known.jobs.items():
        entitled[row] = counted.entitled + counted.rate * passed_s
    entitled = _rounded(entitled, SUM_STEPS)
    counts = jobs.select((received > 0) & (jobs.num_gpus > 0))
    names = {row: _name(jobs.keys[row]) for row in counts.tolist()}
    if len(names) > MOST_JOBS:
        most = sorted(names, key=lambda row: (-received[row], names[row]))[:MOST_JOBS]
        names = {row: names[row] for row in most}
    kept: dict[str, JsonValue] = {
        name: [_short(c[row]) for c in (entitled, shares, _rounded(received, SUM_STEPS), a_gpu)]
        for row, name in sorted(names.items(), key=lambda item: item[1])
    }
    return entitled, a_gpu, {MEMORY_KEY: kept}


def _worth_of_a_gpu(state: ClusterState, known: Remembered, worth: Worth) -> FloatColumn:
    """By row: of what it holds, or held last, or asks for."""
    import numpy as np

    jobs = state.jobs
    found = np.ones(len(jobs))
    if not worth.weights:
        return found
    found[:] = [worth.of_a_gpu(view) for view in jobs.views]
    left = {view.key: view for view in state.ended}
    for row, counted in known.jobs.items():
        if not jobs.views[row].holds_gpus:
            found[row] = counted.worth
    for key, view in left.items():
        if key in jobs and not jobs.view(key).holds_gpus:
            found[jobs.row(key)] = worth.of_a_gpu(view)
    return found


def _shares(
    state: ClusterState, quotas: FloatColumn | None, worth: Worth, a_gpu: FloatColumn
) -> FloatColumn:
    """By row: the GPUs that are each job's from now on; 0 where it is not active."""
    import numpy as np

    jobs, pools = state.jobs, worth.pools
    waits = jobs.pending & ~np.isnan(jobs.waiting_since)
    active = jobs.select((waits | jobs.running) & (jobs.num_gpus > 0))
    group = {row: (pools.of_job(jobs.views[row]), int(jobs.tenant[row])) for row in active.tolist()}
    jobs_of = Counter(group.values())
    tenants_in = Counter(pool for pool, _ in jobs_of)
    share_of = {}
    for pool, tenant in jobs_of:
        gpus = worth.of_pool.get(pool, 0.0)
        quota = gpus / tenants_in[pool] if quotas is None else gpus * float(quotas[tenant])
        share_of[pool, tenant] = quota / jobs_of[pool, tenant]
    shares = np.zeros(len(jobs))
    for row, at in group.items():
        shares[row] = min(float(held_gpus(jobs.views[row])) * a_gpu[row], share_of[at])
    return shares


def _since(jobs: JobTable) -> FloatColumn:
    """By row: since when it could have been entitled to anything."""
    import numpy as np

    since = np.where(np.isnan(jobs.waiting_since), jobs.first_submit, jobs.waiting_since)
    for row in jobs.select(jobs.running).tolist():
        since[row] = _began_to_wait(jobs.views[row])
    return since


def _began_to_wait(view: JobView) -> int:
    if view.eligible is None or view.attempt != view.first_submit:
        return view.first_submit
    return max(view.first_submit, view.eligible)


def _rounded(column: FloatColumn, steps: float) -> FloatColumn:
    """As the simulator's loop rounds (``gsched.sim.core.entitlement``), to the bit."""
    import numpy as np

    rounded: FloatColumn = np.floor(column * steps + 0.5) / steps
    return rounded


def _short(value: float) -> float:
    return int(value) if float(value).is_integer() else float(value)


def _may_be_known(jobs: JobTable) -> list[int]:
    """Rows of jobs that have received something, or of which nobody tells whether they have."""
    found: list[int] = jobs.select(~(jobs.attained_gpu_s == 0)).tolist()
    return found


def _name(key: JobKey) -> str:
    return f"{key.slurm_id}@{key.epoch}"


def _counted(told: JsonValue) -> Counted | None:
    """None for what is no list of four amounts."""
    if not isinstance(told, list) or len(told) != len(Counted._fields):
        return None
    amounts = [
        float(value)
        for value in told
        if isinstance(value, int | float) and math.isfinite(value) and value >= 0
    ]
    return Counted(*amounts) if len(amounts) == len(told) else None
