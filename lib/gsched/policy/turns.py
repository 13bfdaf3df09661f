"""One pass over an order form: who comes when, and where it preempts, who gets GPUs.

The simulator's compiled loop makes the same pass. GPUs are counted, nodes are not looked at: if the
placement then refuses a job, it waits, and what was set aside for it stays so until the next pass.

Live, giving way takes longer than a round. Who has been told to do so, and the waiting job for
which it is, stay chosen until the GPUs are free or the revoke has come to nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gsched.policy.order_form import Misfit, OrderForm, TenantUse
from gsched.policy.tenant_use import held_gpus

if TYPE_CHECKING:
    from gsched.model.jobtable import FloatColumn, JobTable
    from gsched.policy.pools import Pools


@dataclass(slots=True)
class Turns:
    """Rows in the order of their turns; of a form that preempts also who gets GPUs, or loses them.

    `begins` are waiting jobs and `stays` running ones that fit together. `leaves` run and do not
    fit beside them; with each, the waiting job that it makes room for.
    """

    ordered: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    stays: list[int] = field(default_factory=list)
    leaves: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Pass:
    """What a pass goes by: the form at `now`, and each tenant's use.

    `rows` are the waiting jobs, and those running ones that may have to give way, in order. `ready`
    are the waiting ones that could start now, by row.
    """

    form: OrderForm
    jobs: JobTable
    rows: list[int]
    ready: list[bool]
    use: FloatColumn

    def turns(self, pools: Pools) -> Turns:
        """The pass in each pool; between jobs of different pools the order is that of `rows`."""
        views = self.jobs.views
        in_pool: dict[int, list[int]] = {}
        for row in self.rows:
            in_pool.setdefault(pools.of_job(views[row]), []).append(row)
        place = {row: number for number, row in enumerate(self.rows)}
        at_hand = self._tenants_at_hand(pools)
        passes = [
            self._in_pool(rows, place, at_hand[pool], pools.free_gpus[pool])
            for pool, rows in in_pool.items()
        ]
        return Turns(
            list(heapq.merge(*(one.ordered for one in passes), key=place.__getitem__)),
            [row for one in passes for row in one.begins],
            [row for one in passes for row in one.stays],
            [pair for one in passes for pair in one.leaves],
        )

    def _tenants_at_hand(self, pools: Pools) -> dict[int, set[int]]:
        """By pool: the tenants with jobs that wait or run there."""
        tenant = self.jobs.tenant.tolist()
        found: dict[int, set[int]] = {}
        for row in self.jobs.select(self.jobs.pending | self.jobs.running).tolist():
            found.setdefault(pools.of_job(self.jobs.views[row]), set()).add(tenant[row])
        return found

    def _in_pool(
        self, rows: list[int], place: dict[int, int], at_hand: set[int], free_gpus: int
    ) -> Turns:
        done = Turns()
        walk = _Walk(self, rows, place, at_hand)
        if not self.form.discipline.preempts:
            for row in walk:
                done.ordered.append(row)
                walk.charge(row)
            return done
        running = self.jobs.running
        quota = free_gpus + sum(self.gpus(row) for row in rows if running[row])
        under_way = self._under_way(rows, quota)
        for row in under_way:
            quota -= self.gpus(row)
            walk.charge(row)
            done.ordered.append(row)
            done.begins.append(row)
        going = {victim for victims in under_way.values() for victim in victims}
        leaving = []
        for row in walk:
            if row in under_way:
                continue
            done.ordered.append(row)
            if row in going:
                continue
            may = bool(running[row]) or (self.ready[row] and not walk.is_blocked(row))
            if may and self.gpus(row) <= quota:
                quota -= self.gpus(row)
                walk.charge(row)
                (done.stays if running[row] else done.begins).append(row)
            elif running[row]:
                leaving.append(row)
            elif self.ready[row]:
                walk.block(row)
        done.leaves = self._room_for(done.begins, under_way, leaving, free_gpus)
        return done

    def _under_way(self, rows: list[int], quota: int) -> dict[int, list[int]]:
        """The waiting jobs for which GPUs are being freed, as far as there are enough, with those
        that give way for them.
        """
        named: dict[str, list[int]] = {}
        for row in rows:
            lease = self.jobs.views[row].lease if self.jobs.running[row] else None
            if lease is not None and lease.beneficiary:
                named.setdefault(lease.beneficiary, []).append(row)
        found: dict[int, list[int]] = {}
        for row in rows if named else ():
            victims = named.get(self.jobs.keys[row].slurm_id) if self.ready[row] else None
            if victims and self.gpus(row) <= quota:
                found[row] = victims
                quota -= self.gpus(row)
        return found

    def _room_for(
        self,
        begins: list[int],
        under_way: dict[int, list[int]],
        leaving: list[int],
        free_gpus: int,
    ) -> list[tuple[int, int]]:
        """Who leaves for whom: those that are about to; then the last in the order for the first
        that lack room.

        All of these are needed: what those who begin and stay leave free is less than any of them
        holds.
        """
        pairs = [(victim, row) for row, victims in under_way.items() for victim in victims]
        free_gpus += sum(self.gpus(victim) for victim, _ in pairs)
        for row in begins:
            while leaving and free_gpus < self.gpus(row):
                victim = leaving.pop()
                free_gpus += self.gpus(victim)
                pairs.append((victim, row))
            free_gpus -= self.gpus(row)
        return pairs

    def gpus(self, row: int) -> int:
        """GPUs that a job holds or asks for."""
        view = self.jobs.views[row]
        return held_gpus(view) if self.jobs.running[row] else view.request.gpus.minimum

    def worth(self, row: int) -> float:
        """Of each of these GPUs, as tenants are charged for them."""
        shares = self.form.shares
        return 1.0 if shares is None or shares.worth is None else float(shares.worth[row])


class _Walk:
    """Rows of one pool: tenants by their ratio, the jobs of those with the same ratio by place."""

    def __init__(self, of: Pass, rows: list[int], place: dict[int, int], at_hand: set[int]) -> None:
        import numpy as np

        term = of.form.tenants
        self._pass, self._place = of, place
        self._ratios = np.zeros(len(of.jobs.tenants))
        self._a_gpu = 0.0  # what a GPU raises the use of its tenant by
        if term is not None and of.form.comes_by_tenant:
            self._ratios = term.banded_ratios(of.use, np.array(sorted(at_hand), dtype=np.int64))
            is_held = term.use is TenantUse.ALLOCATED
            self._a_gpu = 1.0 if is_held else of.form.discipline.lease_s
        self._use = of.use.copy()
        self._blocked: set[int] = set()  # tenants
        self._jobs: dict[int, Iterator[int]] = {}
        by_tenant: dict[int, list[int]] = {}
        for row in rows:
            by_tenant.setdefault(int(of.jobs.tenant[row]), []).append(row)
        self._jobs = {tenant: iter(mine) for tenant, mine in by_tenant.items()}
        self._heap: list[tuple[float, int, int, int]] = []

    def __iter__(self) -> Iterator[int]:
        for tenant in self._jobs:
            self._await(tenant)
        while self._heap:
            _, _, row, tenant = heapq.heappop(self._heap)
            yield row
            self._await(tenant)

    def charge(self, row: int) -> None:
        """The job just met gets its GPUs."""
        term = self._pass.form.tenants
        if term is None or not self._a_gpu:
            return
        tenant = int(self._pass.jobs.tenant[row])
        self._use[tenant] += self._pass.gpus(row) * self._pass.worth(row) * self._a_gpu
        self._ratios[tenant] = max(self._ratios[tenant], term.ratios(self._use)[tenant])

    def is_blocked(self, row: int) -> bool:
        """Whether one that does not fit keeps this job from starting."""
        return int(self._pass.jobs.tenant[row]) in self._blocked

    def block(self, row: int) -> None:
        """The job just met does not fit."""
        misfit = self._pass.form.discipline.misfit
        if misfit is Misfit.BLOCK:
            self._blocked.update(self._jobs)
        elif misfit is Misfit.BLOCK_TENANT:
            self._blocked.add(int(self._pass.jobs.tenant[row]))

    def _await(self, tenant: int) -> None:
        row = next(self._jobs[tenant], None)
        if row is not None:
            ratio = float(self._ratios[tenant])
            heapq.heappush(self._heap, (ratio, self._place[row], row, tenant))
