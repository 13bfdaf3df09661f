"""Which leases are long enough, and whether freed GPUs reach the job that they are freed for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.jobs import T0, snapshot, view
from support.toy_slurm import node

from gsched.engine.lease_rules import DEFAULT_LEASE_S, FIRST_SAVE_S, HandOver, fits
from gsched.model.cluster import ClusterState, NodeView, ReservationView
from gsched.model.job import Allocation, CountRange, GpuOption, JobState, JobView

NODES = (node("gn01", 8), node("gn02", 8))


def test_a_lease_on_slurms_own_terms() -> None:
    """cred_expire is 120 s by default: a lease of 40 minutes and more, an hour if not named."""
    cost = HandOver.measured([], wait_s=121)
    assert cost.save_s == FIRST_SAVE_S
    assert cost.shortest_lease_s == 20 * 181
    assert cost.refusal(cost.shortest_lease_s) == ""
    assert "shorter than 20 hand-overs of 181 s" in cost.refusal(900)
    assert cost.default_lease_s == 20 * 181
    assert HandOver.measured([10, 10, 500], wait_s=121).default_lease_s == DEFAULT_LEASE_S
    assert HandOver.measured([600], wait_s=121).default_lease_s == 20 * 721


def victim(job_id: int, where: dict[str, int], cpus: int = 4, mem: int = 0) -> JobView:
    held = Allocation(tuple(where), tuple(where.values()), T0)
    made = view(job_id, gpus=sum(where.values()), cpus=cpus, state=JobState.RUNNING)
    return replace(made, allocation=held, request=replace(made.request, mem_bytes=mem))


def waiting(gpus: int = 8, nodes: int = 1, **request: object) -> JobView:
    made = view(99, gpus=gpus)
    wanted = replace(made.request, nodes=CountRange(nodes, nodes), **request)  # type: ignore[arg-type]
    return replace(made, request=wanted)


def state(*nodes: NodeView, **parts: object) -> ClusterState:
    return replace(snapshot([]), nodes=nodes or NODES, **parts)  # type: ignore[arg-type]


ON_BOTH = [victim(1, {"gn01": 8}), victim(2, {"gn02": 8})]


def test_room_is_counted_node_by_node() -> None:
    assert fits(waiting(8), ON_BOTH[:1], state())
    assert not fits(waiting(16), ON_BOTH, state())  # on one node
    assert fits(waiting(16, nodes=2), ON_BOTH, state())
    assert not fits(waiting(16, nodes=2), ON_BOTH[:1], state())
    halves = [victim(1, {"gn01": 4, "gn02": 4})]
    assert not fits(waiting(8), halves, state())
    assert fits(waiting(8, nodes=2), halves, state())
    spread = replace(waiting(8), request=replace(waiting(8).request, nodes=CountRange(1, 2)))
    assert fits(spread, halves, state())
    free = replace(NODES[0], gpus_used=4)
    assert fits(waiting(8), [victim(1, {"gn01": 4})], state(free))


def test_cpus_and_memory_count_too() -> None:
    full = replace(NODES[0], cpus_used=64, mem_used_bytes=NODES[0].mem_bytes)
    wanted = waiting(8, num_cpus=32, mem_bytes=2**30)
    assert not fits(wanted, [victim(1, {"gn01": 8}, cpus=16, mem=2**30)], state(full))
    assert not fits(wanted, [victim(1, {"gn01": 8}, cpus=32, mem=2**29)], state(full))
    assert fits(wanted, [victim(1, {"gn01": 8}, cpus=32, mem=2**30)], state(full))


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "down"},
        {"flags": ("drain",)},
        {"partitions": ("other",)},
        {"gpus": (("h100", 8),)},
        {"features": ("ib",)},
    ],
)
def test_a_node_that_does_not_suit_is_no_room(changed: dict[str, object]) -> None:
    wanted = waiting(8, gpu_options=(GpuOption("a100", 8),), features="nvlink&ib")
    good = replace(NODES[0], features=("ib", "nvlink"))
    assert fits(wanted, ON_BOTH[:1], state(good))
    assert not fits(wanted, ON_BOTH[:1], state(replace(good, **changed)))  # type: ignore[arg-type]


def test_what_cannot_be_judged_is_no_room() -> None:
    assert not fits(waiting(8, licences="matlab:1"), ON_BOTH, state())
    assert not fits(waiting(8, features="[a|b]"), ON_BOTH, state())
    course = ReservationView("course", ("gn01",), T0, T0 + 3600)
    assert not fits(waiting(8), ON_BOTH[:1], state(reservations=(course,)))
    assert fits(waiting(8), ON_BOTH, state(reservations=(course,)))


def test_a_victim_of_unknown_place_frees_nothing() -> None:
    assert not fits(waiting(8), [replace(ON_BOTH[0], allocation=None)], state())
