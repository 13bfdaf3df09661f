"""How tenants and jobs stand in a window of time: the figures of `gsched fairness`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gsched.fairness.books import Books
from gsched.fairness.fading import HOUR_S
from gsched.fairness.hours import IntervalSums
from gsched.fairness.metric import LOSS_BELOW, MetricAccount, TenantIntervals
from gsched.model.jobtable import FloatColumn, IntColumn


@dataclass(frozen=True, slots=True)
class TenantStanding:
    """One tenant; GPU-hours by worth. None: there is nothing to tell.

    The metric: `r` is received over entitled. The rule: `owed` is what the policy ltgf owes it at
    the end of the window, by the past as it fades; `due` is its quota over the window. `demanded`
    was asked for, `borrowed` received beyond the quota, `lent` what of the quota it did not hold.
    `loss_jobs` of its `jobs` have an r below LOSS_BELOW, and so have `unfair_steps` of the `steps`
    in which it asked for something.
    """

    tenant: str
    quota_gpus: float
    r: float | None
    received: float
    entitled: float
    owed: float
    due: float
    demanded: float
    borrowed: float
    lent: float
    jobs: int
    loss_jobs: int
    steps: int
    unfair_steps: int

    def document(self) -> dict[str, Any]:
        """With units in the names."""
        return {
            "tenant": self.tenant,
            "quota_gpus": self.quota_gpus,
            "r": self.r,
            "received_gpu_hours": self.received,
            "entitled_gpu_hours": self.entitled,
            "owed_gpu_hours": self.owed,
            "due_gpu_hours": self.due,
            "demanded_gpu_hours": self.demanded,
            "borrowed_gpu_hours": self.borrowed,
            "lent_gpu_hours": self.lent,
            "jobs": self.jobs,
            "loss_jobs": self.loss_jobs,
            "steps": self.steps,
            "unfair_steps": self.unfair_steps,
        }


@dataclass(frozen=True, slots=True)
class JobStanding:
    """One job: GPU-hours by worth in the window; `r` None where it was entitled to nothing."""

    job: str
    user: str
    tenant: str
    r: float | None
    received: float
    entitled: float

    @property
    def is_loss(self) -> bool:
        """Whether it received less than LOSS_BELOW of what was its."""
        return self.r is not None and self.r < LOSS_BELOW

    def document(self) -> dict[str, Any]:
        """With units in the names."""
        return {
            "job": self.job,
            "user": self.user,
            "tenant": self.tenant,
            "r": self.r,
            "received_gpu_hours": self.received,
            "entitled_gpu_hours": self.entitled,
        }


def tenant_standings(
    books: Books,
    metric: MetricAccount,
    course: IntervalSums,
    owed_gpu_s: FloatColumn,
    quotas: FloatColumn,
) -> list[TenantStanding]:
    """Of all tenants, the one that is owed most first; `quotas` are those at the window's end."""
    intervals = TenantIntervals(course.received, course.entitled)
    judged = metric.job_entitled > 0
    lost = metric.job_received < LOSS_BELOW * metric.job_entitled
    jobs, lost_jobs = (_by_tenant(books, which) for which in (judged, lost))
    found = []
    for code, name in enumerate(books.tenants):
        of_hours = {
            what: max(0.0, float(getattr(course, what)[code].sum() / HOUR_S))  # -0.0: by rounding
            for what in ("received", "entitled", "due", "demanded", "borrowed", "lent")
        }
        found.append(
            TenantStanding(
                tenant=name,
                quota_gpus=float(quotas[code]),
                r=of_hours["received"] / of_hours["entitled"] if of_hours["entitled"] else None,
                owed=float(owed_gpu_s[code] / HOUR_S),
                jobs=int(jobs[code]),
                loss_jobs=int(lost_jobs[code]),
                steps=int(intervals.counts[code].sum()),
                unfair_steps=int(intervals.is_unfair[code].sum()),
                **of_hours,
            )
        )
    return sorted(found, key=lambda one: (-one.owed, one.tenant))


def job_standings(
    books: Books,
    metric: MetricAccount,
    chosen: IntColumn,
    names: Sequence[str],
    users: Sequence[str],
) -> list[JobStanding]:
    """Of some jobs by their codes, the least served first; `names` and `users` go with `chosen`."""
    r_job = metric.r_job
    found = [
        JobStanding(
            job=name,
            user=user,
            tenant=books.tenants[books.tenant[code]],
            r=known(r_job[code]),
            received=float(metric.job_received[code] / HOUR_S),
            entitled=float(metric.job_entitled[code] / HOUR_S),
        )
        for code, name, user in zip(chosen.tolist(), names, users, strict=True)
    ]
    return sorted(found, key=lambda one: (one.r is None, one.r or 0.0, -one.entitled, one.job))


def known(value: float) -> float | None:
    """None for NaN."""
    return None if np.isnan(value) else float(value)


def _by_tenant(books: Books, which: Any) -> IntColumn:
    """How many of these jobs each tenant has."""
    return np.bincount(books.tenant[which], minlength=len(books.tenants)).astype(np.int64)
