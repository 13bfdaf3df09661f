"""What comes in: jobs that are none, rules that do not go together, an interrupt, no job at all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.sim_jobs import columns_of, sim_jobs

from gsched.errors import DataError, UsageError
from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.rules import Costs, SimRules
from gsched.sim.run import simulate

CLUSTER = SimCluster.uniform({"p": 2})
GOOD = sim_jobs([0, 1, 2], [5, 6, 7], num_gpus=[1, 2, 16], predicted_duration_s=1)


def with_row(name: str, row: int, value: float) -> SimJobs:
    column = getattr(GOOD, name).copy()
    column[row] = value
    return replace(GOOD, **{name: column})


def test_leases_in_which_no_job_gets_started_are_refused() -> None:
    jobs, costs = replace(GOOD, predicted_duration_s=GOOD.duration_s), Costs(restart_s=62)
    policy = load("tiresias-l", lease_s=60)
    with pytest.raises(UsageError, match="a lease of 60 s is over before"):
        simulate(jobs, CLUSTER, policy, SimRules(costs=costs))
    assert simulate(jobs, CLUSTER, policy, SimRules(costs=replace(costs, restart_s=59)))


def test_leases_shorter_than_a_round_are_refused() -> None:
    with pytest.raises(UsageError, match="over before the next round"):
        simulate(GOOD, CLUSTER, load("gandiva-fair", lease_s=5), SimRules(round_s=7))
    assert simulate(GOOD, CLUSTER, load("gandiva-fair", lease_s=7), SimRules(round_s=7))


def test_rounds_at_parts_of_a_second_are_refused() -> None:
    with pytest.raises(UsageError, match="whole seconds"):
        simulate(GOOD, CLUSTER, load("fifo"), SimRules(round_s=0.1))


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
@pytest.mark.parametrize(
    ("name", "row", "value", "what"),
    [
        ("submit_s", 1, np.nan, "job 2 has no submit time"),
        ("submit_s", 2, 0.5, "job 3 was submitted before the one in front of it"),
        ("duration_s", 0, 0.0, "job 1 does not run for a time above 0"),
        ("duration_s", 2, -3.0, "job 3 does not run for a time above 0"),
        ("duration_s", 1, np.nan, "job 2 does not run for a time above 0"),
        ("duration_s", 1, np.inf, "job 2 does not run for a time above 0"),
        ("num_gpus", 1, 0, "job 2 asks for no GPUs"),
        ("pool", 1, 1, "job 2 belongs to no pool"),
        ("pool", 1, -1, "job 2 belongs to no pool"),
        ("num_gpus", 2, 17, "job 3 can never fit on this cluster"),
        ("num_nodes", 0, 3, "job 1 can never fit on this cluster"),
    ],
)
def test_what_is_no_job_is_refused_by_its_id(
    policy: str, name: str, row: int, value: float, what: str
) -> None:
    if (name, row) == ("num_nodes", 0):  # one GPU is never on three nodes: give it three
        jobs = replace(with_row(name, row, value), num_gpus=np.array([3, 2, 16], dtype=np.int32))
    else:
        jobs = with_row(name, row, value)
    with pytest.raises(DataError) as caught:
        simulate(jobs, CLUSTER, load(policy))
    assert caught.value.message == what
    assert caught.value.hint


@pytest.mark.parametrize("policy", ["fifo", "srtf", "qssf"])
def test_no_jobs_are_no_trouble(policy: str) -> None:
    result = simulate(sim_jobs([], []), CLUSTER, load(policy))
    assert len(result.end_s) == len(result.segments.job) == 0
    assert result.energy_wh == 0


def test_a_first_tick_by_size_is_refused_where_keys_move() -> None:
    ticks = SimRules(size_first_tick_s=1.0)
    assert simulate(GOOD, CLUSTER, load("qssf"), ticks).path == "static"
    with pytest.raises(UsageError, match="srtf"):
        simulate(GOOD, CLUSTER, load("srtf"), ticks)


def many() -> SimJobs:
    draw = np.random.default_rng(1)
    return sim_jobs(
        np.cumsum(draw.integers(0, 60, 60_000)),
        draw.integers(1, 200, 60_000),
        num_gpus=draw.choice([1, 2, 8], 60_000),
    )


@pytest.mark.parametrize("policy", ["sjf", "srtf"])
def test_ctrl_c_leaves_the_finished_part_and_what_has_ended_is_as_it_would_have_been(
    policy: str,
) -> None:
    jobs = many()
    whole = simulate(jobs, CLUSTER, load(policy))
    told: list[int] = []

    def interrupt(_what: str, ended: int) -> None:
        told.append(ended)
        if ended > 10_000:
            raise KeyboardInterrupt

    part = simulate(jobs, CLUSTER, load(policy), told=interrupt)
    assert part.interrupted
    assert not whole.interrupted
    assert whole.finished.all()
    done = part.finished
    assert 10_000 < done.sum() < len(jobs)
    np.testing.assert_array_equal(part.end_s[done], whole.end_s[done])
    np.testing.assert_array_equal(part.start_s[done], whole.start_s[done])
    assert told == sorted(told)
    assert np.isfinite(columns_of(part)["run_s"]).all()
