"""What gsched changed so far, against a control: the report of `gsched daemon report`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from gsched.app.impact_arms import (
    ACTING_MODES,
    OBSERVING_MODES,
    Arm,
    Assigned,
    FloatColumn,
    Jobs,
    Side,
    assign,
    intervals,
)
from gsched.app.impact_bounds import Bounds, bounds_of, waited_so_far
from gsched.app.impact_statistics import (
    Difference,
    compare,
    days_of,
)
from gsched.app.wiring import cluster_of, open_history
from gsched.config.settings import Settings
from gsched.engine.starvation import STARVING
from gsched.errors import UsageError
from gsched.model.impact import JournalSums, MovedJob
from gsched.model.journal import DaemonSpan
from gsched.model.times import DAY_S
from gsched.resampling import CONFIDENCE, MIN_DAYS, RESAMPLES, SEED

Control = Literal["time", "partitions"]

MOST_MOVERS = 10
"""So many users, and accounts, are told."""


@dataclass(frozen=True, slots=True)
class ReportQuery:
    """What to compare: the time (epoch seconds, None = all), the control (None = as configured).

    A job that waited for more than `long_wait_s` waited long.
    """

    since: int | None
    until: int | None
    control: Control | None
    long_wait_s: int


@dataclass(frozen=True)
class ImpactReport:
    """The answer: the arms and their differences, and what was done in the whole time.

    `as_of` (epoch) is when the daemon last looked: jobs that wait had waited until then.
    """

    cluster: str
    query: ReportQuery
    control: Control
    spans: Sequence[DaemonSpan]
    assigned: Assigned
    differences: Mapping[str, Difference]
    bounds: Bounds
    as_of: int
    sums: JournalSums

    @property
    def days(self) -> list[int]:
        """Days with jobs that count, by arm."""
        return [len(days_of(arm.counted)) for arm in self.assigned.arms]

    @property
    def verdict(self) -> str:
        """What can be said of the mean time in the queue, for programs.

        ``never-acted``, ``no-control`` and ``too-few-days`` mean that nothing can be said;
        ``not-shown`` that the interval holds 0; ``unknown`` that it does not, but that jobs which
        still wait or of which times are lacking could turn it round; else ``shorter`` or
        ``longer``.
        """
        difference = self.differences["queueing_mean_s"]
        modes = {span.mode for span in self.spans}
        if modes.isdisjoint(ACTING_MODES):
            return "never-acted"
        if self.control == "time" and modes.isdisjoint(OBSERVING_MODES):
            return "no-control"
        if min(self.days) < MIN_DAYS or difference.value is None or difference.low is None:
            return "too-few-days"
        if not difference.is_shown:
            return "not-shown"
        verdict = "shorter" if difference.value < 0 else "longer"
        return verdict if self.bounds.allow(verdict) else "unknown"

    def document(self) -> dict[str, Any]:
        """The report as JSON: times epoch seconds, durations seconds, null = not known."""
        return {
            "cluster": self.cluster,
            "since": self.query.since,
            "until": self.query.until,
            "control": self.control,
            "verdict": self.verdict,
            "arms": [
                _arm_document(arm, days, self.as_of)
                for arm, days in zip(self.assigned.arms, self.days, strict=True)
            ],
            "left_out": self.assigned.left_out,
            "differences": [
                {"metric": metric, **_told(told)} for metric, told in self.differences.items()
            ],
            "bounds": [
                {"case": "acting-worst", **_told(self.bounds.acting_worst)},
                {"case": "control-worst", **_told(self.bounds.control_worst)},
            ],
            "as_of": self.as_of,
            "long_wait_s": self.query.long_wait_s,
            "confidence": CONFIDENCE,
            "min_days": MIN_DAYS,
            "resamples": RESAMPLES,
            "seed": SEED,
            "modes": mode_times(self.spans, self.query),
            "changes": dict(self.sums.changes),
            "taken_back": self.sums.taken_back,
            "moved": movement(self.sums.written),
            "would_move": movement(self.sums.observed),
            "inversions": inversion_sums(self.sums.inversions),
            "starving_jobs": self.sums.jobs_by_reason.get(STARVING, 0),
            "requests": self.sums.requests,
            "jobs_with_requests": self.sums.jobs_with_requests,
        }


def impact_report(settings: Settings, query: ReportQuery) -> ImpactReport:
    """Read the history and compare. Raises UsageError for a control that is not configured."""
    daemon = settings.daemon
    control = query.control or ("partitions" if daemon.control_partitions else "time")
    if control == "partitions" and not daemon.control_partitions:
        raise UsageError(
            "no partitions are a control",
            "name some in [daemon] control_partitions, or compare by --control time",
        )
    with open_history(settings) as history:
        cluster = cluster_of(settings, history)
        known = history.spans(cluster).between(query.since, None)
        spans = [s for s in known if query.until is None or s.begin_time < query.until]
        jobs = Jobs.of(history.job_waits(cluster, _begin(spans, query), query.until))
        sums = history.journal_sums(cluster, query.since, query.until)
    assigned = assign(jobs, _sides(control, settings, spans, query))
    acting, other = (arm.counted for arm in assigned.arms)
    same_days = control == "partitions"
    differences = compare(acting, other, query.long_wait_s, same_days=same_days)
    as_of = known[-1].end_time if known else 0
    bounds = bounds_of(assigned.arms, as_of, same_days=same_days)
    return ImpactReport(cluster, query, control, spans, assigned, differences, bounds, as_of, sums)


def _begin(spans: Sequence[DaemonSpan], query: ReportQuery) -> int | None:
    """Jobs from before the daemon's first round are in no arm: they are not read."""
    if query.since is not None or not spans:
        return query.since
    return spans[0].begin_time


