"""Two simulations of the same jobs, over the jobs that ended in both.

Where jobs are given up after failures, or never start, other jobs end under one policy than under
another. Means over what each has ended would then be of different jobs, and those that were given
up are the long ones: who gives up more would look better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gsched.sim.classes import everything
from gsched.sim.daily import DailyMetrics
from gsched.sim.metrics import Metrics
from gsched.sim.spread import SortedColumn, Spread


def paired(run: Metrics, base: Metrics) -> tuple[Metrics, Metrics]:
    """Both, with the figures of jobs over those that ended in both; of the cluster as they were.

    ValueError where they are not of the same jobs.
    """
    both = ended_in_both(run, base)
    return _among(run, both), _among(base, both)


def ended_in_both(run: Metrics, base: Metrics) -> NDArray[np.bool_]:
    """By row of the jobs. ValueError where the two are not of the same jobs."""
    if not np.array_equal(run.jobs.submit_s, base.jobs.submit_s):
        raise ValueError("two simulations of other jobs cannot be compared")
    both: NDArray[np.bool_] = _ended(run) & _ended(base)
    return both


def same_ended(runs: Sequence[Metrics], baseline: Sequence[Metrics]) -> bool:
    """Whether run by run the same jobs have ended."""
    return all(
        np.array_equal(_ended(run), _ended(base)) for run, base in zip(runs, baseline, strict=True)
    )


def _ended(run: Metrics) -> NDArray[np.bool_]:
    return ~np.isnan(run.figures.jct_s)


def _among(run: Metrics, which: NDArray[np.bool_]) -> Metrics:
    number = int(which.sum())
    if number == run.all_jobs.finished == run.all_jobs.started:
        return run
    figures = run.figures.among(which)
    told = replace(
        run.all_jobs,
        jct_s=_spread(run, figures.jct_s),
        queueing_s=_spread(run, figures.queueing_s),
        waiting_s=_spread(run, figures.waiting_s),
        bounded_slowdown=_spread(run, figures.bounded_slowdown),
        finish_time_ratio=_spread(run, figures.finish_time_ratio),
        unfair_share=_share(figures.is_unfair, number),
        sharing_loss_share=_share(figures.has_loss, number),
    )
    daily = DailyMetrics(run.jobs, figures)
    return replace(run, all_jobs=told, daily=daily, figures=figures)


def _spread(run: Metrics, column: NDArray[np.float64]) -> Spread:
    return SortedColumn(column).spreads(everything(run.jobs))[0]


def _share(which: NDArray[np.bool_], number: int) -> float | None:
    return int(which.sum()) / number if number else None
