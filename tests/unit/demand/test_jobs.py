"""Demand from jobs: the greatest sum in each step, shared nodes once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.demand.jobs import Span, Use, busy_nodes, demand_by_kind, demand_of_jobs

MINUTES = Span(0, 300, 60)


def test_a_step_tells_the_greatest_sum_at_one_time():
    uses = [Use(-500, 61, 4), Use(70, 80, 8), Use(80, 100, 8), Use(130, None, 1)]
    assert demand_of_jobs(uses, MINUTES, "GPUs").values.tolist() == [4, 8, 1, 1, 1]


def test_what_ends_as_another_begins_is_not_counted_twice():
    assert demand_of_jobs([Use(0, 60, 4), Use(60, 120, 4)], MINUTES, "GPUs").values.tolist() == [
        4, 4, 0, 0, 0,
    ]  # fmt: skip


def test_jobs_beside_the_span_or_of_no_length_hold_nothing():
    uses = [Use(-10, 0, 4), Use(300, 400, 4), Use(90, 90, 4), Use(90, 50, 4), Use(0, 300, 0)]
    assert not demand_of_jobs(uses, MINUTES, "GPUs").values.any()
    assert demand_of_jobs([], MINUTES, "GPUs").values.tolist() == [0] * 5


def test_each_kind_has_a_series_of_its_own():
    uses = [Use(0, 60, 4, "a100"), Use(0, 120, 2, "v100"), Use(60, 120, 1, "a100")]
    told = demand_by_kind(uses, MINUTES, "GPUs")
    assert {kind: each.values.tolist() for kind, each in told.items()} == {
        "a100": [4, 1, 0, 0, 0],
        "v100": [2, 2, 0, 0, 0],
    }


def test_a_node_that_runs_several_jobs_is_one_node():
    uses = [
        Use(0, 100, 1, nodes=("n1",)),
        Use(50, 200, 2, nodes=("n1", "n2")),
        Use(0, 60, 3),
    ]
    assert busy_nodes(uses, MINUTES).values.tolist() == [5, 2, 2, 2, 0]


def test_a_span_is_of_whole_steps():
    with pytest.raises(ValueError, match="steps"):
        Span(30, 300, 60)
    assert Span(60, 330, 60).num_steps == 4


@given(
    st.lists(st.tuples(st.integers(-50, 350), st.integers(0, 200), st.integers(1, 9)), max_size=12)
)
def test_sums_are_those_of_looking_at_every_second(jobs):
    uses = [Use(start, start + length, amount) for start, length, amount in jobs]
    wanted = [
        max(
            sum(use.amount for use in uses if use.start <= second < (use.end or 0))
            for second in range(60 * step, 60 * step + 60)
        )
        for step in range(5)
    ]
    assert demand_of_jobs(uses, MINUTES, "GPUs").values.tolist() == wanted


def test_a_short_job_within_a_long_one_does_not_free_its_node():
    uses = [Use(0, 240, 1, nodes=("n1",)), Use(60, 90, 1, nodes=("n1",))]
    assert busy_nodes(uses, MINUTES).values.tolist() == [1, 1, 1, 1, 0]


def test_a_job_that_runs_still_holds_its_nodes_to_the_end():
    uses = [Use(130, None, 2, nodes=("n1", "n2")), Use(200, None, 3)]
    assert busy_nodes(uses, MINUTES).values.tolist() == [0, 0, 2, 5, 5]


def test_what_is_no_amount_takes_nothing_away():
    uses = [Use(0, 300, 4), Use(0, 300, -3), Use(250, 50, 2)]
    assert demand_of_jobs(uses, MINUTES, "GPUs").values.tolist() == [4] * 5


names = st.lists(st.sampled_from(["n1", "n2", "n3"]), max_size=3, unique=True)


@given(
    st.lists(
        st.tuples(st.integers(-50, 350), st.none() | st.integers(-20, 200), names), max_size=10
    )
)
def test_busy_nodes_are_those_of_looking_at_every_second(jobs):
    uses = [
        Use(start, None if length is None else start + length, len(held) or 2, nodes=tuple(held))
        for start, length, held in jobs
    ]

    def busy(second: int) -> int:
        now = [use for use in uses if use.start <= second < (300 if use.end is None else use.end)]
        return len({name for use in now for name in use.nodes}) + 2 * sum(
            not use.nodes for use in now
        )

    wanted = [max(map(busy, range(60 * step, 60 * step + 60))) for step in range(5)]
    assert busy_nodes(uses, MINUTES).values.tolist() == wanted
