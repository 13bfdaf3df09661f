"""Which grants, renewals and revokes are worth carrying out, or can be at all. Pure.

A requeue costs what the job computed since it saved, the time until Slurm lets it start again, and
its place among the running ones. So a lease must be long against its hand-over; a revoke comes only
at the lease's end; and only where the GPUs reach the one that they are freed for.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gsched.model.cluster import ClusterState, NodeView
from gsched.model.decision import Rank
from gsched.model.job import Capability, JobKey, JobState, JobView, Request

DEFAULT_LEASE_S = 3600
"""Length of a live lease where its policy names none, unless the hand-over asks for a longer one.

A policy's own lease of minutes suits a runtime that hands GPUs over in seconds. Here a job has to
wait for Slurm.
"""

HAND_OVERS_A_LEASE = 20
"""A lease is at least so many times as long as its hand-over costs: 5 % of the time are lost."""

FIRST_SAVE_S = 60
"""What a job is taken to need for saving before any has been seen to."""

_FEATURE_LIST = re.compile(r"[\w.-]+(?:[&,][\w.-]+)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class HandOver:
    """What it costs to take GPUs from a job, in seconds.

    `save_s` passes between the signal and the requeue; `wait_s` passes at least until Slurm lets
    the job start again, elsewhere or here.
    """

    save_s: int
    wait_s: int

    @classmethod
    def measured(cls, save_times: Sequence[int], wait_s: int) -> HandOver:
        """With the median of what jobs have needed to save."""
        return cls(round(statistics.median(save_times or [FIRST_SAVE_S])), wait_s)

    @property
    def seconds(self) -> int:
        """For which the GPUs, or the job, are idle at least."""
        return self.save_s + self.wait_s

    @property
    def shortest_lease_s(self) -> int:
        """No shorter lease is granted."""
        return HAND_OVERS_A_LEASE * self.seconds

    @property
    def default_lease_s(self) -> int:
        """The lease where no length is named."""
        return max(DEFAULT_LEASE_S, self.shortest_lease_s)

    def refusal(self, length_s: int) -> str:
        """Why a lease of so many seconds is not granted, "" where it is."""
        if length_s >= self.shortest_lease_s:
            return ""
        return (
            f"a lease of {length_s} s is shorter than {HAND_OVERS_A_LEASE} hand-overs of "
            f"{self.seconds} s: set lease_s in [daemon.knobs] to {self.shortest_lease_s} or more, "
            "or leave it out"
        )


def benefit_refusal(
    beneficiary: JobKey,
    victims: Sequence[JobView],
    state: ClusterState,
    order: Mapping[JobKey, Rank],
    num_beneficiaries: int,
) -> str:
    """Why taking the GPUs of `victims` would do nothing for `beneficiary`; "" where it would.

    Slurm gives free GPUs to whom it picks. So the beneficiary must be one of the first of its
    queue, as many as there are beneficiaries, and must fit on what is free then.
    """
    name = beneficiary.slurm_id
    if beneficiary not in state.jobs:
        return f"{name}, for which it is, is gone"
    view, rank = state.jobs.view(beneficiary), order.get(beneficiary)
    if view.state is not JobState.PENDING:
        return f"{name}, for which it is, does not wait"
    if view.exclusion(Capability.REORDER) is not None or rank is None:
        return f"{name}, for which it is, is not ranked"
    if rank.position > num_beneficiaries:
        return f"{name}, for which it is, is number {rank.position} of its queue"
    if not fits(view, victims, state):
        return f"{name}, for which it is, would not fit on the nodes then"
    return ""


def fits(view: JobView, victims: Iterable[JobView], state: ClusterState) -> bool:
    """Whether a waiting job would find room if the victims were gone.

    Looked at node by node: GPUs, CPUs and memory, spread evenly over as many nodes as the job
    takes. What cannot be judged from a snapshot (licences, feature expressions other than plain
    lists, nodes of reservations) counts as no room: then nobody is stopped in vain.
    """
    request = view.request
    if request.licences or not _FEATURE_LIST.fullmatch(request.features or "any"):
        return False
    reserved = {name for r in state.reservations for name in r.nodes}
    freed = _freed(victims)
    rooms = {
        node.name: (node, _room(node, freed.get(node.name, (0, 0, 0))))
        for node in state.nodes
        if node.is_usable and node.name not in reserved and _suits(node, request)
    }
    return any(
        _has_room(request, [room for node, room in rooms.values() if name in node.partitions])
        for name in view.partitions
    )


_Room = tuple[int, int, int]
"""GPUs, CPUs, bytes of memory."""


def _freed(victims: Iterable[JobView]) -> dict[str, _Room]:
    freed: dict[str, _Room] = {}
    for victim in victims:
        held = victim.allocation
        if held is None:
            continue
        for node, gpus in zip(held.nodes, held.gpus, strict=True):
            g, c, m = freed.get(node, (0, 0, 0))
            cpus = victim.request.num_cpus // len(held.nodes)
            mem = victim.request.mem_bytes // len(held.nodes)
            freed[node] = (g + gpus, c + cpus, m + mem)
    return freed


def _room(node: NodeView, freed: _Room) -> _Room:
    return (
        node.num_gpus - node.gpus_used + freed[0],
        node.num_cpus - node.cpus_used + freed[1],
        node.mem_bytes - node.mem_used_bytes + freed[2],
    )


def _suits(node: NodeView, request: Request) -> bool:
    wanted = set(re.split("[&,]", request.features)) if request.features else set()
    types = {option.gpu_type for option in request.gpu_options} - {None}
    return wanted <= set(node.features) and (
        not types or bool(types & {gpu_type for gpu_type, _ in node.gpus})
    )


def _has_room(request: Request, rooms: Sequence[_Room]) -> bool:
    most = min(max(request.nodes.minimum, request.nodes.maximum), len(rooms))
    whole = (request.gpus.minimum, request.num_cpus, request.mem_bytes)
    for num_nodes in range(max(1, request.nodes.minimum), most + 1):
        share = [-(-amount // num_nodes) for amount in whole]
        enough = [
            r for r in rooms if all(has >= needs for has, needs in zip(r, share, strict=True))
        ]
        if len(enough) >= num_nodes:
            return True
    return False
