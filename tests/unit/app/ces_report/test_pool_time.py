"""Nodes by state as steps in time with gaps, by hand and second by second."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ces_report import T0, counted

from gsched.app.ces_report.pool_figures import Course, PoolFigures
from gsched.app.ces_report.pool_time import KnownTime, pool_times
from gsched.model.node_power import MAX_GAP_S

HOUR_END = T0 + 3600
AN_HOUR = [
    counted(-300, running=2, idle=2),
    counted(300, running=3, asleep=1),
    counted(900, running=1, asleep=3),  # the next count comes 1,200 s later: not bridged
    counted(2100, running=4, excluded=1),
    counted(2700, running=2, asleep=2),
    counted(3600, running=9),
]


def test_means_are_over_the_known_time_alone() -> None:
    (pool,) = pool_times(AN_HOUR, T0, HOUR_END)
    assert (pool.known.begin - T0).tolist() == [0, 300, 2100, 2700]
    assert (pool.known.end - T0).tolist() == [300, 900, 2700, 3600]
    told = PoolFigures.of("all", [pool], pool.known)
    assert told.known_s == 2400
    # running 2·300 + 3·600 + 4·600 + 2·900 = 6600, all 4·2400 = 9600, asleep 600 + 1800 = 2400
    assert told.utilisation == pytest.approx(6600 / 9600)
    assert told.awake_utilisation == pytest.approx(6600 / 7200)
    assert told.mean["asleep"] == pytest.approx(1.0)
    assert told.mean["excluded"] == pytest.approx(600 / 2400)
    assert told.mean["total"] == pytest.approx(4.0)
    assert told.asleep_node_hours == pytest.approx(2 / 3)
    assert told.most_asleep == 2  # 3 slept at 900, but nobody knows for how long


def test_a_gap_of_just_the_limit_is_bridged_and_a_second_more_is_not() -> None:
    for gap_s, known_s in ((MAX_GAP_S, MAX_GAP_S), (MAX_GAP_S + 1, 0)):
        (pool,) = pool_times([counted(0, idle=1), counted(gap_s, idle=1)], T0, T0 + 5000)
        assert pool.known.length_s == known_s


def test_after_the_last_count_nothing_is_known() -> None:
    (pool,) = pool_times([counted(0, idle=1)], T0, T0 + 100)
    told = PoolFigures.of("all", [pool], pool.known)
    assert told.known_s == 0
    assert told.mean["idle"] is told.utilisation is told.most_asleep is None


def test_where_all_sleep_the_use_of_awake_nodes_is_unknown() -> None:
    (pool,) = pool_times([counted(0, asleep=2), counted(60, asleep=2)], T0, T0 + 60)
    told = PoolFigures.of("all", [pool], pool.known)
    assert (told.utilisation, told.awake_utilisation) == (0.0, None)


def test_pools_together() -> None:
    """b is there for the first half only: its nodes count for the time in which it was."""
    counts = [
        *(counted(at, "a", running=1, asleep=1) for at in (0, 600, 1200)),
        *(counted(at, "b", running=2, asleep=3) for at in (0, 600)),
    ]
    times = pool_times(counts, T0, T0 + 1200)
    known = KnownTime.union(time.known for time in times)
    told = PoolFigures.of("all", times, known)
    assert told.known_s == 1200
    assert told.mean["running"] == pytest.approx((1200 + 2 * 600) / 1200)
    assert told.utilisation == pytest.approx(2400 / (2400 + 3000))
    assert told.most_asleep == 4


def test_the_course_has_no_value_where_less_than_half_is_known() -> None:
    (pool,) = pool_times(AN_HOUR, T0, HOUR_END)
    course = Course.of([pool], pool.known, T0, HOUR_END)
    assert course.step_s == 60
    assert course.time[0] == T0
    assert course.running[:15].tolist() == [2.0] * 5 + [3.0] * 10
    assert np.isnan(course.running[15:35]).all()
    assert course.awake[35:].tolist() == [4.0] * 10 + [2.0] * 15
    whole = Course.of([pool], pool.known, T0, T0 + 240 * 3600)
    assert whole.step_s == 3600
    assert whole.running[0] == pytest.approx(6600 / 2400)
    assert np.isnan(whole.running[1:]).all()


def test_half_a_step_is_enough_and_less_is_not() -> None:
    (pool,) = pool_times([counted(at, running=2) for at in (0, 30)], T0, T0 + 60)
    assert Course.of([pool], pool.known, T0, T0 + 60).running.tolist() == [2.0]
    (pool,) = pool_times([counted(at, running=2) for at in (0, 29)], T0, T0 + 60)
    assert np.isnan(Course.of([pool], pool.known, T0, T0 + 60).running).all()


def test_seconds_known_of_times_before_within_and_behind() -> None:
    known = KnownTime(np.array([500, 1000]), np.array([700, 1100]))
    begin, end = np.array(
        [[0, 600], [0, 500], [650, 1050], [700, 1000], [1050, 9999], [600, 100]]
    ).T
    assert known.within(begin, end).tolist() == [100, 0, 100, 0, 50, 0]


counts_of_a_pool = st.lists(
    st.tuples(st.integers(1, 1000), st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=9
)


@given(counts_of_a_pool, st.integers(0, 900), st.integers(1, 2000))
def test_integrals_are_those_of_a_walk_second_by_second(
    drawn: list[tuple[int, int, int]], since: int, length: int
) -> None:
    times = np.cumsum([gap_s for gap_s, _, _ in drawn]) - 500
    by_time = {int(at): told[1:] for at, told in zip(times, drawn, strict=True)}
    counts = [counted(at, running=r, asleep=a) for at, (r, a) in by_time.items()]
    until = since + length
    known_s = running_s = asleep_s = 0
    for second in range(since, until):
        before = [at for at in by_time if at <= second]
        after = [at for at in by_time if at > second]
        if before and after and min(after) - max(before) <= MAX_GAP_S:
            known_s += 1
            running_s += by_time[max(before)][0]
            asleep_s += by_time[max(before)][1]
    for pool in pool_times(counts, T0 + since, T0 + until):
        assert pool.known.length_s == known_s
        assert pool.node_s(pool.nodes["running"]) == running_s
        assert pool.node_s(pool.nodes["asleep"]) == asleep_s
        edges = T0 + np.array([since, since + length // 3, until])
        assert pool.node_s_by(pool.nodes["running"], edges).sum() == running_s
        assert pool.known.within(edges[:-1], edges[1:]).sum() == known_s


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60)), max_size=6))
def test_the_union_knows_what_any_part_knows(drawn: list[tuple[int, int]]) -> None:
    parts = [(min(pair), max(pair)) for pair in drawn if pair[0] != pair[1]]
    union = KnownTime.union(KnownTime(np.array([begin]), np.array([end])) for begin, end in parts)
    seconds = np.arange(-1, 62)
    expected = [any(begin <= s < end for begin, end in parts) for s in seconds]
    assert union.holds(seconds).tolist() == expected
    assert union.length_s == sum(expected)
