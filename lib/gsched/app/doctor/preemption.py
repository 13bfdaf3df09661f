"""What becomes of a job that is preempted or requeued: whether it is told, and comes back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.slurm.parse_preemption import (
    QOS_FIELDS,
    Preemptable,
    parse_preemptable_partitions,
    parse_preemptable_qos,
)

LONG_REQUEUE_WAIT_S = 31
ENOUGH_GRACE_S = 30
"""A checkpoint of a large model takes as long, at the least."""
_SIGNAL_KEYS = (
    ("SlurmctldParameters", "preempt_send_user_signal"),
    ("PreemptParameters", "send_user_signal"),
)
_NO_PREEMPTION = ("", "(null)", "preempt/none")


def check_requeue(walk: Walk) -> Iterator[Finding]:
    """What happens to a job that is requeued."""
    config = walk.config
    if config.get("JobRequeue") == "0":
        yield Finding(
            "note",
            "requeue-off",
            "requeue",
            "JobRequeue=0: jobs are not requeued unless they ask for it",
            "set JobRequeue=1 in slurm.conf, or leave it: jobs of gsched submit --gs-checkpoint "
            "ask for it, and gsched keeps away from others when it preempts",
        )
    if config.requeue_wait_s > LONG_REQUEUE_WAIT_S:
        yield Finding(
            "note",
            "cred-expire",
            "requeue",
            f"a requeued job waits {config.requeue_wait_s} s before it can start again "
            "(cred_expire)",
            "nothing: to live with, see slurm.conf(5) about AuthInfo",
        )


def check(walk: Walk) -> Iterator[Finding]:
    """Whether a job that is preempted is told, has time to save its work, and comes back."""
    yield from _told(walk)
    if walk.config.kill_wait_s < ENOUGH_GRACE_S:
        yield Finding(
            "note",
            "kill-wait",
            "preemption",
            f"KillWait={walk.config.kill_wait_s}: so many seconds after SIGTERM a job is killed",
            f"set KillWait={ENOUGH_GRACE_S} or more in slurm.conf, then `scontrol reconfigure`",
        )
    what, victims = _victims(walk)
    yield from _graces(what, victims)
    yield from _modes(what, victims)


def _told(walk: Walk) -> Iterator[Finding]:
    config = walk.config
    if any(flag in config.flags(key) for key, flag in _SIGNAL_KEYS):
        return
    key, flag = _SIGNAL_KEYS[0 if config.version < (23, 2) else 1]
    yield Finding(
        "note",
        "preempt-signal",
        "preemption",
        "a job that is preempted does not get the signal that it asked for by --signal: at the "
        "begin of its grace its steps get SIGTERM, and a script that uses no srun hears nothing",
        f"add {flag} to {key} in slurm.conf, then restart slurmctld",
    )


def _victims(walk: Walk) -> tuple[str, tuple[Preemptable, ...]]:
    """What may be preempted: the word for one of them (partition, qos), and all of them."""
    kind = walk.config.get("PreemptType", "preempt/none")
    if kind in _NO_PREEMPTION:
        return "", ()
    if kind == "preempt/qos":
        text = walk.output("sacctmgr", "-n", "-P", "show", "qos", f"format={QOS_FIELDS}")
        return "qos", parse_preemptable_qos(text, walk.config.get("PreemptMode"))
    return "partition", parse_preemptable_partitions(walk.partitions_text)


def _graces(what: str, victims: Sequence[Preemptable]) -> Iterator[Finding]:
    short = [v.name for v in victims if v.mode != "suspend" and v.grace_s < ENOUGH_GRACE_S]
    if not short:
        return
    mend = f"`scontrol update partitionname={short[0]} gracetime=120`, and the same in slurm.conf"
    if what == "qos":
        mend = f"`sacctmgr -i modify qos {short[0]} set gracetime=120`"
    yield Finding(
        "note",
        "grace-time",
        "preemption",
        f"GraceTime is under {ENOUGH_GRACE_S} s in {', '.join(short)}: too short for a "
        "checkpoint when a job is preempted",
        mend,
    )


def _modes(what: str, victims: Sequence[Preemptable]) -> Iterator[Finding]:
    """Ways of preemption after which a job does not come back, or does not make room."""
    if gone := [v.name for v in victims if v.mode == "cancel"]:
        yield Finding(
            "note",
            "preempt-cancel",
            "preemption",
            f"jobs in {', '.join(gone)} are cancelled when they are preempted: what they have "
            "saved stays, but they do not come back by themselves",
            _requeue_instead(what, gone[0]),
        )
    if stuck := [v.name for v in victims if v.mode == "suspend" and v.has_gpus]:
        yield Finding(
            "warn",
            "preempt-suspend",
            "preemption",
            f"jobs in {', '.join(stuck)} are suspended when they are preempted, and keep their "
            "GPUs: whoever needs these waits all the same",
            _requeue_instead(what, stuck[0]),
        )


def _requeue_instead(what: str, name: str) -> str:
    if what == "qos":
        return f"`sacctmgr -i modify qos {name} set preemptmode=requeue`"
    return f"`scontrol update partitionname={name} preemptmode=requeue`, and the same in slurm.conf"
