"""Means over the known time of pools: nodes by state, and how well they were used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsched.app.ces_report.pool_time import STATES, Floats, Ints, KnownTime, PoolTime

_STEPS_S = (60, 300, 600, 1200, 1800, 3600, 7200, 10_800, 21_600, 86_400, 604_800)
_MOST_STEPS = 240
LEAST_KNOWN = 0.5
"""Of a step of the course so large a part is known, or it has no value."""


@dataclass(frozen=True)
class PoolFigures:
    """One pool over its known time, or all pools over the time in which any was looked at.

    `mean` has the nodes by state, `total` those that were not excluded. `utilisation` is the time
    of running nodes over that of all nodes, as it would be if none slept, `awake_utilisation` over
    that of nodes not asleep. None: not known.
    """

    pool: str
    known_s: int
    mean: Mapping[str, float | None]
    most_asleep: int | None
    asleep_node_hours: float
    utilisation: float | None
    awake_utilisation: float | None

    @classmethod
    def of(cls, name: str, times: Sequence[PoolTime], known: KnownTime) -> PoolFigures:
        """Of the pools together; `known` is the time that the means are of."""
        node_s = {s: sum(time.node_s(time.nodes[s]) for time in times) for s in STATES}
        total_s = sum(time.node_s(time.total) for time in times)
        asleep = _together(times, "asleep")
        return cls(
            pool=name,
            known_s=known.length_s,
            mean={
                state: _share(number, known.length_s)
                for state, number in (("total", total_s), *node_s.items())
            },
            most_asleep=int(asleep.max()) if len(asleep) else None,
            asleep_node_hours=node_s["asleep"] / 3600,
            utilisation=_share(node_s["running"], total_s),
            awake_utilisation=_share(node_s["running"], total_s - node_s["asleep"]),
        )

    def document(self) -> dict[str, Any]:
        """With units in the names."""
        return {
            "pool": self.pool,
            "known_s": self.known_s,
            **{f"{state}_nodes": mean for state, mean in self.mean.items()},
            "most_asleep_nodes": self.most_asleep,
            "asleep_node_hours": self.asleep_node_hours,
            "utilisation_share": self.utilisation,
            "awake_utilisation_share": self.awake_utilisation,
        }


@dataclass(frozen=True)
class Course:
    """Mean nodes in steps from `begin` on; NaN where less than half of a step is known."""

    begin: int
    step_s: int
    running: Floats
    awake: Floats
    total: Floats

    @classmethod
    def of(cls, times: Sequence[PoolTime], known: KnownTime, since: int, until: int) -> Course:
        """Of the pools together; steps are as short as their number allows."""
        length_s = max(until - since, 1)
        step_s = next((s for s in _STEPS_S if length_s <= s * _MOST_STEPS), _STEPS_S[-1])
        begin = since - since % step_s
        edges = np.arange(begin, until + step_s, step_s, dtype=np.int64)
        seen_s = known.within(edges[:-1], edges[1:]).astype(np.float64)
        seen_s[seen_s < LEAST_KNOWN * step_s] = np.nan

        def mean(columns: list[Ints]) -> Floats:
            pairs = zip(times, columns, strict=True)
            sums = [time.node_s_by(nodes, edges) for time, nodes in pairs]
            return np.sum(sums, axis=0, initial=0.0) / seen_s if sums else seen_s * np.nan

        total = mean([time.total for time in times])
        asleep = mean([time.nodes["asleep"] for time in times])
        running = mean([time.nodes["running"] for time in times])
        return cls(begin, step_s, running, total - asleep, total)

    @property
    def time(self) -> Ints:
        """The beginning of each step."""
        return self.begin + self.step_s * np.arange(len(self.total), dtype=np.int64)

    def document(self) -> dict[str, Any]:
        """Lists of a number for each step, null where it is not known."""
        columns = {"running": self.running, "awake": self.awake, "total": self.total}
        return {
            "begin": self.begin,
            "step_s": self.step_s,
            **{
                f"{name}_nodes": [None if np.isnan(v) else round(float(v), 3) for v in column]
                for name, column in columns.items()
            },
        }


def _together(times: Sequence[PoolTime], state: str) -> Ints:
    """Nodes of all pools in a state, at every moment at which it may have changed."""
    if not times:
        return np.array([], dtype=np.int64)
    moments = np.unique(np.concatenate([time.known.begin for time in times]))
    sums = np.zeros(len(moments), dtype=np.int64)
    for time in times:
        if len(time.known.begin):
            place = np.searchsorted(time.known.begin, moments, side="right") - 1
            sums += np.where(time.known.holds(moments), time.nodes[state][place], 0)
    return sums


def _share(part: float, of: float) -> float | None:
    return part / of if of else None
