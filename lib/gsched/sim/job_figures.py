"""Figures of each job of a simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gsched.policy.registry import SiteFacts
from gsched.sim.deadlines import missed_deadlines
from gsched.sim.finish_time import finish_time_ratio, shares_received
from gsched.sim.held import held_s
from gsched.sim.jobs import Floats
from gsched.sim.occupancy import horizon_s
from gsched.sim.result import SimResult

BOUND_S = 10.0
"""The slowdown of jobs that run for less is JCT over this."""
LOSS_BELOW = 0.95
"""A job that received a smaller share has a sharing loss: the bound of Astraea's evaluation."""
UNFAIR_ABOVE = 1.0 + 1e-6
"""A finish-time ratio above 1, by more than rounding."""


@dataclass(frozen=True, eq=False)
class JobFigures:
    """By row of the jobs; NaN where a job has not come to that.

    JCT is end − submit; queueing first start − submit; waiting is queueing and all the time from
    then to the end in which the job held no GPUs; bounded slowdown JCT over run time (over BOUND_S
    where that is more), at least 1.
    `finish_time_ratio` and `share_received` are ρ and r of `gsched.sim.finish_time`;
    `tenant_share` is the tenants' r by code of `classes.by_tenant`. `missed_deadline` is 1 or 0.
    """

    jct_s: Floats
    queueing_s: Floats
    waiting_s: Floats
    bounded_slowdown: Floats
    finish_time_ratio: Floats
    share_received: Floats
    tenant_share: Floats
    missed_deadline: Floats

    @classmethod
    def of(cls, result: SimResult, site: SiteFacts | None = None) -> JobFigures:
        """The figures of a result, complete or interrupted; shares by ``quotas.quota_gpus``."""
        jobs = result.jobs
        until_s = horizon_s(result)
        jct_s = result.end_s - jobs.submit_s
        queueing_s = result.start_s - jobs.submit_s
        between_s = np.maximum(result.end_s - result.start_s - held_s(result, until_s), 0.0)
        received = shares_received(result, until_s, site)
        return cls(
            jct_s=jct_s,
            queueing_s=queueing_s,
            waiting_s=queueing_s + between_s,
            bounded_slowdown=np.maximum(jct_s / np.maximum(jobs.duration_s, BOUND_S), 1.0),
            finish_time_ratio=finish_time_ratio(result, until_s),
            share_received=received.job,
            tenant_share=received.tenant,
            missed_deadline=missed_deadlines(result, until_s),
        )

    def among(self, which: NDArray[np.bool_]) -> JobFigures:
        """The same for some of the jobs, NaN for the others; deadlines stay those of all."""
        names = ("jct_s", "queueing_s", "waiting_s", "bounded_slowdown", "finish_time_ratio")
        columns = {
            name: np.where(which, getattr(self, name), np.nan)
            for name in (*names, "share_received")
        }
        return replace(self, **columns)

    @cached_property
    def is_unfair(self) -> NDArray[np.bool_]:
        """Ended jobs that would have been better off on an own share of their pool."""
        return self.finish_time_ratio > UNFAIR_ABOVE

    @cached_property
    def has_loss(self) -> NDArray[np.bool_]:
        """Ended jobs that received less than they were entitled to."""
        return self.share_received < LOSS_BELOW
