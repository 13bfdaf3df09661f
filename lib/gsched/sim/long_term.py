"""A simulation in the books of long-term fairness: what tenants asked for and received.

`finish_time` judges by equal quotas among the tenants that have jobs; here each has the quota that
somebody fixed beforehand, whether it has jobs or not (``gsched.fairness``).
"""

from __future__ import annotations

import numpy as np

from gsched.fairness.books import Books, Quotas, Stretches
from gsched.sim.classes import by_tenant
from gsched.sim.held import left_s
from gsched.sim.jobs import Floats
from gsched.sim.result import SimResult


def books_of(result: SimResult, quotas: Quotas, until_s: float) -> Books:
    """The books up to `until_s`, in seconds from the jobs' origin.

    `quotas` go by the codes of ``classes.by_tenant``. A job asks for its GPUs from submission to
    end and holds them from start to end of each attempt, costs and lost work included; the clean-up
    after its end is neither.
    """
    jobs, told = result.jobs, result.segments
    tenants = by_tenant(jobs)
    leave_s = left_s(result, until_s)
    gpus = jobs.num_gpus.astype(np.float64)
    rows = np.arange(len(jobs))
    begin_s: Floats = np.fmax(told.start_s, result.start_s[told.job])
    stop_s: Floats = np.fmin(told.end_s, leave_s[told.job])
    holder = told.job.astype(np.int64)
    return Books(
        tenants=tuple(tenants.names),
        tenant=tenants.code.astype(np.int64),
        weight=np.ones(len(jobs)),
        asked=Stretches(rows, jobs.submit_s, leave_s, gpus),
        held=Stretches(holder, begin_s, stop_s, gpus[holder]),
        quotas=quotas,
    )
