"""Which SiteFactors a decision changes, the most important first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gsched.daemon.job_book import CHANNEL, Seen
from gsched.daemon.site_factor import SiteFactorScale
from gsched.model.decision import LAST_ORDER_STANDS, Reason
from gsched.model.job import Capability, JobKey, JobState, JobView
from gsched.model.jobtable import BoolColumn, IntColumn
from gsched.model.journal import Change
from gsched.model.ranks import RankTable

_TAKES_BACK = frozenset(
    {
        "opted-out",
        "excluded-user",
        "excluded-account",
        "out-of-scope",
        "cron",
        "interactive",
        "het-component",
        "reservation",
    }
)
"""Exclusions that end gsched's say over a job: what it wrote is taken back. A job can come into a
reservation after it was moved, and scrontab's jobs are known only some time after they came."""

_LEFT_ALONE = frozenset({"foreign-site-factor", "manual-priority", "unsplit-array"})
"""Exclusions with which nothing is written, whatever others there are: an administrator's word
stands, and a write to a whole array would reach the tasks that were split off it, too. Of `held`,
which is in neither list, the value stands: the job goes on where it was once it is released."""
_CONTROL = "control"


@dataclass(frozen=True)
class Targets:
    """By ranked job: its row in the table, the SiteFactor it has, the one that it shall have.

    `movable` tells which may be written: sprio shows a value, and the job is no control. `lifted`
    are starving jobs that need more than their level gives: any difference is worth a write.
    """

    rows: IntColumn
    current: IntColumn
    target: IntColumn
    movable: BoolColumn
    lifted: BoolColumn


def targets(
    ranks: RankTable, jobs: Sequence[Seen], scale: SiteFactorScale, control: frozenset[str]
) -> Targets:
    """What the levels of `ranks` mean in points; `jobs` in the order of the ranks' table.

    No job is pushed below Slurm's lowest priority, at which all are alike.
    """
    chosen = [jobs[row] for row in ranks.rows.tolist()]
    shown = [seen.site_factor for seen in chosen]
    current = np.array([value or 0 for value in shown], dtype=np.int64)
    total = np.array([s.priority.total if s.priority else 0 for s in chosen], dtype=np.int64)
    floor = np.minimum(0, scale.floor(total - current))
    movable = np.array([value is not None for value in shown], dtype=np.bool_)
    if control:
        movable &= np.array([not is_control(seen.view, control) for seen in chosen], dtype=np.bool_)
    target = np.maximum(scale.values(ranks.level), floor)
    return Targets(ranks.rows, current, target, movable, np.zeros_like(movable))


def is_control(view: JobView, control: frozenset[str]) -> bool:
    """Whether the job can only run in control partitions: ranked, but never moved."""
    return bool(control) and control.issuperset(view.partitions)


def moves(
    found: Targets,
    jobs: Sequence[Seen],
    scale: SiteFactorScale,
    reasons: Mapping[JobKey, Reason],
    round_id: str,
    budget: int,
) -> tuple[list[Change], int]:
    """The writes that differ by enough, the widest first, `budget` at most; and how many more."""
    wide = scale.worth_writing(found.current, found.target)
    lifted = found.lifted & (found.current != found.target)
    worth = np.flatnonzero((wide | lifted) & found.movable)
    width = np.abs(found.target[worth] - found.current[worth])
    order = worth[np.argsort(-width, kind="stable")]
    changes = []
    for place in order[:budget].tolist():
        seen = jobs[int(found.rows[place])]
        changes.append(
            site_factor_change(
                round_id,
                seen.key,
                seen.row.submit_time,
                int(found.current[place]),
                int(found.target[place]),
                reasons[seen.key],
            )
        )
    return changes, max(0, len(order) - budget)


def take_backs(
    jobs: Sequence[Seen],
    control: frozenset[str],
    ranks: RankTable,
    reasons: Mapping[JobKey, Reason],
    round_id: str,
) -> list[Change]:
    """What stands on jobs that are not to be moved any more goes back to what was found.

    Those are jobs over which gsched has no say, and jobs of which the policy says that they have no
    rank: a reason without a rank. Of a job without a reason nothing is known in this round, and one
    whose reason ends with LAST_ORDER_STANDS cannot be told now: what stands on it stays.
    """
    changes = []
    is_ranked = np.zeros(len(jobs), dtype=np.bool_)
    is_ranked[ranks.rows] = True
    for seen, ranked in zip(jobs, is_ranked.tolist(), strict=True):
        ours = seen.ours
        if ours is None or (ranked and not control):
            continue
        value = seen.site_factor
        if value is None or value == ours.found:
            continue
        because = _no_say(seen, control)
        if not because and not ranked:
            because = _no_rank(seen, reasons)
        if because:
            changes.append(
                site_factor_change(
                    round_id,
                    seen.key,
                    seen.row.submit_time,
                    value,
                    ours.found,
                    Reason("clear", {"because": because}),
                    takes_back=True,
                )
            )
    return changes


def _no_say(seen: Seen, control: frozenset[str]) -> str:
    """Why a value of gsched's must go, '' when it may stay or is another hand's."""
    codes = {e.code for e in seen.view.exclusions if e.capability is Capability.REORDER}
    if codes & _LEFT_ALONE:
        return ""
    if codes & _TAKES_BACK:
        return min(codes & _TAKES_BACK)
    return _CONTROL if is_control(seen.view, control) else ""


def _no_rank(seen: Seen, reasons: Mapping[JobKey, Reason]) -> str:
    """Why a job that could be moved is not, '' where nobody says so."""
    if seen.view.state is not JobState.PENDING or seen.view.exclusion(Capability.REORDER):
        return ""
    reason = reasons.get(seen.key)
    return "" if reason is None or reason.code.endswith(LAST_ORDER_STANDS) else reason.code


def site_factor_change(
    round_id: str,
    key: JobKey,
    attempt: int,
    before: int | None,
    after: int,
    reason: Reason,
    *,
    takes_back: bool = False,
) -> Change:
    """A SiteFactor change with its idempotency key."""
    change_id = f"{round_id}/{key.slurm_id}/{CHANNEL}"
    return Change(change_id, key, attempt, CHANNEL, before, after, reason, takes_back)
