"""Leases of GPUs: whether what is switched on can work, and what stands in their way."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.doctor.findings import Finding
from gsched.app.doctor.walk import Walk
from gsched.daemon.site_factor import movable_points
from gsched.engine.lease_rules import HandOver
from gsched.errors import ConfigError
from gsched.model.job import Capability
from gsched.policy.lease_length import LEASE_KNOB
from gsched.slurm.own_preemption import own_way

_WHAT = "leases"


def check_settings(walk: Walk) -> Iterator[Finding]:
    """Whether policy and settings agree on leases, and jobs can tell that they have saved."""
    settings = walk.settings
    needing = _policies_that_lease(walk)
    if needing and not settings.daemon.leases:
        yield Finding(
            "fail",
            "leases-off",
            _WHAT,
            f"policy {needing[0]} takes GPUs from jobs at the end of their leases, which "
            "[daemon] leases does not allow: the daemon does not start with it",
            "set leases = true in [daemon], or choose another policy (`gsched policy list`)",
        )
    if not settings.daemon.leases:
        return
    if not needing:
        yield Finding(
            "note",
            "leases-unused",
            _WHAT,
            f"leases are allowed, but policy {settings.daemon.policy} grants none",
            "choose one that does, such as ltgf, or set leases = false in [daemon]",
        )
    elif not settings.heartbeat.dir:
        yield Finding(
            "warn",
            "lease-heartbeats",
            _WHAT,
            "no [heartbeat] dir: no job can tell whether it has saved. Each is requeued when its "
            "grace is over, and loses what it had not saved by then",
            "set dir in [heartbeat] to a folder that the nodes and this host share",
        )


def check_slurm(walk: Walk) -> Iterator[Finding]:
    """What Slurm does to jobs that are to give way, and what it does by itself."""
    daemon = walk.settings.daemon
    if not daemon.leases or not _policies_that_lease(walk):
        return
    if walk.config.get("JobRequeue") == "0":
        yield Finding(
            "warn",
            "lease-requeue",
            _WHAT,
            "JobRequeue=0: a job gives way at its lease's end only where its user has asked for "
            "that with --requeue, too",
            "set JobRequeue=1 in slurm.conf, or tell users to submit by gsched submit "
            "--gs-checkpoint, which asks for it",
        )
    if way := own_way(walk.config):
        yield Finding(
            "note",
            "lease-preemption",
            _WHAT,
            f"{way}. Where it would preempt one job for another, gsched leaves that to it",
            "nothing: see `gsched why` of a job for which of the two it is",
        )
    points = movable_points(walk.config)
    if daemon.max_shift and 10 * points > 11 * daemon.max_shift:
        yield Finding(
            "warn",
            "lease-range",
            "daemon.max_shift",
            f"Slurm's own factors make up to {points} points, and max_shift is {daemon.max_shift}: "
            "they can keep a job behind others though it is to have the GPUs, and nobody gives "
            "way for it then",
            f"set max_shift to {points} or take it out of [daemon]",
        )
    length_s = int(daemon.knobs.get(LEASE_KNOB, 0))
    refusal = HandOver.measured((), walk.config.requeue_wait_s).refusal(length_s)
    if length_s and refusal:
        yield Finding(
            "warn",
            "lease-length",
            "daemon.knobs.lease_s",
            f"{refusal.partition(':')[0]}, as far as is known before jobs have saved: no lease is "
            "granted, and so no job gives way",
            "leave lease_s out of [daemon.knobs]: leases are as long as the hand-over asks for",
        )


def _policies_that_lease(walk: Walk) -> list[str]:
    """Those in use. A policy that cannot be loaded is another check's finding."""
    from gsched.policy.registry import describe

    daemon, found = walk.settings.daemon, []
    for name in dict.fromkeys([daemon.policy, *daemon.policy_scope.values()]):
        try:
            if Capability.PREEMPT in describe(name).requires:
                found.append(name)
        except ConfigError:
            continue
    return found
