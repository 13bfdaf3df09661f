"""How far a starving job is lifted: above the sum of every job that it stands in line with.

A level alone moves a job within the range, which other factors of Slurm's sum may outweigh: job
size, fair-share, QOS. The bound on waiting is kept in the sum itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from gsched.daemon.job_book import Seen, is_foreign
from gsched.daemon.site_factor import SiteFactorScale
from gsched.daemon.site_factor_plan import Targets
from gsched.engine.starvation import POLICY_TOP, STARVING
from gsched.model.decision import Reason
from gsched.model.job import JobKey, JobState
from gsched.model.jobtable import BoolColumn, IntColumn
from gsched.model.journal import Change
from gsched.model.ranks import RankTable, ReasonTable
from gsched.slurm.records import PriorityRow


def lift(
    found: Targets,
    ranks: RankTable,
    reasons: Mapping[JobKey, Reason],
    jobs: Sequence[Seen],
    back: Sequence[Change],
    scale: SiteFactorScale,
) -> tuple[Targets, tuple[JobKey, ...]]:
    """`found` with the starving jobs above all others, and those for which the range is too short.

    A starving job comes above every waiting job of a common partition that does not starve, by
    the sums that Slurm will have after `found` and `back`, and above those that have waited less,
    as far as ``scale.highest`` reaches. What it has stands while that is enough. A job in several
    partitions counts with its best sum. Manual priorities are not compared, and what another hand
    has set counts up to where a policy can come: an operator's word goes before the bound.
    """
    starving = starving_places(ranks, reasons)
    if not starving.any():
        return found, ()
    rest = highest_sums(found, ranks, jobs, back, starving, scale)
    less: dict[str, int] = {}  # by partition: the highest sum of those that have waited less
    target, is_lifted = found.target.copy(), found.lifted.copy()
    too_short = []
    for place in _least_waiter_first(ranks, starving):
        seen = jobs[int(found.rows[place])]
        shown = compared(seen)
        if shown is None:
            continue
        partitions = seen.row.partitions
        bare = shown.total - shown.site_factor
        needed = max(rest.get(p, 0) for p in partitions) + 1 - bare
        in_turn = max(less.get(p, 0) for p in partitions) + 1 - bare
        value = int(found.current[place])
        if found.movable[place]:
            wanted = int(found.target[place])
            value = lifted_value(value, wanted, needed, in_turn, scale)
            target[place], is_lifted[place] = value, value > wanted
            if value < needed:
                too_short.append(seen.key)
        for p in partitions:
            less[p] = max(less.get(p, 0), bare + value)
    return replace(found, target=target, lifted=is_lifted), tuple(too_short)


def lifted_value(
    current: int, wanted: int, needed: int, in_turn: int, scale: SiteFactorScale
) -> int:
    """The SiteFactor of one job: at least `wanted` (of its level), `needed` and `in_turn`.

    Written anew, it gets a margin, so that others whose age still grows do not cause a write each
    round.
    """
    is_enough = current >= max(needed, in_turn) and current > wanted - scale.dead_band
    if is_enough and current <= scale.highest:
        return current
    margin = max(scale.quantum, scale.dead_band)
    steps = max(wanted, scale.up(needed + margin), scale.up(in_turn))
    return min(steps, scale.highest)


def starving_places(ranks: RankTable, reasons: Mapping[JobKey, Reason]) -> BoolColumn:
    """Which ranks the bound has given: by their reason and a level that no policy reaches."""
    high = ranks.level > POLICY_TOP
    if not high.any():
        return high
    named = np.zeros(len(ranks.jobs), dtype=np.bool_)
    for group in ReasonTable.of(reasons, ranks.jobs).groups:
        named[group.rows] = group.code == STARVING
    return high & named[ranks.rows]


def _least_waiter_first(ranks: RankTable, starving: BoolColumn) -> list[int]:
    """Their places among `ranks`; the key of such a rank is since when the job waits."""
    places = np.flatnonzero(starving)
    order = np.lexsort((ranks.jobs.tie[ranks.rows[places]], ranks.key[places]))
    return [int(place) for place in places[order[::-1]]]


def highest_sums(
    found: Targets,
    ranks: RankTable,
    jobs: Sequence[Seen],
    back: Sequence[Change],
    starving: BoolColumn,
    scale: SiteFactorScale,
) -> dict[str, int]:
    """By partition: the highest sum of a job that is not among the places `starving`, after this
    round's writes.
    """
    after: IntColumn = np.array([seen.site_factor or 0 for seen in jobs], dtype=np.int64)
    written = scale.worth_writing(found.current, found.target) & found.movable
    after[found.rows[written]] = found.target[written]
    for change in back:
        after[ranks.jobs.row(change.key)] = change.after
    top = int(scale.values(np.array([POLICY_TOP]))[0])
    starves = set(found.rows[starving].tolist())
    highest: dict[str, int] = {}
    for row, (seen, value) in enumerate(zip(jobs, after.tolist(), strict=True)):
        shown = compared(seen)
        if shown is None or row in starves:
            continue
        counted = (
            min(value, top) if is_foreign(shown.site_factor, seen.ours, seen.earlier) else value
        )
        total = shown.total - shown.site_factor + counted
        for p in seen.row.partitions:
            highest[p] = max(highest.get(p, 0), total)
    return highest


def compared(seen: Seen) -> PriorityRow | None:
    """The line of sprio of a job that waits in Slurm's order by the sum of its factors."""
    shown = seen.priority
    if shown is None or shown.is_manual or seen.view.state is not JobState.PENDING:
        return None
    return shown
