"""Orders in closed form: the key of a job as a function of time, in a few numbers a job.

A STATIC policy gives each job one number. Many others need little more: the key moves with the
time that the job has run, or has been in the system, in steps at some bounds of service received,
or with what its tenant has received. Written down as an `OrderForm`, such an order is evaluated by
the live daemon for a snapshot (`keys_at`) and by the simulator's compiled loop for a whole trace:
one rule, two drivers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, IntColumn, JobTable

NEVER = float("inf")


class Misfit(enum.Enum):
    """What happens behind the first job of the order that does not fit on what is free."""

    BLOCK = "block"  # nothing: the others wait (Slurm's main scheduler, most papers' FIFO and SJF)
    BLOCK_TENANT = "block-tenant"  # the others of its tenant wait, those of other tenants do not
    SKIP = "skip"  # the next one is tried, and so on: a large job may starve
    BACKFILL = "backfill"  # one that ends in time, by its limit, not to delay the first (EASY)


@dataclass(frozen=True, slots=True)
class Discipline:
    """How an order is carried out where the backend has the choice.

    With `preempts`, running jobs stand in the order too and give way to those before them; a job
    that was granted `lease_s` seconds keeps its GPUs for so long (0: it may be preempted at every
    event).
    """

    preempts: bool = False
    misfit: Misfit = Misfit.BLOCK
    lease_s: float = 0.0


class TenantUse(enum.Enum):
    """What counts as use of a tenant."""

    ALLOCATED = "allocated"  # GPUs that its jobs hold now
    RECEIVED = "received"  # GPU-seconds that its jobs have received, with decay


@dataclass(frozen=True, eq=False)
class TenantTerm:
    """How a tenant's use moves its jobs.

    Use over share is the tenant's ratio (`shares` by tenant code; they are scaled to sum 1).
    RECEIVED halves every `half_life_s`. With `points` = 0 tenants come one after the other, least
    ratio first, and keys order the jobs of tenants with the same ratio; the `band` fraction of the
    tenants at hand with the least ratios counts as one (0: each for itself, 1: the ratio does not
    matter). With `points` > 0 nothing is first: `points` · 2^(−ratio of the tenant among all use)
    is taken off the key, as Slurm's classic fair-share factor (NO_FAIR_TREE) raises a priority.

    With `points` = 0 a tenant is charged at once for what it gets in a pass over the order: with
    the GPUs (ALLOCATED), or the GPU-seconds of one lease (RECEIVED). Else all jobs of one tenant
    would come before the first of the next.
    """

    shares: FloatColumn
    use: TenantUse = TenantUse.RECEIVED
    half_life_s: float = NEVER
    band: float = 0.0
    points: float = 0.0

    def points_at(self, use: FloatColumn) -> FloatColumn:
        """By tenant: what is taken off the keys of its jobs."""
        among_all = use / (use.sum() or 1.0)
        points: FloatColumn = self.points * 2.0 ** -self.ratios(among_all)
        return points

    def ratios(self, use: FloatColumn) -> FloatColumn:
        """By tenant: use over share."""
        ratios: FloatColumn = use * self.shares.sum() / self.shares
        return ratios

    def banded_ratios(self, use: FloatColumn, at_hand: IntColumn) -> FloatColumn:
        """By tenant: its ratio, or the greatest of the band for all that are in it."""
        import math

        import numpy as np

        ratios = self.ratios(use)
        in_band = math.ceil(self.band * len(at_hand))
        if in_band:
            ratios = np.maximum(ratios, np.sort(ratios[at_hand])[in_band - 1])
        return ratios


@dataclass(frozen=True, eq=False)
class JobShares:
    """That jobs come by what they have received of their share of their tenant's quota.

    `quotas` is the part of a pool's GPUs that is each tenant's, by its code; None: an equal part
    for each tenant that has active jobs there. `gpu_weights` is what a GPU is worth by type, 1
    where not named; use of tenants counts so too. See ``entitlement`` for the share of a job.
    `entitled_gpu_s` is what each job has been entitled to by the moment of a snapshot, `worth` that
    of a GPU of each; None in the form of a whole trace, for which the simulator counts them.
    """

    quotas: FloatColumn | None = None
    gpu_weights: Mapping[str, float] = field(default_factory=dict)
    entitled_gpu_s: FloatColumn | None = None
    worth: FloatColumn | None = None


@dataclass(frozen=True, eq=False)
class OrderForm:
    """The keys of some jobs as functions of time; smaller first, ties by first submit.

    key(t) = constant + per_executed_s · min(e, executed_cap_s)
             + per_elapsed_s · min(t − first submit, elapsed_cap_s)
             + with `shares`, GPU-time received over entitled (0 as long as that is nothing)

    where e is for how many seconds the job has run by t, over all its attempts. Where
    `level_bounds_gpu_s` (rising) are given, jobs come by level first: the number of bounds that
    the GPU-seconds received have reached (Tiresias' queues). A NaN constant: the job has no place
    in the order and comes after all that have one, in order of submission.
    """

    constant: FloatColumn
    per_executed_s: FloatColumn
    per_elapsed_s: FloatColumn
    elapsed_cap_s: float = NEVER
    level_bounds_gpu_s: tuple[float, ...] = ()
    tenants: TenantTerm | None = None
    discipline: Discipline = field(default_factory=Discipline)
    executed_cap_s: float = NEVER
    shares: JobShares | None = None

    @classmethod
    def static(
        cls,
        constant: FloatColumn,
        discipline: Discipline | None = None,
        tenants: TenantTerm | None = None,
    ) -> OrderForm:
        """Keys that never change by themselves."""
        import numpy as np

        zeros = np.broadcast_to(0.0, constant.shape)
        return cls(constant, zeros, zeros, tenants=tenants, discipline=discipline or Discipline())

    @property
    def is_static(self) -> bool:
        """Whether no key ever changes, so that the jobs need to be sorted only once."""
        return not (
            self.per_executed_s.any()
            or self.per_elapsed_s.any()
            or self.level_bounds_gpu_s
            or self.tenants is not None
            or self.shares is not None
        )

    @property
    def comes_by_tenant(self) -> bool:
        """Whether tenants come one after the other, whatever the keys of their jobs."""
        return self.tenants is not None and not self.tenants.points

    def executed_s(self, jobs: JobTable) -> FloatColumn:
        """For how long each job has run over all its attempts; 0 where that is not known."""
        import numpy as np

        seconds: FloatColumn = np.nan_to_num(jobs.attained_gpu_s) / np.maximum(jobs.num_gpus, 1)
        return seconds

    def keys_at(self, now: int, jobs: JobTable, use: FloatColumn) -> FloatColumn:
        """Keys at `now`; `use` is that of each tenant (see TenantTerm), by code.

        Levels, and tenants that come one after the other, are not in them: see `order_at`.
        """
        import numpy as np

        elapsed_s = np.minimum(now - jobs.first_submit, self.elapsed_cap_s)
        executed_s = np.minimum(self.executed_s(jobs), self.executed_cap_s)
        keys = self.constant + self.per_executed_s * executed_s
        keys = keys + self.per_elapsed_s * elapsed_s
        if self.shares is not None and self.shares.entitled_gpu_s is not None:
            worth = 1.0 if self.shares.worth is None else self.shares.worth
            received = np.nan_to_num(jobs.attained_gpu_s) * worth
            keys = keys + part_received(received, self.shares.entitled_gpu_s)
        if self.tenants is not None and self.tenants.points:
            keys = keys - self.tenants.points_at(use)[jobs.tenant]
        return keys

    def levels_at(self, jobs: JobTable) -> IntColumn:
        """How many level bounds each job has reached; 0 everywhere where there are none."""
        import numpy as np

        received = np.nan_to_num(jobs.attained_gpu_s)
        return np.searchsorted(self.level_bounds_gpu_s, received, side="right").astype(np.int64)

    def order_at(self, now: int, jobs: JobTable, rows: IntColumn, use: FloatColumn) -> IntColumn:
        """`rows` of `jobs` in their order at `now`, tenants that come one after the other apart."""
        import numpy as np

        keys = self.keys_at(now, jobs, use)[rows]
        keys = np.where(np.isnan(keys), np.inf, keys)
        return rows[np.lexsort((jobs.tie[rows], keys, self.levels_at(jobs)[rows]))]


PART_STEPS = 2.0**20
"""Parts received are told apart in steps of 1 over this: sums in another order give the same."""


def part_received(received_gpu_s: FloatColumn, entitled_gpu_s: FloatColumn) -> FloatColumn:
    """Received over entitled, in steps; 0 where nobody is entitled to anything."""
    import numpy as np

    entitled = np.where(entitled_gpu_s > 0, entitled_gpu_s, 1.0)
    part = np.where(entitled_gpu_s > 0, received_gpu_s / entitled, 0.0)
    steps: FloatColumn = np.floor(part * PART_STEPS + 0.5) / PART_STEPS
    return steps


def filled_by_median(keys: FloatColumn) -> FloatColumn:
    """`keys` with the median of the others where one is NaN: a job of which nothing is predicted.

    Live such a job keeps the median place. The keys at hand are those of a snapshot there, and in
    the simulator those of the whole trace. Without any key all stay NaN.
    """
    import numpy as np

    known = keys[~np.isnan(keys)]
    return np.where(np.isnan(keys), np.median(known) if len(known) else np.nan, keys)
