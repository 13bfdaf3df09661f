"""Past jobs by column → the records that estimators of run times learn from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gsched.app.sim_rows import NONE, PastColumns, Whole
from gsched.model.history import PastJob
from gsched.model.job import JobState


def past_jobs(past: PastColumns, ends: Whole) -> Iterator[PastJob]:
    """The jobs as they learn and are learnt from, in the order of `past`; `ends` are epoch times.

    Who has no user counts for the account (the virtual cluster). A source without names takes jobs
    of the same size for alike.
    """
    users, tenants, names = (
        [column.values[code] if code >= 0 else "" for code in column.codes.tolist()]
        for column in (past.user, past.tenant, past.name)
    )
    columns = zip(
        past.job_id.tolist(),
        past.submit_time.tolist(),
        ends.tolist(),
        past.run_s.tolist(),
        past.num_gpus.tolist(),
        users,
        tenants,
        names,
        strict=True,
    )
    for job_id, submit_time, end_time, run_s, num_gpus, user, tenant, name in columns:
        yield PastJob(
            cluster="",
            job_id=job_id,
            submit_time=submit_time,
            start_time=end_time - run_s,
            end_time=end_time,
            user=user or tenant,
            tenant=tenant,
            partition="",
            name=name or f"{num_gpus} gpus",
            num_gpus=num_gpus,
            num_cpus=0,
            num_nodes=0,
            time_limit_s=None,
            state=JobState.COMPLETED,
        )


def taught(past: PastColumns) -> Iterator[PastJob]:
    """Those of which something can be learnt, as they ended."""
    fit = (past.num_gpus > 0) & (past.run_s > 0) & (past.end_time != NONE)
    rows = np.flatnonzero(fit)
    chosen = past.take(rows[np.argsort(past.end_time[rows], kind="stable")])
    return past_jobs(chosen, chosen.end_time)
