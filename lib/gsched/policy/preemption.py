"""What a pass over an order that preempts asks of leases: who gets one, keeps it, or gives way.

A running job stands in the order from the end of its lease on; one without a lease is given one
first. On a live Slurm the leases' machine carries it out (``gsched.engine.lease_driver``) within
its own rules; the simulator does it at once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gsched.model.cluster import ClusterState
from gsched.model.decision import Action, Grant, Renew, Revoke
from gsched.model.job import Capability, JobView, LeaseState
from gsched.policy.base import KnobSpec
from gsched.policy.tenant_use import held_gpus

if TYPE_CHECKING:
    from gsched.policy.order_form import OrderForm
    from gsched.policy.pools import Pools
    from gsched.policy.turns import Turns

GRACE = KnobSpec(
    name="grace_s",
    default=60.0,
    minimum=0.0,
    maximum=3600.0,
    unit="s",
    help="time to save that a job gets before it is requeued, on a live cluster",
)

REVOKE_LIFE_S = 600
"""A revoke that could not be carried out so long after the grace has lapsed."""


def lease_knob(default_s: float) -> KnobSpec:
    """How long a job keeps its GPUs once it has them."""
    return KnobSpec(
        name="lease_s",
        default=default_s,
        minimum=0.0,
        maximum=30 * 86400.0,
        unit="s",
        help="length of a lease, in which nobody is preempted; 0: none in the simulator, on a live "
        "cluster as long as the hand-over of GPUs asks for",
    )


def may_give_way(view: JobView, pools: Pools, now: int) -> bool:
    """Whether a running job stands in the order: its lease has ended, or is being revoked."""
    lease = view.lease
    return (
        lease is not None
        and not lease.state.is_over
        and lease.state is not LeaseState.REQUEUED
        and lease.end_time <= now
        and view.exclusion(Capability.PREEMPT) is None
        and pools.could_free(view)
    )


def lease_actions(
    policy: str, state: ClusterState, form: OrderForm, turns: Turns, grace_s: int, now: int
) -> tuple[Action, ...]:
    """Grants for whoever begins, or runs without a lease; renewals of those that stay; revokes."""
    views, length_s = state.jobs.views, math.ceil(form.discipline.lease_s)

    def base(row: int, name: str) -> dict[str, Any]:
        view = views[row]
        return {
            "action_id": f"{policy}/{name}/{view.key.slurm_id}/{view.attempt}/{now}",
            "key": view.key,
            "attempt": view.attempt,
            "after_seq": state.seq,
            "valid_until": now + grace_s + REVOKE_LIFE_S,
        }

    unleased = [row for row in state.jobs.select(state.jobs.running).tolist() if _lacks(views[row])]
    actions: list[Action] = [
        Grant(**base(row, "grant"), undo="revoke", length_s=length_s)
        for row in [*turns.begins, *unleased]
    ]
    actions += [
        Renew(**base(row, "renew"), undo="revoke", length_s=length_s)
        for row in turns.stays
        if length_s or _is_revoked(views[row])
    ]
    for row, beneficiary in turns.leaves:
        told = base(row, "revoke")
        lease = views[row].lease
        told["action_id"] = f"{lease.lease_id}/revoke" if lease else told["action_id"]
        whom = state.jobs.keys[beneficiary]
        actions.append(Revoke(**told, undo="renew", grace_s=grace_s, beneficiary=whom))
    return tuple(actions)


def next_wakeup(
    state: ClusterState, form: OrderForm, actions: Sequence[Action], now: int
) -> int | None:
    """When a lease ends next; or, while another job waits, one comes to a new level.

    As it will be after `actions`: the leases that they give count, who gets GPUs by them runs from
    `now` on, and who is to leave waits.
    """
    jobs = state.jobs
    given = [a for a in actions if isinstance(a, Grant | Renew)]
    times = [now + a.length_s for a in given if a.length_s]
    begins = {a.key for a in given}
    waiting = int(jobs.pending.sum()) + sum(isinstance(a, Revoke) for a in actions)
    for row in jobs.select(jobs.running | jobs.pending).tolist():
        view, waits = jobs.views[row], bool(jobs.pending[row])
        if waits and view.key not in begins:
            continue
        if view.lease is not None and view.lease.end_time > now:
            times.append(view.lease.end_time)
        if waiting > waits:
            times += _to_next_level(form, view, float(jobs.attained_gpu_s[row]), now)
    return min(times, default=None)


def _to_next_level(form: OrderForm, view: JobView, received: float, now: int) -> list[int]:
    """When a job that runs on from `now` comes to the next level; none where it has reached all."""
    gpus, received = held_gpus(view), 0.0 if math.isnan(received) else received
    ahead = [bound for bound in form.level_bounds_gpu_s if bound > received]
    return [now + math.ceil((ahead[0] - received) / gpus)] if ahead and gpus else []


def _lacks(view: JobView) -> bool:
    return view.lease is None and view.exclusion(Capability.PREEMPT) is None


def _is_revoked(view: JobView) -> bool:
    return view.lease is not None and view.lease.state is not LeaseState.GRANTED
