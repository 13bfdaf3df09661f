"""What jobs have received so far, as far as a snapshot tells."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from gsched.model.cluster import ClusterState
from gsched.policy.tenant_use import held_gpus

if TYPE_CHECKING:
    from gsched.model.jobtable import JobTable


def with_attained(state: ClusterState) -> JobTable:
    """``state.jobs``; a running job of which nobody tells has what its present attempt received.

    Slurm tells nothing of the attempts before: what they received counts as nothing then.
    """
    import numpy as np

    jobs = state.jobs
    untold = jobs.select(jobs.running & np.isnan(jobs.attained_gpu_s))
    if not len(untold):
        return jobs
    attained = jobs.attained_gpu_s.copy()
    for row in untold.tolist():
        view = jobs.views[row]
        if view.allocation is not None:
            attained[row] = held_gpus(view) * max(0, state.as_of - view.allocation.start_time)
    attained.flags.writeable = False
    return replace(jobs, attained_gpu_s=attained)
