"""The demand of pools from a history: names, gaps, the edges of what is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.app.ces.series import before_history, demand_of_pools, unnamed_share
from gsched.demand.jobs import Span
from gsched.model.node_use import NodeUse

STEP = 600
T0 = 1_700_000_400 // STEP * STEP
SPAN = Span(T0, T0 + 4 * STEP, STEP)
POOLS = {"a": ("a1", "a2", "a3"), "b": ("b1",)}


def use(start: int, end: int | None, *nodes: str, number: int | None = None) -> NodeUse:
    """Minutes from T0."""
    until = None if end is None else T0 + 60 * end
    return NodeUse(T0 + 60 * start, until, len(nodes) if number is None else number, nodes)


def values(uses: list[NodeUse], pool: str = "a", pools: dict[str, tuple[str, ...]] | None = None,
           unknown: list[bool] | None = None) -> list[float]:  # fmt: skip
    gaps = None if unknown is None else np.array(unknown)
    return demand_of_pools(uses, pools or POOLS, SPAN, gaps)[pool].values.tolist()


def test_a_job_over_two_pools_counts_in_each_by_its_nodes_there() -> None:
    uses = [use(0, 15, "a1", "a2", "b1"), use(12, 25, "a2", "elsewhere")]
    assert values(uses) == [2.0, 2.0, 1.0, 0.0]
    assert values(uses, "b") == [1.0, 1.0, 0.0, 0.0]


def test_jobs_that_share_a_node_need_it_once_and_one_that_runs_needs_it_to_the_end() -> None:
    uses = [use(0, 5, "a1"), use(2, 9, "a1"), use(-100000, None, "a3")]
    assert values(uses) == [2.0, 1.0, 1.0, 1.0]


def test_nodes_count_where_they_are_today() -> None:
    uses = [use(0, 9, "a1", "b1")]
    moved = {"a": ("a1", "b1"), "b": ("b2",)}
    assert values(uses, "a", moved)[0] == 2.0
    assert values(uses, "b", moved)[0] == 0.0


def test_uses_without_names_leave_gaps_in_all_of_several_pools() -> None:
    uses = [use(0, 9, "a1"), use(11, 15, number=2)]
    told = demand_of_pools(uses, POOLS, SPAN)
    for pool in POOLS:
        assert np.isnan(told[pool].values).tolist() == [False, True, False, False]
    assert unnamed_share(uses, SPAN) == 0.25
    assert unnamed_share(uses[:1], SPAN) == 0.0


def test_uses_without_names_count_in_the_only_pool_up_to_its_size() -> None:
    only = {"a": POOLS["a"]}
    assert values([use(0, 9, "a1"), use(0, 25, number=1)], "a", only) == [2.0, 1.0, 1.0, 0.0]
    assert values([use(0, 9, number=99)], "a", only)[0] == 3.0


def test_what_lies_before_the_first_job_that_ended_is_not_known() -> None:
    assert before_history([], SPAN).all()
    assert before_history([use(-9999, None, "a1")], SPAN).all()  # of ended ones nobody tells
    known = [use(-9999, None, "a1"), use(0, 12, "a2"), use(0, 20, "a3")]
    assert before_history(known, SPAN).tolist() == [True, True, False, False]
    told = values(known, unknown=before_history(known, SPAN).tolist())
    assert [math.isnan(v) for v in told] == [True, True, False, False]
    assert told[2] == 1.0


@given(
    st.lists(
        st.tuples(
            st.integers(-50, 50),
            st.integers(1, 60),
            st.sets(st.sampled_from([*POOLS["a"], *POOLS["b"], "x"]), min_size=1),
        ),
        max_size=12,
    )
)
def test_it_is_what_counting_minute_by_minute_gives(jobs: list[tuple[int, int, set[str]]]) -> None:
    uses = [use(start, start + length, *sorted(nodes)) for start, length, nodes in jobs]
    for pool, nodes in POOLS.items():
        for step, value in enumerate(values(uses, pool)):
            peaks = [
                len({n for s, length, names in jobs for n in names & set(nodes)
                     if s <= minute < s + length})
                for minute in range(10 * step, 10 * step + 10)
            ]  # fmt: skip
            assert value == max(peaks)


def test_a_span_off_the_steps_is_refused() -> None:
    with pytest.raises(ValueError, match="no steps"):
        Span(T0 + 1, T0 + STEP, STEP)
