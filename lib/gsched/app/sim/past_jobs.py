"""Past jobs by column → the records that estimators of run times learn from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gsched.app.sim.rows import NONE, PastColumns, Whole
from gsched.model.history import PastJob
from gsched.model.job import JobState


def past_jobs(past: PastColumns, ends: Whole) -> Iterator[PastJob]:
    """The jobs as they learn and are learnt from, in the order of `past`; `ends` are epoch times.

    Who has no user counts for the account (the virtual cluster).
    """
    texts = (
        [column.values[code] if code >= 0 else "" for code in column.codes.tolist()]
        for column in (past.user, past.tenant, past.partition, past.name)
    )
    numbers = (
        [told if told > 0 else None for told in column.tolist()]
        for column in (past.num_cpus, past.num_nodes, past.time_limit_s)
    )
    times = (column.tolist() for column in (past.submit_time, ends, past.run_s))
    columns = zip(
        past.job_id.tolist(), past.num_gpus.tolist(), *times, *texts, *numbers, strict=True
    )
    for job_id, num_gpus, submit, end, run_s, user, tenant, partition, name, *asked in columns:
        num_cpus, num_nodes, time_limit_s = asked
        yield PastJob(
            cluster="",
            job_id=job_id,
            submit_time=submit,
            start_time=end - run_s,
            end_time=end,
            user=user or tenant,
            tenant=tenant,
            partition=partition,
            name=name,
            num_gpus=num_gpus,
            num_cpus=num_cpus,
            num_nodes=num_nodes,
            time_limit_s=time_limit_s,
            state=JobState.COMPLETED,
        )


def taught(past: PastColumns) -> Iterator[PastJob]:
    """Those of which something can be learnt, as they ended."""
    fit = (past.num_gpus > 0) & (past.run_s > 0) & (past.end_time != NONE)
    rows = np.flatnonzero(fit)
    chosen = past.take(rows[np.argsort(past.end_time[rows], kind="stable")])
    return past_jobs(chosen, chosen.end_time)
