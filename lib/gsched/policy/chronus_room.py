"""How much of a pool may be promised to a job of some size, and how far ahead.

Were all promised that can be kept, a few huge jobs with far deadlines would fill the calendar, and
the many small ones that come meanwhile would be refused, or starve. So GPUs are kept for what, by
experience, will come: the GPU-seconds that jobs smaller than the newcomer have brought lately, of
all that the pool has. The further ahead, the more of them; what is free now may all be promised.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gsched.model.cluster import ClusterState
from gsched.model.decision import JsonValue
from gsched.model.job import JobView
from gsched.policy.chronus_calendar import FOREVER, Calendar
from gsched.policy.chronus_plan import Need
from gsched.policy.chronus_pools import pool_sizes
from gsched.policy.chronus_slots import unmet_gpu_s
from gsched.policy.pools import Pools
from gsched.policy.remaining import Remaining

FADES_S = 2 * 86400.0
"""What a job brought counts 1/e after so long."""

LEAST_KNOWN_S = 6 * 3600.0
"""So long a time the load is taken over, at least."""

WHOLE_S = 8 * 3600
"""So far ahead all of it is kept; before, as much less as it is nearer."""

MOST_KEPT = 0.98
LEAST_KEPT = 0.01
"""Less is not worth a look."""

MOST_A_USER = 0.25
"""Of a pool at most this part is kept by what one user has brought."""

_STEPS = 8
_BINS_AN_OCTAVE = 2
_MOST_USERS = 1000


@dataclass(slots=True)
class Load:
    """GPU-seconds that jobs have brought `since` then, by size, as of `as_of`; they fade.

    `by_user` bounds what each user's jobs count: who submits what never runs has GPUs kept for that
    all the same.
    """

    since: int
    as_of: int
    by_size: dict[int, float] = field(default_factory=dict)
    by_user: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, row: JsonValue, now: int) -> Load:
        """As remembered; from now on where nothing is, or nothing that can be read."""
        if isinstance(row, list) and len(row) == 4:
            since, as_of, sizes, users = row
            if isinstance(since, int) and isinstance(as_of, int) and since <= as_of <= now:
                by_size = {int(size): v for size, v in _numbers(sizes) if size.isdecimal()}
                return cls(since, as_of, by_size, dict(_numbers(users)))
        return cls(now, now)

    def row(self) -> list[JsonValue]:
        """As it is to be remembered: of users those that have brought most."""
        sizes: dict[str, JsonValue] = {str(k): v for k, v in sorted(self.by_size.items())}
        most = sorted(self.by_user.items(), key=lambda item: (-item[1], item[0]))[:_MOST_USERS]
        users: dict[str, JsonValue] = dict(sorted(most))
        return [self.since, self.as_of, sizes, users]

    def fade(self, now: int) -> None:
        """Come to `now`."""
        if now > self.as_of:
            part = math.exp(-(now - self.as_of) / FADES_S)
            self.by_size = {k: v * part for k, v in self.by_size.items() if v * part > 1.0}
            self.by_user = {k: v * part for k, v in self.by_user.items() if v * part > 1.0}
            self.as_of = now

    def add(self, gpu_s: float, user: str, num_gpus: int) -> None:
        """A job of this size has come, of a pool of so many GPUs."""
        if not (gpu_s >= 1 and math.isfinite(gpu_s)):
            return
        most = MOST_A_USER * self._time_s * num_gpus
        had = self.by_user.get(user, 0.0)
        counts = min(gpu_s, max(0.0, most - had))
        if counts > 0:
            self.by_user[user] = had + counts
            size = _size(gpu_s)
            self.by_size[size] = self.by_size.get(size, 0.0) + counts

    @property
    def _time_s(self) -> float:
        """The time that what counts now is to be seen over."""
        known_s = max(LEAST_KNOWN_S, float(self.as_of - self.since))
        return FADES_S * (1 - math.exp(-known_s / FADES_S))

    def share_of_smaller(self, gpu_s: float, num_gpus: int) -> float:
        """What part of so many GPUs the jobs take that are smaller than one of this size."""
        if num_gpus <= 0 or gpu_s < 1:
            return 0.0
        own = _size(gpu_s)
        brought = sum(value for size, value in self.by_size.items() if size < own)
        return brought / (self._time_s * num_gpus)


def _numbers(stored: JsonValue) -> list[tuple[str, float]]:
    """Positive ones by name, of what can be read; not too many."""
    if not isinstance(stored, dict):
        return []
    return [
        (name, float(value))
        for name, value in list(stored.items())[:_MOST_USERS]
        if isinstance(value, int | float) and math.isfinite(value) and value > 0
    ]


def _size(gpu_s: float) -> int:
    return int(_BINS_AN_OCTAVE * math.log2(gpu_s))


@dataclass(frozen=True, slots=True)
class Room:
    """What of a pool's calendar `free` may be promised where the part `kept` is for others."""

    free: Calendar
    kept: float
    base_s: int
    unmet: float

    @classmethod
    def of(cls, free: Calendar, kept: float, needs: Sequence[Need], num_gpus: int) -> Room:
        """For a newcomer beside the targets that stand (`needs`)."""
        kept, less, now = min(MOST_KEPT, kept), free.copy(), free.begin
        for step in range(_STEPS + 1):
            start = now + step * WHOLE_S // _STEPS
            end = now + (step + 1) * WHOLE_S // _STEPS if step < _STEPS else FOREVER
            part = min(1.0, (step + 0.5) / _STEPS)
            less.at_most(int(num_gpus * (1 - kept * part)), (start, end))
        base_s = max((need.pieces.least_s for need in needs), default=1)
        return cls(less, kept, base_s, unmet_gpu_s(needs, less, base_s))

    def has(self, needs: Sequence[Need], newcomer: Need) -> bool:
        """Whether no more is missing with the newcomer than without it."""
        ahead = replace(newcomer, pieces=replace(newcomer.pieces, whole=False))
        missing = unmet_gpu_s([*needs, ahead], self.free, max(self.base_s, ahead.pieces.least_s))
        return missing <= self.unmet + 1e-6


def with_arrivals(
    loads: Mapping[str, Load],
    state: ClusterState,
    pools: Pools,
    expected: Callable[[JobView], Remaining | None],
    now: int,
) -> dict[str, Load]:
    """By name of the pool, with what jobs have brought that were submitted since the last look.

    Jobs that may not start yet bring nothing.
    """
    names, sizes = pools.names(), pool_sizes(state, pools)
    found = {name: loads.get(name) or Load(now, now) for name in names.values()}
    oldest = min((load.as_of for load in found.values()), default=now)
    submits = state.jobs.first_submit.tolist()
    for row in [row for row, submit in enumerate(submits) if oldest < submit <= now]:
        view = state.jobs.views[row]
        pool = pools.of_job(view)
        load, left = found.get(names.get(pool, "")), expected(view)
        is_held = view.eligible is None and not view.holds_gpus
        if load is None or left is None or is_held or load.as_of >= submits[row]:
            continue
        gpus = view.request.gpus.minimum * max(1, view.waiting_tasks)
        load.add(left.mean_s * gpus, view.user, sizes.get(pool, 0))
    for load in found.values():
        load.fade(now)
    return found
