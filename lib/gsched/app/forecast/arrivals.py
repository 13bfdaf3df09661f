"""The jobs that came in the last days: from like ones a forecast draws those that will come."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from gsched.app.forecast.ground import Ground
from gsched.app.forecast.messages import Arrivals
from gsched.app.forecast.order import QueueOrder
from gsched.app.forecast.situation import LEVELS, limit_of, quantiles_of
from gsched.config.settings import PredictSettings
from gsched.forecast.situation import PastArrival
from gsched.model.history import PastJob
from gsched.model.job import CountRange, GpuRange, JobView, Request, finite_limit_s
from gsched.model.times import DAY_S

ARRIVALS_S = 14 * DAY_S
"""Arrivals of so long are drawn from, or of as long as the history reaches, but a day at least:
what came within a minute may be all that came that day.
"""
MOST_ARRIVALS = 20_000
"""Of more, the older whole days are left out."""
HORIZON_S = 7.0 * DAY_S
LEAST_HORIZON_S = 6 * 3600.0
MOST_TO_COME = 50_000
"""Jobs to come are drawn for HORIZON_S, or until there are so many, but for LEAST_HORIZON_S."""


def arrivals_of(
    past: Sequence[PastJob],
    present: Sequence[JobView],
    ground: Ground,
    order: QueueOrder,
    settings: PredictSettings,
    as_of: int,
) -> Arrivals:
    """What was submitted before `as_of`: jobs that have ended, and those of the queue.

    Jobs for which the ground has no nodes (any more) are left out. What an ended job really took
    stands for what would have been predicted of it.
    """
    since = float(as_of - ARRIVALS_S)
    found = [*_ended(past, ground, order), *_present(present, ground, order, settings)]
    found = [job for job in found if since <= job.submitted_at <= as_of]
    if not found:
        return Arrivals(since, ())
    since = max(since, min(as_of - DAY_S, *(job.submitted_at for job in found)))
    while len(found) > MOST_ARRIVALS and as_of - since > DAY_S:
        since = as_of - DAY_S * (math.ceil((as_of - since) / DAY_S) - 1)
        found = [job for job in found if job.submitted_at >= since]
    found.sort(key=lambda job: job.submitted_at)
    return Arrivals(since, tuple(found))


def horizon_of(arrivals: Arrivals, as_of: int) -> float:
    """For how long jobs to come are drawn (seconds)."""
    if not arrivals.jobs:
        return HORIZON_S
    each_s = (as_of - arrivals.since) / len(arrivals.jobs)
    return max(LEAST_HORIZON_S, min(HORIZON_S, MOST_TO_COME * each_s))


def _ended(past: Sequence[PastJob], ground: Ground, order: QueueOrder) -> Iterator[PastArrival]:
    for job in past:
        num_nodes, num_cpus = job.num_nodes or 1, job.num_cpus or 0
        request = Request(
            CountRange(num_nodes, num_nodes), GpuRange(job.num_gpus, job.num_gpus), num_cpus
        )
        limit_s = finite_limit_s(job.time_limit_s) or None
        asked = ground.asked(request, tuple(job.partition.split(",")), limit_s)
        if asked.problem:
            continue
        duration_s = float(max(1, job.duration_s))
        yield PastArrival(
            float(job.submit_time),
            asked.demands,
            order.of(job.num_gpus, num_cpus, duration_s),
            None if limit_s is None else float(limit_s),
            (duration_s,) * len(LEVELS),
        )


def _present(
    present: Sequence[JobView], ground: Ground, order: QueueOrder, settings: PredictSettings
) -> Iterator[PastArrival]:
    for view in present:
        limit_s = limit_of(view)
        asked = ground.asked(view.request, view.partitions, limit_s)
        if asked.problem:
            continue
        quantiles_s = quantiles_of(view, limit_s, settings)
        typical_s = quantiles_s[len(quantiles_s) // 2]
        size = view.request.gpus.minimum, view.request.num_cpus
        yield PastArrival(
            float(view.first_submit), asked.demands, order.of(*size, typical_s), limit_s,
            quantiles_s,
        )  # fmt: skip
