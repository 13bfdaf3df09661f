"""Whom GPUs are being freed for stands in front: by the sum that Slurm goes by, not by rank alone.

Slurm gives free GPUs to the waiting job with the highest sum. A rank moves a job within the range,
which fair-share, age or QOS may outweigh: then another job would have what was taken for this one.
So would a job of another partition over the same nodes, where it comes first, see ``gpu_lines``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from gsched.daemon.ces_wanted import READY
from gsched.daemon.gpu_lines import GpuLines, highest
from gsched.daemon.job_book import Seen
from gsched.daemon.site_factor import SiteFactorScale
from gsched.daemon.site_factor_lift import compared, highest_sums, lifted_value
from gsched.daemon.site_factor_plan import Targets
from gsched.model.decision import Reason
from gsched.model.job import JobKey
from gsched.model.jobtable import BoolColumn
from gsched.model.journal import Change
from gsched.model.ranks import RankTable


def to_front(
    found: Targets,
    ranks: RankTable,
    jobs: Sequence[Seen],
    back: Sequence[Change],
    starving: BoolColumn,
    whom: Collection[JobKey],
    scale: SiteFactorScale,
    lines: GpuLines,
) -> tuple[Targets, tuple[JobKey, ...]]:
    """`found` with the ranked ones of `whom` above every waiting job that may get the same GPUs by
    its sum and does not starve, as far as ``scale.highest`` reaches; and who had to be moved for
    that.

    What a job has stands while that is enough.
    """
    chosen = np.array([jobs[row].key in whom for row in found.rows.tolist()], dtype=np.bool_)
    if not chosen.any():
        return found, ()
    rest = highest_sums(found, ranks, jobs, back, chosen | starving, scale)
    target, is_lifted, moved = found.target.copy(), found.lifted.copy(), []
    for place in np.flatnonzero(chosen & found.movable).tolist():
        seen = jobs[int(found.rows[place])]
        shown = compared(seen)
        if shown is None:
            continue
        bare = shown.total - shown.site_factor
        needed = highest(rest, lines.rivals(seen.row.partitions).equal) + 1 - bare
        wanted = int(found.target[place])
        value = lifted_value(int(found.current[place]), wanted, needed, 0, scale)
        if value > wanted:
            target[place], is_lifted[place] = value, True
            moved.append(seen.key)
    return replace(found, target=target, lifted=is_lifted), tuple(moved)


def behind(
    jobs: Sequence[Seen], changes: Sequence[Change], whom: Collection[JobKey], lines: GpuLines
) -> frozenset[JobKey]:
    """Those of `whom` before whom Slurm would, after `changes`, still start another waiting job
    that may get the same GPUs.
    """
    if not whom:
        return frozenset()
    after = {change.key: change.after for change in changes}
    sums: dict[JobKey, int] = {}
    rest: dict[str, int] = {}
    ready: set[str] = set()  # partitions in which another job waits for GPUs and nothing else
    for seen in jobs:
        shown = compared(seen)
        if shown is None:
            continue
        value = after.get(seen.key, shown.site_factor)
        total = shown.total - shown.site_factor + value
        if seen.key in whom:
            sums[seen.key] = total
            continue
        for p in seen.row.partitions:
            rest[p] = max(rest.get(p, 0), total)
        if seen.row.reason in READY and seen.row.num_gpus:
            ready.update(seen.row.partitions)
    found = []
    for seen in jobs:
        if seen.key in whom:
            rivals = lines.rivals(seen.row.partitions)
            is_first = sums.get(seen.key, 0) > highest(rest, rivals.equal)
            if not is_first or not ready.isdisjoint(rivals.above):
                found.append(seen.key)
    return frozenset(found)


def told_in_front(reason: Reason) -> Reason:
    """The reason of a job that was moved so."""
    return replace(reason, params={**reason.params, "in_front": True})
