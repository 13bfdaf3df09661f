"""A node as one look at Slurm shows it: its pool, its power, whether jobs run on it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gsched.daemon.ces_pools import pools_of
from gsched.model.cluster import NodeView
from gsched.policy.ces_state import NodePower
from gsched.slurm.records import NodeFacts

SlurmTime = Callable[[int], int]
"""Slurm's epoch seconds as those of the clock that energy saving lives by: the same, but in trials
that press a day into minutes."""

RESUME_FAILED = "ResumeTimeout"
"""Begins Slurm's reason for a node that did not wake in time."""

_HOLDS_JOBS = frozenset({"allocated", "mixed", "completing"})


@dataclass(frozen=True, slots=True)
class NodeSight:
    """A node. Times are those of the clock, None where Slurm does not know them.

    A node that sleeps and has been given to a job is WAKING. `is_down` ones are no use to anybody
    until an administrator comes; `failed_to_wake` ones are down for that reason.
    """

    name: str
    pool: str
    power: NodePower
    is_running: bool
    is_down: bool
    failed_to_wake: bool
    view: NodeView
    flags: frozenset[str]
    boot_time: int | None
    last_busy_time: int | None


def sights_of(facts: Iterable[NodeFacts], slurm_time: SlurmTime) -> tuple[NodeSight, ...]:
    """What a look shows of each node. Nodes that Slurm knows only as to come are left out."""
    known = [each for each in facts if each.view.state != "future"]
    pools = pools_of(each.view for each in known)
    return tuple(_sight(each, pools[each.view.name], slurm_time) for each in known)


def _sight(facts: NodeFacts, pool: str, slurm_time: SlurmTime) -> NodeSight:
    view = facts.view
    flags = frozenset(view.flags)
    is_down = view.state in {"down", "error", "unknown"}
    is_running = not is_down and (
        view.state in _HOLDS_JOBS or "completing" in flags or view.cpus_used > 0
    )
    return NodeSight(
        name=view.name,
        pool=pool,
        power=power_of(flags, is_running),
        is_running=is_running,
        is_down=is_down,
        failed_to_wake=is_down and facts.reason.startswith(RESUME_FAILED),
        view=view,
        flags=flags,
        boot_time=None if facts.boot_time is None else slurm_time(facts.boot_time),
        last_busy_time=None if facts.last_busy_time is None else slurm_time(facts.last_busy_time),
    )


def power_of(flags: frozenset[str], is_running: bool) -> NodePower:
    """What a node's flags say of its power.

    A job may be given a node that sleeps: Slurm wakes it then, within seconds.
    """
    if "powering_down" in flags:
        return NodePower.FALLING
    if flags & {"powering_up", "power_up"}:
        return NodePower.WAKING
    if "powered_down" in flags:
        return NodePower.WAKING if is_running else NodePower.ASLEEP
    if flags & {"power_down", "power_drain"}:
        return NodePower.FALLING
    return NodePower.AWAKE
