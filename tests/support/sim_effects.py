"""Runs of the ordered loop under one order, and EASY backfill once more, as plainly as can be."""

from __future__ import annotations

import math

from gsched.model.progress import silent
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core.ordered_loop import run_ordered
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import SimRules
from support.plain_sim import plain_placement


def first_come(
    jobs: SimJobs,
    cluster: SimCluster,
    rules: SimRules | None = None,
    misfit: Misfit = Misfit.BLOCK,
    preempts: bool = False,
) -> SimResult:
    """The jobs in order of submission."""
    form = OrderForm.static(jobs.submit_s, Discipline(preempts=preempts, misfit=misfit))
    return run_ordered(jobs, cluster, form, rules or SimRules(), "first-come", silent)


class PlainEasy:
    """EASY backfill in one pool of equal nodes: start of each job by row, and reservations kept."""

    def __init__(self, jobs: SimJobs, cluster: SimCluster) -> None:
        self.jobs = jobs
        self.sizes = dict(enumerate(cluster.node_gpus.tolist()))
        self.free = dict(self.sizes)
        self.starts: dict[int, float] = {}
        self.running: dict[int, list[tuple[int, int]]] = {}
        self.promised: dict[int, float] = {}  # the first reservation of a job
        self._go()

    def _go(self) -> None:
        submit_s = self.jobs.submit_s.tolist()
        waiting: list[int] = []
        times = set(submit_s)
        while times:
            now = min(times)
            times.remove(now)
            for row in [r for r in self.running if self._end(r) == now]:
                self._shift(self.free, self.running.pop(row), 1)
            waiting += [r for r, s in enumerate(submit_s) if s == now]
            started = self._pass(waiting, now)
            waiting = [r for r in waiting if r not in started]
            times |= {self._end(row) for row in started}

    def _end(self, row: int) -> float:
        return self.starts[row] + float(self.jobs.duration_s[row])

    def _limit(self, row: int) -> float:
        limit = float(self.jobs.time_limit_s[row])
        return 365 * 86_400 if math.isnan(limit) else limit

    def _pass(self, waiting: list[int], now: float) -> set[int]:
        started: set[int] = set()
        shadow_s, spare = math.inf, dict(self.free)
        has_head = False
        for row in waiting:
            beside = {n: min(self.free[n], spare[n]) for n in self.free} if has_head else self.free
            in_time = now + self._limit(row) <= shadow_s
            pieces = self._place(self.free if in_time else beside, row)
            if pieces:
                self._shift(self.free, pieces, -1)
                if has_head and not in_time:
                    self._shift(spare, pieces, -1)
                self.starts[row] = now
                self.running[row] = pieces
                started.add(row)
            elif not has_head:
                has_head = True
                shadow_s, spare = self._reserve(row, now)
                self.promised.setdefault(row, shadow_s)
        return started

    def _reserve(self, head: int, now: float) -> tuple[float, dict[int, int]]:
        ends = {row: max(now, self.starts[row] + self._limit(row)) for row in self.running}
        for time_s in sorted(set(ends.values())):
            then = dict(self.free)
            for row, end_s in ends.items():
                if end_s <= time_s:
                    self._shift(then, self.running[row], 1)
            pieces = self._place(then, head)
            if pieces:
                self._shift(then, pieces, -1)
                return time_s, then
        raise AssertionError("a job that is too large")

    def _place(self, free: dict[int, int], row: int) -> list[tuple[int, int]]:
        return plain_placement(free, self.sizes, int(self.jobs.num_gpus[row]))

    @staticmethod
    def _shift(free: dict[int, int], pieces: list[tuple[int, int]], sign: int) -> None:
        for node, gpus in pieces:
            free[node] += sign * gpus
