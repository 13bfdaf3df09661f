"""Settings of Slurm's schedulers that gsched works with, or has to live with."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.slurm.parse_config import parse_partition_numbers
from gsched.slurm.parse_sdiag import parse_sdiag
from gsched.slurm.records import SlurmConfig

DEFAULT_DEPTH = 500
"""bf_max_job_test, slurm.conf(5)."""
DEFAULT_BF_INTERVAL_S = 30
DEFAULT_CRED_EXPIRE_S = 120
LONG_BF_INTERVAL_S = 120
LONG_CRED_EXPIRE_S = 30
ENOUGH_GRACE_S = 30
"""A checkpoint of a large model takes as long, at the least."""
_SIGNAL_KEYS = (
    ("SlurmctldParameters", "preempt_send_user_signal"),
    ("PreemptParameters", "send_user_signal"),
)


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


def check_requeue(walk: Walk) -> Iterator[Finding]:
    """What happens to a job that is requeued."""
    config = walk.config
    if config.get("JobRequeue") == "0":
        yield Finding(
            "note",
            "requeue-off",
            "requeue",
            "JobRequeue=0: jobs are not requeued unless they ask for it",
            "set JobRequeue=1 in slurm.conf, or leave it: gsched keeps away from such jobs when it "
            "preempts",
        )
    expire_s = _number(config.flags("AuthInfo").get("cred_expire"), DEFAULT_CRED_EXPIRE_S)
    if expire_s > LONG_CRED_EXPIRE_S:
        yield Finding(
            "note",
            "cred-expire",
            "requeue",
            f"a requeued job waits {expire_s} s before it can start again (cred_expire)",
            "nothing: to live with, see slurm.conf(5) about AuthInfo",
        )


def check_preemption(walk: Walk) -> Iterator[Finding]:
    """Whether a job that is preempted is told, and has time to save its work."""
    config = walk.config
    if not any(flag in config.flags(key) for key, flag in _SIGNAL_KEYS):
        key, flag = _SIGNAL_KEYS[0 if config.version < (23, 2) else 1]
        yield Finding(
            "note",
            "preempt-signal",
            "preemption",
            "a job that is preempted does not get the signal that it asked for by --signal",
            f"add {flag} to {key} in slurm.conf, then restart slurmctld",
        )
    wait_s = _seconds(config, "KillWait")
    if wait_s < ENOUGH_GRACE_S:
        yield Finding(
            "note",
            "kill-wait",
            "preemption",
            f"KillWait={wait_s}: so many seconds after SIGTERM a job is killed",
            f"set KillWait={ENOUGH_GRACE_S} or more in slurm.conf, then `scontrol reconfigure`",
        )
    if config.get("PreemptType", "preempt/none") == "preempt/none":
        return
    graces = parse_partition_numbers(walk.partitions_text, "GraceTime")
    if short := [name for name, grace_s in graces.items() if grace_s < ENOUGH_GRACE_S]:
        yield Finding(
            "note",
            "grace-time",
            "preemption",
            f"GraceTime is under {ENOUGH_GRACE_S} s in {', '.join(short)}: too short for a "
            "checkpoint when a job is preempted",
            f"`scontrol update partitionname={short[0]} gracetime=120`, and the same in slurm.conf",
        )


def check_power_saving(walk: Walk) -> Iterator[Finding]:
    """Whether nodes can be put to sleep by hand: SuspendTime=-1 switches all of it off."""
    value = walk.config.get("SuspendTime").split()[:1]
    if value and value[0] not in {"INFINITE", "NONE", "-1"}:
        return
    wants = {"power-down", "power-up"} & set(walk.settings.helper.verbs)
    yield Finding(
        "warn" if wants else "note",
        "suspend-time",
        "power saving",
        "SuspendTime is not set: no node can be powered down, by hand neither",
        "nothing, where nodes shall not sleep; else set SuspendTime in slurm.conf (8640000 to "
        "leave it to gsched) with SuspendProgram and ResumeProgram, and restart slurmctld",
    )


def _number(text: str | None, default: int) -> int:
    try:
        return int(text or default)
    except ValueError:
        return default


def _seconds(config: SlurmConfig, key: str) -> int:
    """A value such as ``30 sec``."""
    return _number(config.get(key).partition(" ")[0], ENOUGH_GRACE_S)


def _round_up(number: int) -> int:
    return -(-number // 500) * 500
