"""Settings of Slurm's schedulers that gsched works with, or has to live with."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.slurm.parse_sdiag import parse_sdiag

DEFAULT_DEPTH = 500
"""bf_max_job_test, slurm.conf(5)."""
DEFAULT_BF_INTERVAL_S = 30
LONG_BF_INTERVAL_S = 120


def check_backfill(walk: Walk) -> Iterator[Finding]:
    """Whether backfill runs, sees the whole queue, and goes on when priorities change."""
    config = walk.config
    kind = config.get("SchedulerType")
    if kind != "sched/backfill":
        yield Finding(
            "warn",
            "scheduler-type",
            "backfill",
            f"SchedulerType is {kind}: no job is started out of order, so large jobs leave gaps",
            "set SchedulerType=sched/backfill in slurm.conf and restart slurmctld",
        )
        return
    flags = config.flags("SchedulerParameters")
    yield from _continues(flags)
    yield from _interval(flags)
    depth = _number(flags.get("bf_max_job_test"), DEFAULT_DEPTH)
    pending = parse_sdiag(walk.output("sdiag")).jobs_pending
    if pending > depth:
        yield Finding(
            "warn",
            "backfill-depth",
            "backfill",
            f"{pending} jobs wait, but backfill looks at {depth} only (bf_max_job_test)",
            f"set bf_max_job_test={_round_up(pending)} in SchedulerParameters of slurm.conf, then "
            "`scontrol reconfigure`; `sdiag` shows how long its passes take",
        )


def _continues(flags: dict[str, str]) -> Iterator[Finding]:
    if "bf_continue" in flags:
        yield Finding("ok", "backfill", "backfill", "bf_continue is set")
        return
    yield Finding(
        "warn",
        "backfill-continue",
        "backfill",
        "without bf_continue a priority change ends the running backfill pass",
        "add bf_continue to SchedulerParameters in slurm.conf, then `scontrol reconfigure`",
    )


def _interval(flags: dict[str, str]) -> Iterator[Finding]:
    interval_s = _number(flags.get("bf_interval"), DEFAULT_BF_INTERVAL_S)
    if 0 <= interval_s <= LONG_BF_INTERVAL_S:
        return
    found = "backfill is switched off" if interval_s < 0 else f"it runs every {interval_s} s only"
    yield Finding(
        "warn",
        "backfill-interval",
        "backfill",
        f"bf_interval={interval_s}: {found}, so a new order is seen late",
        f"set bf_interval={DEFAULT_BF_INTERVAL_S} in SchedulerParameters of slurm.conf, then "
        "`scontrol reconfigure`",
    )


def _number(text: str | None, default: int) -> int:
    try:
        return int(text or default)
    except ValueError:
        return default


def _round_up(number: int) -> int:
    return -(-number // 500) * 500