def _sides(
    control: Control, settings: Settings, spans: Sequence[DaemonSpan], query: ReportQuery
) -> tuple[Side, Side]:
    acting = intervals(spans, ACTING_MODES, query.since, query.until)
    scope = frozenset(settings.daemon.partitions)
    held_back = frozenset(settings.daemon.control_partitions)
    moved, outside = (scope - held_back, False) if scope else (held_back, True)
    of_gsched = Side("acting", acting, moved, outside)
    if control == "partitions":
        return of_gsched, Side("control", acting, held_back, outside=False)
    observing = intervals(spans, OBSERVING_MODES, query.since, query.until)
    return of_gsched, Side("control", observing, moved, outside)


def _arm_document(arm: Arm, days: int, as_of: int) -> dict[str, Any]:
    counted, came = arm.counted, arm.submitted
    return {
        "arm": arm.name,
        "days": days,
        "length_s": arm.length_s,
        "jobs": len(counted),
        "gpu_jobs": int((counted.num_gpus > 0).sum()),
        "ended_jobs": int((~np.isnan(counted.end_time)).sum()),
        "gpu_time_s": _sum(counted.gpu_time_s),
        "crossing_jobs": len(arm.crossing),
        "crossing_queueing_mean_s": _mean(arm.crossing.queueing_s),
        "waiting_jobs": len(arm.waiting),
        "waiting_mean_s": _mean(waited_so_far(arm.waiting, as_of)),
        "never_started_jobs": len(arm.given_up),
        "no_times_jobs": len(arm.untold),
        "submitted_jobs": len(came),
        "submitted_jobs_a_day": a_day(len(came), arm),
        "submitted_gpu_time_s_a_day": a_day(_sum(came.gpu_time_s), arm),
    }


def a_day(number: float, arm: Arm) -> float | None:
    """A count of an arm's whole time for each of its days; None for an arm without time."""
    return number * DAY_S / arm.length_s if arm.length_s else None


def _sum(values: Any) -> float:
    return float(np.nansum(values))


def _mean(values: FloatColumn) -> float | None:
    return float(values.mean()) if len(values) else None


def _told(told: Difference) -> dict[str, Any]:
    return {
        "acting": told.acting,
        "control": told.control,
        "difference": told.value,
        "low": told.low,
        "high": told.high,
    }


def mode_times(spans: Sequence[DaemonSpan], query: ReportQuery) -> dict[str, dict[str, int]]:
    """By mode how long the daemon ran in it within the query's time; rounds and writes of all
    spans that lie in it in part."""
    found: dict[str, dict[str, int]] = {}
    for span in spans:
        begin = max(span.begin_time, query.since or span.begin_time)
        end = min(span.end_time, query.until or span.end_time)
        so_far = found.setdefault(span.mode, {"length_s": 0, "rounds": 0, "writes": 0})
        so_far["length_s"] += max(0, end - begin)
        so_far["rounds"] += span.rounds
        so_far["writes"] += span.writes
    return found


def movement(moved: Sequence[MovedJob]) -> dict[str, Any]:
    """Jobs that a value of gsched moves up and down, and whose they are, the most first."""
    return {
        "up": sum(job.points > 0 for job in moved),
        "down": sum(job.points < 0 for job in moved),
        "users": _movers(moved, lambda job: job.user),
        "accounts": _movers(moved, lambda job: job.tenant),
    }


def _movers(moved: Sequence[MovedJob], name: Callable[[MovedJob], str]) -> list[dict[str, Any]]:
    up = Counter(name(job) for job in moved if job.points > 0)
    down = Counter(name(job) for job in moved if job.points < 0)
    points: Counter[str] = Counter()
    for job in moved:
        points[name(job)] += job.points
    most = sorted(up.keys() | down.keys(), key=lambda whose: (-up[whose] - down[whose], whose))
    return [
        {
            "name": whose,
            "up": up[whose],
            "down": down[whose],
            "mean_points": points[whose] / (up[whose] + down[whose]),
        }
        for whose in most[:MOST_MOVERS]
    ]


def inversion_sums(counted: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    """Of the counts of pairs that rounds have made: how many, the last one, and the greatest share
    against QOS, or against fair-share.
    """
    if not counted:
        return {"counts": 0, "last": None, "greatest_share": None}
    shares = [
        max(one.get("qos", 0), one.get("fairshare", 0)) / one["pairs"]  # a pair may be both
        for one in counted
        if one.get("pairs")
    ]
    return {
        "counts": len(counted),
        "last": dict(counted[-1]),
        "greatest_share": max(shares, default=None),
    }
