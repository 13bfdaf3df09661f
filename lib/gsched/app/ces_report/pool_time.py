"""How many nodes of a pool were in which state, as steps in time with gaps where nobody looked.

A count holds until the next one. Where the next one is later than MAX_GAP_S, as when the daemon was
away, nothing is known of the time between; after the last count, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from gsched.model.node_power import MAX_GAP_S, PoolCount

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

STATES = tuple(f.name for f in fields(PoolCount) if f.name not in ("pool", "time"))
"""Names of the numbers in a count."""


class KnownTime:
    """Stretches of time that are known, in order and apart (they may touch)."""

    def __init__(self, begin: Ints, end: Ints) -> None:
        self.begin = begin
        self.end = end
        self._before = np.append(0, np.cumsum(end - begin))

    @property
    def length_s(self) -> int:
        """Seconds in all stretches together."""
        return int(self._before[-1])

    def within(self, begin: Ints, end: Ints) -> Ints:
        """How many seconds of each time from `begin` to `end` are known."""
        return self._until(np.maximum(begin, end)) - self._until(begin)

    def holds(self, moments: Ints) -> NDArray[np.bool_]:
        """Of each moment whether it is known."""
        place = np.searchsorted(self.begin, moments, side="right") - 1
        if not len(self.end):
            return np.zeros(len(moments), dtype=np.bool_)
        return (place >= 0) & (moments < self.end[place])

    def _until(self, moments: Ints) -> Ints:
        if not len(self.begin):
            return np.zeros(len(moments), dtype=np.int64)
        place = np.searchsorted(self.begin, moments, side="right") - 1
        inside = np.minimum(moments, self.end[place]) - self.begin[place]
        return np.where(place < 0, 0, self._before[place] + inside)

    @classmethod
    def union(cls, parts: Iterable[KnownTime]) -> KnownTime:
        """What any of them knows."""
        stretches = sorted(
            pair
            for part in parts
            for pair in zip(part.begin.tolist(), part.end.tolist(), strict=True)
        )
        begin: list[int] = []
        end: list[int] = []
        for first, last in stretches:
            if end and first <= end[-1]:
                end[-1] = max(end[-1], last)
            else:
                begin.append(first)
                end.append(last)
        return cls(np.array(begin, dtype=np.int64), np.array(end, dtype=np.int64))


@dataclass(frozen=True)
class PoolTime:
    """The known time of one pool, with the number of nodes by state in each stretch."""

    pool: str
    known: KnownTime
    nodes: Mapping[str, Ints]

    @classmethod
    def of(cls, pool: str, counts: Sequence[PoolCount], since: int, until: int) -> PoolTime:
        """From the counts of one pool by time, those just before and after the window too."""
        time = np.array([count.time for count in counts], dtype=np.int64)
        begin, end = np.maximum(time[:-1], since), np.minimum(time[1:], until)
        holds = (np.diff(time) <= MAX_GAP_S) & (end > begin)
        nodes = {
            state: np.array([getattr(c, state) for c in counts[:-1]], dtype=np.int64)[holds]
            for state in STATES
        }
        return cls(pool, KnownTime(begin[holds], end[holds]), nodes)

    @property
    def total(self) -> Ints:
        """All nodes that were not excluded."""
        return sum(
            (self.nodes[state] for state in ("running", "idle", "falling", "asleep", "waking")),
            np.zeros(len(self.known.begin), dtype=np.int64),
        )

    def node_s(self, nodes: Ints) -> int:
        """Seconds of nodes in the known time."""
        return int((nodes * (self.known.end - self.known.begin)).sum())

    def node_s_by(self, nodes: Ints, edges: Ints) -> Floats:
        """The same for each time between two `edges`."""
        if not len(nodes):
            return np.zeros(len(edges) - 1)
        before = np.append(0, np.cumsum(nodes * (self.known.end - self.known.begin)))
        place = np.searchsorted(self.known.begin, edges, side="right") - 1
        inside = np.minimum(edges, self.known.end[place]) - self.known.begin[place]
        until = np.where(place < 0, 0, before[place] + nodes[place] * inside)
        return np.diff(until).astype(np.float64)


def pool_times(counts: Iterable[PoolCount], since: int, until: int) -> list[PoolTime]:
    """Each pool by name, from counts in any order."""
    by_pool: dict[str, dict[int, PoolCount]] = {}
    for count in counts:
        by_pool.setdefault(count.pool, {})[count.time] = count
    return [
        PoolTime.of(pool, [found[time] for time in sorted(found)], since, until)
        for pool, found in sorted(by_pool.items())
    ]
