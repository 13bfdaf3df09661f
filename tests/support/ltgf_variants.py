"""What the figures of long-term fairness hang on: the same policies with one thing changed each."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from gsched.model.job import Capability
from gsched.policy.base import Policy
from gsched.policy.ltgf import Ltgf
from gsched.policy.order_form import NEVER, OrderForm
from gsched.policy.registry import load
from gsched.policy.themis import Themis
from gsched.sim.jobs import Floats, SimJobs

LAST_JOBS = 50
"""So many jobs are the past from which a run time is told."""


class ToldByThePast(Themis):
    """Themis as a cluster could run it: jobs tell the run time that they have to expect."""

    requires = frozenset({Capability.REORDER, Capability.PREEMPT})


class ShortestWithinQuotas(Ltgf):
    """Tenants as in ltgf; of one tenant the job with the least true work left comes first.

    No order of a tenant's jobs has a lower mean JCT on one GPU: what is left above a policy without
    tenants is about what the quotas cost.
    """

    requires = frozenset({Capability.REORDER, Capability.PREEMPT, Capability.ORACLE})

    def order_form(self, jobs: Any) -> OrderForm:
        """Key = true run time less time run."""
        form = super().order_form(jobs)
        zeros = np.zeros(len(jobs))
        return dataclasses.replace(
            form,
            constant=jobs.predicted_duration_s,
            per_executed_s=zeros - 1.0,
            executed_cap_s=NEVER,
            shares=None,
        )


def with_quotas(name: str, quotas: Floats) -> Policy:
    """A policy whose tenants are all alike, with shares by quota."""
    base = type(load(name))

    class WithQuotas(base):  # type: ignore[valid-type,misc]
        def order_form(self, jobs: Any) -> OrderForm:
            form = super().order_form(jobs)
            return dataclasses.replace(
                form, tenants=dataclasses.replace(form.tenants, shares=quotas.copy())
            )

    policy: Policy = WithQuotas()
    return policy


def told_by_the_past(jobs: SimJobs) -> SimJobs:
    """The jobs with run times to expect: the mean of the last LAST_JOBS of the tenant's jobs with
    as many GPUs that could have ended before the submission (each as if it had begun at once).

    Nothing is told of the first of their kind.
    """
    kind = jobs.tenant.astype(np.int64) * (int(jobs.num_gpus.max()) + 1) + jobs.num_gpus
    told = np.full(len(jobs), np.nan)
    for code in np.unique(kind):
        rows = np.flatnonzero(kind == code)
        ends_s = jobs.submit_s[rows] + jobs.duration_s[rows]
        order = np.argsort(ends_s, kind="stable")
        reached = np.concatenate(([0.0], np.cumsum(jobs.duration_s[rows][order])))
        known = np.searchsorted(ends_s[order], jobs.submit_s[rows], side="right")
        first = np.maximum(known - LAST_JOBS, 0)
        mean = (reached[known] - reached[first]) / np.maximum(known - first, 1)
        told[rows] = np.where(known > 0, mean, np.nan)
    return dataclasses.replace(jobs, predicted_duration_s=told)
