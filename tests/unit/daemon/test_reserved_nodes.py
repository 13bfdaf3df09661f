"""For whom nodes are reserved, and which."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.jobs import T0, view
from support.queue import node

from gsched.daemon.reserved_nodes import Due, freed_for, nodes_for, usable_nodes, waiting_targets
from gsched.model.cluster import ClusterState, ReservationView
from gsched.model.decision import Admit, Decision, Reason
from gsched.model.job import (
    Allocation,
    Capability,
    CountRange,
    Exclusion,
    JobState,
    JobView,
    Lease,
    LeaseState,
)
from gsched.model.jobtable import JobTable

NODES = (node("n1"), node("n2"), node("n3"))
UNTIL = T0 + 1800


def state(*views: JobView, nodes: Any = NODES, reservations: Any = ()) -> ClusterState:
    return ClusterState("c", T0, 1, nodes, (), reservations, JobTable.from_views(views))


def decision(*views: JobView, is_due: Any = True) -> Decision:
    admits = tuple(Admit("a", v.key, T0, 0, T0 + 600, None, T0 + 900, 0.9) for v in views)
    reasons = {v.key: Reason("chronus.target", {"is_due": is_due}) for v in views}
    return Decision({}, admits, reasons, {})


def waiting(gpus: int = 8, **facts: Any) -> JobView:
    return replace(view(7, gpus=gpus), pending_reason="Resources", **facts)


def running(job: int, *nodes: str, lease: Lease | None = None, **facts: Any) -> JobView:
    held = Allocation(nodes, (8,) * len(nodes), T0 - 100)
    return replace(view(job, state=JobState.RUNNING, **facts), allocation=held, lease=lease)


@pytest.mark.parametrize(("gpus", "num_nodes"), [(8, 1), (12, 2), (16, 2)])
def test_gpus_are_rounded_up_to_whole_nodes(gpus: int, num_nodes: int) -> None:
    job = waiting(gpus)
    job = replace(job, request=replace(job.request, nodes=CountRange(1, 4)))
    assert waiting_targets(state(job), decision(job)) == {job.key: Due(job, num_nodes, 8)}


REORDER = Exclusion(Capability.REORDER, "held", "")


@pytest.mark.parametrize(
    "facts",
    [
        {"gpus": 4},
        {"pending_reason": "QOSMaxGRESPerUser"},
        {"pending_reason": "JobHeldUser"},
        {"eligible": T0 + 60},
        {"eligible": None},
        {"exclusions": (REORDER,)},
        {"waiting_tasks": 2},
        {"state": JobState.RUNNING},
        {"partitions": ("cpu",)},
    ],
)
def test_who_gets_none(facts: dict[str, Any]) -> None:
    gpus = facts.pop("gpus", 8)
    job = replace(waiting(gpus), **facts)
    assert waiting_targets(state(job), decision(job)) == {}


def test_only_a_promise_that_is_due_counts() -> None:
    job = waiting()
    assert waiting_targets(state(job), decision(job, is_due=False)) == {}
    assert waiting_targets(state(job), decision(job, is_due="yes")) == {}
    assert waiting_targets(state(job), replace(decision(job), actions=())) == {}


def test_spread_over_more_nodes_than_it_fills() -> None:
    job = waiting(16)
    job = replace(job, request=replace(job.request, nodes=CountRange(4, 4)))
    assert waiting_targets(state(job), decision(job)) == {}


def test_features_that_no_node_is_known_to_have() -> None:
    job = waiting()
    for features, found in (("fast", 1), ("fast&new", 0), ("fast|new", 0), ("", 1)):
        asks = replace(job, request=replace(job.request, features=features))
        here = state(asks, nodes=(node("n1", features=("fast",)),))
        assert len(waiting_targets(here, decision(asks))) == found, features


def test_those_that_are_free_first() -> None:
    job = waiting()
    due = Due(job, 1, 8)
    long = running(1, "n1", time_limit_s=9000)
    short = running(2, "n2", time_limit_s=600)
    leased = running(3, "n3", lease=Lease("l", LeaseState.GRANTED, T0 - 100, 300))
    assert nodes_for(due, state(job, long, short), (), (), UNTIL) == ("n3",)
    assert nodes_for(due, state(job, long, short, leased), (), (), UNTIL) == ("n3",)
    gives = running(1, "n1", lease=Lease("l", LeaseState.ENDING, T0 - 100, 9000, "7"))
    assert nodes_for(due, state(job, gives, short, leased), (), (), UNTIL) == ("n1",)
    assert freed_for(job, state(job, gives, short)) == {"n1"}
    early = running(1, "n1", duration_s=150.0, time_limit_s=9000)
    assert nodes_for(due, state(job, early, short, leased), (), (), UNTIL) == ("n1",)
    outrun = running(1, "n1", duration_s=50.0, time_limit_s=9000)
    assert nodes_for(due, state(job, outrun, short, leased), (), (), UNTIL) == ("n3",)


def test_never_those_of_others() -> None:
    job = waiting()
    due = Due(job, 1, 8)
    others = ReservationView("maint", ("n1",), T0 - 10, T0 + 10)
    soon = ReservationView("course", ("n2",), UNTIL - 1, UNTIL + 999)
    far = ReservationView("later", ("n3",), UNTIL, UNTIL + 999)
    here = state(job, reservations=(others, soon, far))
    assert nodes_for(due, here, (), (), UNTIL) == ("n3",)
    assert nodes_for(due, here, ("maint",), (), UNTIL) == ("n1",)
    assert nodes_for(due, here, (), ("n3",), UNTIL) == ()
    assert nodes_for(Due(job, 2, 8), here, (), (), UNTIL) == ()


def test_nodes_that_are_down_or_of_another_size() -> None:
    job = waiting()
    down = replace(node("n1"), state="down")
    here = state(job, nodes=(down, node("n2", 4), node("n3")))
    assert usable_nodes(here) == {"n2", "n3"}
    assert waiting_targets(here, decision(job))[job.key] == Due(job, 1, 8)
    assert nodes_for(Due(job, 1, 8), here, (), (), UNTIL) == ("n3",)
