"""What is free of each pool over time: promises, running jobs, leases and reservations apart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.queue import node, row

from gsched.app.pool_plan import PoolPlan, pool_plans
from gsched.app.queued_job import QueuedJob
from gsched.model.cluster import ReservationView
from gsched.model.job import UNLIMITED_S, JobState
from gsched.slurm.records import FreeText

AT = 1_796_634_000
TWO = (node("n1"), node("n2"))


def job(raw_id: int, answer: dict[str, Any] | None = None, **facts: Any) -> QueuedJob:
    return QueuedJob(row(raw_id, **facts), FreeText("", ""), answer or {}, AT)


def running(raw_id: int, end: int | None, **facts: Any) -> QueuedJob:
    limit_s = UNLIMITED_S if end is None else 60
    ends = {"end_time": end or AT + 10**8, "time_limit_s": limit_s, "start_time": AT - 60}
    told = {"state": JobState.RUNNING, "state_text": "RUNNING", "num_gpus": 4, **ends, **facts}
    return job(raw_id, **told)


def promised(raw_id: int, *plan: tuple[int, int, int], **facts: Any) -> QueuedJob:
    target = {"state": "on-target", "plan": [list(part) for part in plan]}
    return job(raw_id, {"target": target}, **facts)


def free(*jobs: QueuedJob, reservations: tuple[ReservationView, ...] = ()) -> list[tuple[int, int]]:
    """What is left of 16 GPUs, by seconds from now."""
    (pool,) = pool_plans(TWO, reservations, jobs, AT)
    assert (pool.name, pool.num_gpus) == ("gpu", 16)
    return [(time - AT, gpus) for time, gpus in pool.free]


def test_promises_take_what_they_are_to_hold() -> None:
    plan = ((AT + 100, AT + 200, 8), (AT + 300, AT + 400, 8))
    assert free(promised(1, *plan)) == [(0, 16), (100, 8), (200, 16), (300, 8), (400, 16)]
    begun = (AT - 50, AT + 50, 8)  # of what is over nothing is left
    assert free(promised(1, begun)) == [(0, 8), (50, 16)]
    assert free(promised(1, (AT - 50, AT, 8))) == [(0, 16)]


def test_a_running_job_keeps_its_gpus_until_its_limit() -> None:
    assert free(running(1, AT + 600)) == [(0, 12), (600, 16)]
    assert free(running(1, None)) == [(0, 12)]
    assert free(running(1, AT - 5)) == [(0, 12), (1, 16)]  # it is being ended
    cleaned_up = {"state": JobState.COMPLETING}
    assert free(running(1, AT + 600, **cleaned_up)) == [(0, 12), (600, 16)]
    assert free(job(1), running(2, AT + 9, num_gpus=0)) == [(0, 16)]


def test_one_that_runs_by_a_lease_keeps_them_until_that_is_over() -> None:
    lease = {"answer": {"lease": {"state": "granted", "since": AT - 9, "end_time": AT + 60}}}
    assert free(running(1, AT + 600, **lease)) == [(0, 12), (60, 16)]
    assert free(running(1, None, **lease)) == [(0, 12), (60, 16)]
    assert free(running(1, AT + 30, **lease)) == [(0, 12), (30, 16)]


def test_a_running_target_holds_what_its_plan_says_and_no_more() -> None:
    state = {"state": JobState.RUNNING, "state_text": "RUNNING", "num_gpus": 4}
    target = promised(1, (AT, AT + 50, 4), end_time=AT + 600, time_limit_s=900, **state)
    assert free(target) == [(0, 12), (50, 16)]


def test_reserved_nodes_are_nobody_s() -> None:
    reserved = ReservationView("maint", ("n1", "elsewhere"), AT + 100, AT + 200)
    assert free(reservations=(reserved,)) == [(0, 16), (100, 8), (200, 16)]


def test_more_than_there_is_is_nothing() -> None:
    assert free(*(running(n, AT + 600, num_gpus=8) for n in range(3))) == [(0, 0), (600, 16)]


def test_partitions_that_share_nodes_are_one_pool_and_broken_nodes_none() -> None:
    nodes = (
        node("n1", partition="gpu"),
        node("n2", gpus=2, partition="fast"),
        node("n3", gpus=4, partition="big"),
        node("n4", gpus=0, partition="cpu"),
        replace(node("n5", partition="broken"), state="down"),
        replace(node("n6"), partitions=("fast", "gpu")),
    )
    jobs = [running(1, AT + 60, partitions=("fast",)), running(2, AT + 60, partitions=("gone",))]
    found = pool_plans(nodes, (), jobs, AT)
    assert [(pool.name, pool.num_gpus, pool.free[0][1]) for pool in found] == [
        ("big", 4, 4), ("fast,gpu", 18, 14),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("begin", "end", "least"),
    [(0, 10, None), (0, 11, 8), (10, 20, 8), (15, 25, 3), (20, 30, 3), (25, 90, 3), (30, 90, 5)],
)
def test_the_least_that_is_free_in_a_time(begin: int, end: int, least: int | None) -> None:
    assert PoolPlan("gpu", 8, ((10, 8), (20, 3), (30, 5))).least_free(begin, end) == least
