"""Past jobs by column, as fits are made of them and traces are compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gsched.errors import DataError
from gsched.model.job import JobState, finite_limit_s
from gsched.model.names import masked
from gsched.synth.quantiles import Floats

Ints = NDArray[np.int64]

UNTOLD = -1
"""The code of what a source does not tell."""

_LARGEST = 2**33  # seconds or devices: more is no fact
_LEAST_LEFT = 0.01
_MOST_POOLS = 50
_OTHERS = "others"


class PastRun(NamedTuple):
    """A job of the past as far as fits go by it; times epoch seconds, None: nobody has told."""

    cluster: str
    submit_time: int
    start_time: int | None
    end_time: int | None
    state: JobState
    state_text: str
    user: str | None
    tenant: str | None
    partition: str | None
    name: str | None
    time_limit_s: int | None
    num_cpus: int | None
    num_gpus: int | None

    @property
    def ran_s(self) -> int:
        """For how long it ran; 0 where it did not, or nobody has told."""
        if self.start_time is None or self.end_time is None:
            return 0
        return max(0, self.end_time - self.start_time)


@dataclass(frozen=True, eq=False)
class TraceJobs:
    """Jobs that ran, in order of submission, one element a job in every column.

    `size` counts GPUs, or CPUs where the source tells no GPUs (`unit`); durations are whole seconds
    > 0. Codes of users, names and pools are UNTOLD where a source tells none; `recipe` is the code
    of the name without what differs from run to run. All but the largest pools are one. `left_out`
    jobs did not run, ran on nothing, or tell what cannot be.
    """

    unit: str
    submit_s: Ints
    duration_s: Floats
    size: Ints
    pool: Ints
    pools: tuple[str, ...]
    pool_field: str  # of AttemptRecord: partition; tenant (virtual clusters, else clusters)
    user: Ints
    num_tenants: int
    name: Ints
    recipe: Ints
    state: Ints
    states: tuple[str, ...]  # empty: the source tells none
    time_limit_s: Floats
    left_out: int

    def __len__(self) -> int:
        return len(self.submit_s)

    @property
    def tells_users(self) -> bool:
        """Whether the source names users."""
        return bool(len(self)) and int(self.user.max()) > UNTOLD

    @property
    def tells_names(self) -> bool:
        """Whether the source names jobs."""
        return bool(len(self)) and int(self.name.max()) > UNTOLD

    @property
    def sender(self) -> Ints:
        """Who submits: the user; where users are not told, the pool."""
        return self.user if self.tells_users else self.pool


def trace_jobs(jobs: Iterable[PastRun]) -> TraceJobs:
    """The columns of some jobs, whatever their order.

    Raises DataError where fewer than two of them ran on anything.
    """
    every = list(jobs)
    ran = [job for job in every if 0 < job.ran_s < _LARGEST and 0 <= job.submit_time < _LARGEST]
    unit = "gpus" if any(job.num_gpus for job in ran) else "cpus"
    field = f"num_{unit}"
    kept = [job for job in ran if 0 < (getattr(job, field) or 0) < _LARGEST]
    kept.sort(key=lambda j: (j.submit_time, j.ran_s, getattr(j, field), j.user or "", j.name or ""))
    if len(kept) < 2:
        raise DataError("fewer than two jobs ran: there is nothing to fit a synthetic trace to")
    pool_field = "partition" if any(job.partition for job in kept) else "tenant"
    told = [getattr(job, pool_field) or "" for job in kept]
    pool, pools = _codes(_pool_names(told if any(told) else [job.cluster for job in kept]))
    name, names = _codes([job.name or None for job in kept])
    ends_told = any(job.state_text for job in kept)
    state, states = _codes([_ended_as(job.state) if ends_told else None for job in kept])
    limits = [finite_limit_s(job.time_limit_s) for job in kept]
    return TraceJobs(
        unit=unit,
        submit_s=np.array([job.submit_time for job in kept], dtype=np.int64),
        duration_s=np.array([job.ran_s for job in kept], dtype=np.float64),
        size=np.array([getattr(job, field) for job in kept], dtype=np.int64),
        pool=pool,
        pools=tuple(map(str, pools)),
        pool_field=pool_field,
        user=_codes([job.user or None for job in kept])[0],
        num_tenants=len({job.tenant for job in kept} - {None, ""}),
        name=name,
        recipe=_recipes(name, names),
        state=state,
        states=tuple(map(str, states)),
        time_limit_s=np.array([np.nan if x is None else x for x in limits], dtype=np.float64),
        left_out=len(every) - len(kept),
    )


def _pool_names(told: Sequence[str]) -> list[str]:
    """The pool of each job; all but the largest are one."""
    large = {name for name, _ in Counter(told).most_common(_MOST_POOLS)}
    return [name if name in large else _OTHERS for name in told]


def previous_in(*groups: Ints) -> Ints:
    """For each job, the one before it with the same codes in all `groups`; UNTOLD for the first."""
    sort = np.lexsort((np.arange(len(groups[0])), *groups))
    same = np.ones(len(sort) - 1, dtype=np.bool_)
    for codes in groups:
        same &= codes[sort[1:]] == codes[sort[:-1]]
    previous = np.full(len(sort), UNTOLD, dtype=np.int64)
    previous[sort[1:][same]] = sort[:-1][same]
    return previous


def _recipes(name: Ints, names: Sequence[str]) -> Ints:
    """Codes of the names without what differs from run to run.

    Where next to nothing is left then, numbers stand for names (an anonymised trace): they stay.
    """
    masks, kinds = _codes([masked(text) for text in names])
    if len(kinds) <= _LEAST_LEFT * len(names):
        return name
    return np.where(name > UNTOLD, masks[name], UNTOLD)


def _ended_as(state: JobState) -> str:
    """The word of a final state; what had not ended when it was told counts as completed."""
    return (state if state.is_terminal else JobState.COMPLETED).value


def _codes(values: Sequence[Hashable | None]) -> tuple[Ints, list[Any]]:
    """A number for each distinct value, in order of first appearance; None is UNTOLD."""
    found: dict[Any, int] = {}
    codes = [UNTOLD if v is None else found.setdefault(v, len(found)) for v in values]
    return np.array(codes, dtype=np.int64), list(found)
