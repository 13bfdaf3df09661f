"""What would have changed a choice: more points, fewer GPUs, or a lease that ends (UniSched)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gsched.model.decision import JsonValue
from gsched.model.job import Capability
from gsched.policy.chronus_pools import gives_way
from gsched.policy.unisched_cells import Ground, Kind, Parts
from gsched.policy.unisched_reward import points_of

if TYPE_CHECKING:
    from gsched.policy.chronus_round import Round
    from gsched.policy.chronus_turns import NodePass


class Advice:
    """Of one choice, worked out once for each kind of job."""

    def __init__(
        self,
        round_: Round,
        node_pass: NodePass,
        grounds: Sequence[Ground],
        values: Mapping[int, int],
        due: frozenset[int],
    ) -> None:
        self._round, self._pass, self._grounds = round_, node_pass, grounds
        self._known: dict[Kind, dict[str, JsonValue]] = {}
        self._prices: dict[str, list[tuple[float, int, int]]] = {g.view.name: [] for g in grounds}
        for row, parts in node_pass.given.items():
            for name, gpus in parts.items() if row not in due else ():
                own = values[row]
                if not gpus:
                    continue
                self._prices[name].append((own / gpus, own, gpus))
        self._ends = self._leases_end(due)

    def given(self, row: int) -> Parts:
        """GPUs by node that a job has got."""
        return self._pass.given.get(row, {})

    def of(self, kind: Kind) -> dict[str, JsonValue]:
        """Parameters of the reason of a job that was not chosen.

        `needed_points`: of those that would have to go for it, the cheapest ones (0: none can);
        `fits_gpus`: the most GPUs, fewer than it asks for, with which it would have started on one
        node (0: none);
        `chance_time`: when leases that run end so that it would fit (epoch, 0: none do).
        """
        if kind not in self._known:
            own = [g for g in self._grounds if kind.suits(g.view)]
            size, nodes = self._size(kind, own)
            free = [self._free(g) for g in own]
            needed = self._cheapest(self._price(g, size) for g in own)
            chance = self._earliest([self._time(g, size) for g in own], nodes)
            costs = sorted(needed)[:nodes]
            self._known[kind] = {
                "needed_points": round(points_of(sum(costs)), 3) if len(costs) == nodes else 0.0,
                "fits_gpus": self._fits(kind, free),
                "chance_time": chance,
            }
        return dict(self._known[kind])

    def _size(self, kind: Kind, own: Sequence[Ground]) -> tuple[int, int]:
        """GPUs that it needs on a node, and on how many."""
        largest = max((g.view.num_gpus for g in own), default=1) or 1
        nodes = max(1, kind.least_nodes, -(-kind.gpus // largest))
        return -(-kind.gpus // nodes), nodes

    @staticmethod
    def _fits(kind: Kind, free: Sequence[int]) -> int:
        return 0 if kind.least_nodes > 1 else min(max(free, default=0), kind.gpus - 1)

    def _free(self, ground: Ground) -> int:
        """GPUs that are left; none where a node is kept for a target."""
        name = ground.view.name
        return 0 if name in self._pass.kept else self._pass.nodes[name].room

    @staticmethod
    def _cheapest(prices: Iterator[int | None]) -> list[int]:
        return [price for price in prices if price is not None]

    def _price(self, ground: Ground, size: int) -> int | None:
        """What those count who would have to leave a node; None where that is not enough."""
        if ground.view.name in self._pass.kept:
            return None
        lacks, total = size - self._free(ground), 0
        for _, own, gpus in sorted(self._prices[ground.view.name]):
            if lacks <= 0:
                break
            lacks -= gpus
            total += own
        return total if lacks <= 0 else None

    def _leases_end(self, due: frozenset[int]) -> dict[str, list[tuple[int, int]]]:
        """By node when how many GPUs come back, as leases have it after this choice.

        Of due targets and of jobs that cannot give way nothing is told: they hold on beyond it.
        """
        jobs, now = self._round.state.jobs, self._round.now
        found: dict[str, list[tuple[int, int]]] = {g.view.name: [] for g in self._grounds}
        again = now + self._round.policy.spot_lease_s
        for row, parts in self._pass.given.items():
            if row in due or jobs.views[row].exclusion(Capability.PREEMPT) is not None:
                continue
            for name, gpus in parts.items():
                found[name].append((again, gpus))
        for row in jobs.select(jobs.running).tolist():
            view = jobs.views[row]
            if row in self._pass.places or view.lease is None or view.lease.end_time <= now:
                continue
            if not gives_way(view, self._round.pools):
                continue
            for name, gpus in self._pass.parts_of(view).items():
                if name in found:
                    found[name].append((view.lease.end_time, gpus))
        return found

    def _time(self, ground: Ground, size: int) -> int | None:
        """When so many GPUs of a node could be free; None where no lease says so."""
        if ground.view.name in self._pass.kept:
            return None
        free = self._free(ground)
        for time, gpus in sorted(self._ends[ground.view.name]):
            if free >= size:
                break
            free += gpus
            if free >= size:
                return time
        return None

    @staticmethod
    def _earliest(times: Sequence[int | None], nodes: int) -> int:
        known = sorted(time for time in times if time is not None)
        return known[nodes - 1] if len(known) >= nodes else 0
