"""How often gsched turns jobs round against the points that Slurm gave them for QOS or fair-share.

An inversion is a pair of waiting jobs of a common partition: by Slurm's own sum the first comes
before the second, with gsched's SiteFactors after it, though its QOS (fair-share) points are the
higher ones. Of jobs with equal sums the one with the lower number comes first, as in Slurm. A job
in several partitions counts with its best sum, see ``parse_priority``. Pairs are counted one by
one, nothing is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gsched.daemon.job_book import Seen
from gsched.daemon.site_factor_plan import Targets
from gsched.model.job import JobState
from gsched.model.jobtable import IntColumn

COUNT_INTERVAL_S = 60.0
"""They are counted at most so often: ten thousand jobs make fifty million pairs."""

_PAIRS_AT_ONCE = 1_000_000


@dataclass(frozen=True, slots=True)
class Inversions:
    """Pairs turned round against QOS and against fair-share, of the `pairs` that were looked at."""

    qos: int
    fairshare: int
    pairs: int

    def document(self) -> dict[str, int]:
        """The counts by name."""
        return {"qos": self.qos, "fairshare": self.fairshare, "pairs": self.pairs}


@dataclass(frozen=True)
class Queue:
    """Waiting jobs by column: Slurm's own sum, the one with gsched's values, and the points.

    `number` is Slurm's raw id, `group` tells jobs with other partitions apart; `partitions` has
    those of each group.
    """

    number: IntColumn
    own: IntColumn
    ours: IntColumn
    qos: IntColumn
    fairshare: IntColumn
    group: IntColumn
    partitions: Sequence[frozenset[str]] = field(kw_only=True)

    def is_same_as(self, other: Queue | None) -> bool:
        """Whether jobs, their order and their points are the same, so that nothing is to count."""
        return (
            other is not None
            and self.partitions == other.partitions
            and all(
                np.array_equal(mine, theirs)
                for mine, theirs in (
                    (self.number, other.number),
                    (self.places(self.own), other.places(other.own)),
                    (self.places(self.ours), other.places(other.ours)),
                    (self.qos, other.qos),
                    (self.fairshare, other.fairshare),
                    (self.group, other.group),
                )
            )
        )

    def places(self, points: IntColumn) -> IntColumn:
        """Each job's place by these points, the highest first."""
        order = np.lexsort((self.number, -points))
        places = np.empty(len(order), dtype=np.int64)
        places[order] = np.arange(len(order))
        return places


def queue_of(jobs: Sequence[Seen], found: Targets) -> Queue:
    """The jobs that sprio lists, with what a plan means to write. Manual priorities do not count:
    no points make them.
    """
    target = dict(zip(found.rows[found.movable].tolist(), found.target[found.movable], strict=True))
    known: dict[frozenset[str], int] = {}
    lines = []
    for row, seen in enumerate(jobs):
        shown = seen.priority
        if shown is None or shown.is_manual or seen.view.state is not JobState.PENDING:
            continue
        bare = shown.total - shown.site_factor
        own = bare + (shown.site_factor if seen.ours is None else seen.ours.found)
        ours = bare + int(target.get(row, shown.site_factor))
        points = [shown.components.get(name, 0) for name in ("qos", "fairshare")]
        group = known.setdefault(frozenset(seen.row.partitions), len(known))
        lines.append((shown.raw_id, own, ours, *points, group))
    columns = np.array(lines, dtype=np.int64).reshape(-1, 6).T
    return Queue(*columns, partitions=list(known))


def count(queue: Queue, pairs_at_once: int = _PAIRS_AT_ONCE) -> Inversions:
    """All pairs, block by block: of each pair the job that Slurm has first is a row, the other a
    column.
    """
    own = queue.places(queue.own)
    by_own = np.argsort(own)
    ours = queue.places(queue.ours)
    qos = fairshare = pairs = 0
    for number, partitions in enumerate(queue.partitions):
        near = [n for n, p in enumerate(queue.partitions) if not partitions.isdisjoint(p)]
        columns = by_own[np.isin(queue.group[by_own], near)]
        rows = by_own[queue.group[by_own] == number]
        # the place of each row among its columns: those behind it make pairs with it
        first = np.searchsorted(own[columns], own[rows], side="right")
        pairs += int((len(columns) - first).sum())
        height = max(1, pairs_at_once // max(1, len(columns)))
        for begin in range(0, len(rows), height):
            a = rows[begin : begin + height, np.newaxis]
            b = columns[first[begin] :]
            turned = (own[a] < own[b]) & (ours[a] > ours[b])
            qos += int(np.count_nonzero(turned & (queue.qos[a] > queue.qos[b])))
            fairshare += int(np.count_nonzero(turned & (queue.fairshare[a] > queue.fairshare[b])))
    return Inversions(qos, fairshare, pairs)


class InversionWatch:
    """Counts again when the order has changed, and not more often than every COUNT_INTERVAL_S."""

    def __init__(self) -> None:
        self._planned: tuple[Sequence[Seen], Targets] | None = None
        self._queue: Queue | None = None
        self._counted: Inversions | None = None
        self._counted_at = 0.0

    def ranked(self, jobs: Sequence[Seen], found: Targets) -> None:
        """What the last plan means to have."""
        self._planned = (jobs, found)

    def count(self, at: float) -> Inversions | None:
        """The count that holds at the monotonic time `at`; None before the first plan."""
        is_due = self._counted is None or at - self._counted_at >= COUNT_INTERVAL_S
        if self._planned is not None and is_due:
            queue = queue_of(*self._planned)
            if self._counted is None or not queue.is_same_as(self._queue):
                self._counted = count(queue)
            self._queue, self._counted_at = queue, at
        return self._counted
