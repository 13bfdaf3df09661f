"""A past whose accounts can be reckoned by hand: two days, three accounts, quotas 3, 3 and 2."""

from __future__ import annotations

from gsched.model.accounts import SiteQuotas
from gsched_sql import History
from support.history import attempt, batch

T0 = 1_789_948_800
"""2026-09-21, a Monday, 00:00 UTC."""
HOUR_S = 3600
UNTIL = T0 + 48 * HOUR_S
QUOTAS = SiteQuotas({"greedy": 3.0, "lab2": 3.0, "idle": 2.0}, 8.0, "shares")


def gpu_job(job_id: int, tenant: str, user: str, asked: int, start: int, end: int, gpus: int = 4):
    """Times in seconds from T0."""
    return attempt(
        job_id,
        T0 + asked,
        cluster="lab",
        tenant=tenant,
        user=user,
        num_gpus=gpus,
        allocated=(),
        start_time=T0 + start,
        end_time=T0 + end,
    )


def two_days(history: History) -> None:
    """An hour's job of greedy after the other; every second hour one of lab2 waits for half of it.

    Jobs 1 to 48 are ann's, 101 to 124 bob's; all have 4 GPUs.
    """
    jobs = [gpu_job(n + 1, "greedy", "ann", n * 3600, n * 3600, n * 3600 + 3600) for n in range(48)]
    jobs += [
        gpu_job(101 + n, "lab2", "bob", n * 7200, n * 7200 + 1800, n * 7200 + 3600)
        for n in range(24)
    ]
    history.ingest(batch(*jobs), source_key="a")
    history.fairness().note("lab", T0, QUOTAS)
