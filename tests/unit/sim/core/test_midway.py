"""A simulation cut in the middle and taken up again goes on as if nothing had happened."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from support.sim_jobs import sim_jobs
from support.sim_strategies import workloads

from gsched.model.progress import silent
from gsched.policy.order_form import OrderForm
from gsched.sim.cluster import SimCluster
from gsched.sim.core.midway import Holder, Midway, find_room, start_times
from gsched.sim.core.ordered_loop import run_ordered
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import Placement, Scheduler, SimRules

RULES = SimRules(scheduler=Scheduler.SLURM)
ONE_NODE_SIZES = (1, 1, 2, 3, 4, 8)
"""The segments of such jobs tell where they are."""


def rows_of(jobs: SimJobs, rows: NDArray[np.int64]) -> SimJobs:
    columns = {
        field.name: value[rows]
        for field in fields(jobs)
        if isinstance(value := getattr(jobs, field.name), np.ndarray)
    }
    return replace(jobs, **columns, ids=[jobs.ids[row] for row in rows])


def taken_up(
    whole: SimResult, keys: NDArray[np.float64], at_s: float, rules: SimRules
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The rows that have not started at a moment, and when they start from there."""
    jobs = whole.jobs
    runs = np.flatnonzero((whole.start_s <= at_s) & (whole.end_s > at_s))
    rest = np.flatnonzero(whole.start_s > at_s)
    rows = np.concatenate((runs, rest))
    some = rows_of(jobs, rows)
    submit_s = np.concatenate(
        (np.full(len(runs), some.submit_s.min(initial=0.0)), some.submit_s[len(runs) :])
    )
    left_s = some.duration_s.copy()
    left_s[: len(runs)] = whole.end_s[runs] - at_s
    node = np.zeros(len(jobs), dtype=np.int64)
    node[whole.segments.job] = whole.segments.node
    begun = Midway(
        held_for_s=at_s - whole.start_s[runs],
        first_piece=np.arange(len(runs) + 1),
        node=node[runs],
        gpus=jobs.num_gpus[runs].astype(np.int64),
    )
    start_s = start_times(
        replace(some, submit_s=submit_s - at_s, duration_s=left_s),
        whole.cluster,
        OrderForm.static(keys[rows]),
        rules,
        begun,
        np.ones(len(rows), dtype=np.bool_),
    )
    return rest, start_s[len(runs) :] + at_s


@settings(deadline=None)
@given(
    workloads(most=20, sizes=ONE_NODE_SIZES),
    st.integers(0, 120),
    st.booleans(),
    st.sampled_from([0, 25]),
)
def test_it_goes_on_as_if_nothing_had_happened(
    workload: tuple[SimJobs, SimCluster], second: int, by_submission: bool, bound_s: int
) -> None:
    jobs, cluster = workload
    rules = replace(RULES, starvation_bound_s=bound_s)
    keys = jobs.submit_s if by_submission else jobs.num_gpus * jobs.predicted_duration_s
    whole = run_ordered(jobs, cluster, OrderForm.static(keys), rules, "any", silent)
    rest, start_s = taken_up(whole, keys, float(second), rules)
    assert start_s.tolist() == whole.start_s[rest].tolist()


def test_it_ends_when_those_who_are_awaited_have_started() -> None:
    jobs = sim_jobs([0.0, 0.0, 5.0], [10.0, 20.0, 30.0], num_gpus=8)
    nothing = Midway(np.zeros(0), np.zeros(1, dtype=np.int64), *[np.zeros(0, dtype=np.int64)] * 2)
    start_s = start_times(
        jobs,
        SimCluster.uniform({"p": 1}),
        OrderForm.static(np.array([1.0, 0.0, 2.0])),
        RULES,
        nothing,
        np.array([True, False, False]),
    )
    assert start_s.tolist()[:2] == [20.0, 0.0]
    assert np.isnan(start_s[2])


class TestRoom:
    CLUSTER = SimCluster.uniform({"p": 3}, 4)

    def room(self, *holders: Holder) -> list[list[tuple[int, int]]]:
        return find_room(self.CLUSTER, holders, Placement.CONSOLIDATED)

    def test_known_pieces_stay_and_others_find_room_beside_them(self) -> None:
        known = Holder([(1, 3)])
        assert self.room(Holder((), num_gpus=1), known) == [[(1, 1)], [(1, 3)]]

    def test_the_largest_is_placed_first(self) -> None:
        small, large = Holder((), num_gpus=1), Holder((), num_gpus=4, num_nodes=2)
        assert self.room(small, large) == [[(0, 1)], [(0, 2), (1, 2)]]

    def test_what_fits_nowhere_takes_what_is_free(self) -> None:
        full = Holder([(0, 3), (1, 2), (2, 3)])
        assert self.room(full, Holder((), num_gpus=3)) == [list(full.pieces), [(1, 2), (0, 1)]]
        assert self.room(full, Holder((), num_gpus=9))[1] == [(1, 2), (0, 1), (2, 1)]

    @pytest.mark.parametrize("pieces", [[(0, 5)], [(0, 3), (0, 3)]])
    def test_nobody_holds_more_than_a_node_has(self, pieces: list[tuple[int, int]]) -> None:
        assert self.room(Holder(pieces), Holder([(0, 1), (1, 1)])) == [[(0, 4)], [(1, 1)]]
