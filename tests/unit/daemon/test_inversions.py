"""Pairs turned round, counted in columns and one by one."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.slurm_bench import Bench

from gsched.daemon.inversions import Inversions, Queue, count

PARTITIONS = (
    frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"}), frozenset({"b", "c"}),
)  # fmt: skip

Line = tuple[int, int, int, int, int]
"""Slurm's own sum, the one with gsched's values, QOS and fair-share points, and the group."""


def queue(lines: Sequence[Line]) -> Queue:
    columns = np.array(lines, dtype=np.int64).reshape(-1, 5).T
    return Queue(np.arange(len(lines)), *columns, partitions=PARTITIONS)


def one_by_one(lines: Sequence[Line]) -> Inversions:
    """The definition, word by word."""
    qos = fairshare = pairs = 0
    for (i, a), (j, b) in itertools.permutations(enumerate(lines), 2):
        if PARTITIONS[a[4]].isdisjoint(PARTITIONS[b[4]]):
            continue
        if not (a[0] > b[0] or (a[0] == b[0] and i < j)):
            continue  # of each pair once: a is the one that Slurm has first
        pairs += 1
        turned = b[1] > a[1] or (b[1] == a[1] and j < i)
        qos += turned and a[2] > b[2]
        fairshare += turned and a[3] > b[3]
    return Inversions(qos, fairshare, pairs)


def test_what_makes_it_another_queue() -> None:
    before = queue([(5, 5, 1, 1, 0), (4, 4, 2, 2, 0)])
    assert before.is_same_as(queue([(9, 8, 1, 1, 0), (7, 2, 2, 2, 0)]))  # the same order
    for other in (
        [(4, 5, 1, 1, 0), (5, 4, 2, 2, 0)],  # Slurm's own order
        [(5, 4, 1, 1, 0), (4, 5, 2, 2, 0)],  # gsched's
        [(5, 5, 3, 1, 0), (4, 4, 2, 2, 0)],  # QOS points
        [(5, 5, 1, 3, 0), (4, 4, 2, 2, 0)],  # fair-share points
        [(5, 5, 1, 1, 1), (4, 4, 2, 2, 0)],  # partitions
        [(5, 5, 1, 1, 0)],
    ):
        assert not before.is_same_as(queue(other))
        assert not queue(other).is_same_as(before)
    assert not before.is_same_as(None)
    assert not before.is_same_as(replace(before, number=before.number + 1))
    assert not before.is_same_as(replace(before, partitions=PARTITIONS[::-1]))


few = st.integers(0, 4)


@given(st.lists(st.tuples(few, few, few, few, st.integers(0, len(PARTITIONS) - 1)), max_size=30))
def test_it_is_what_counting_one_by_one_gives(lines: list[Line]) -> None:
    assert count(queue(lines)) == one_by_one(lines)


def test_blocks_make_no_difference() -> None:
    random = np.random.default_rng(5)
    lines = [tuple(line) for line in random.integers(0, 4, size=(300, 5)).tolist()]
    whole = count(queue(lines))
    assert count(queue(lines), pairs_at_once=700) == whole == one_by_one(lines)
    assert whole.qos > 0 < whole.fairshare


def bench_with(*points: dict[str, int]) -> Bench:
    """Jobs 1, 2, … with these points besides the partition's."""
    bench = Bench(*range(1, len(points) + 1))
    bench.client.points = dict(enumerate(points, 1))
    return bench


def test_a_round_by_hand() -> None:
    """Three jobs: 3 has QOS points and comes last by gsched, 2 has fair-share and comes first."""
    bench = bench_with({}, {"fairshare": 10}, {"qos": 40})
    assert bench.backend.inversions() is None
    bench.plan(j1=0.1, j2=0.5, j3=-0.5)
    # all sums are alike in this Slurm, so that the numbers decide: 1, 2, 3; then 2, 1, 3
    assert bench.backend.inversions() == Inversions(0, 0, 3)
    bench.seconds += 60
    bench.plan(j1=0.1, j2=-0.5, j3=0.5)  # 3, 1, 2: turned are (1, 3), (2, 3), without points
    assert bench.backend.inversions() == Inversions(0, 1, 3)  # 2 had more fair-share than 3
    assert Inversions(0, 1, 3).document() == {"qos": 0, "fairshare": 1, "pairs": 3}


def test_values_that_stand_do_not_count_as_slurms_own() -> None:
    bench = bench_with({"qos": 1}, {})
    bench.plan(j2=0.5)
    before = bench.backend.inversions()
    bench.client.factors[2] = 500
    bench.stands(2, 0, 500)
    bench.seconds += 60
    bench.plan(j2=0.5)
    assert bench.backend.inversions() == before == Inversions(1, 0, 1)


def test_jobs_without_a_sum_of_their_own_are_left_out() -> None:
    bench = bench_with({}, {"qos": 9}, {"qos": 9}, {"qos": 9})
    bench.client.manual = {2}
    bench.client.hidden = {3}
    bench.plan(j1=-0.5)
    assert bench.backend.inversions() == Inversions(0, 0, 1)


def test_they_are_counted_when_the_order_has_changed_and_once_a_minute_at_most() -> None:
    bench = bench_with({"qos": 1}, {})
    counted = []

    def inverted() -> int:
        found = bench.backend.inversions()
        assert found is not None
        counted.append(found)
        return found.qos

    bench.plan(j1=0.5)
    assert inverted() == 0
    bench.seconds += 59
    bench.plan(j1=-0.5)
    assert inverted() == 0
    bench.seconds += 1
    bench.plan(j1=-0.5)
    assert inverted() == 1
    bench.seconds += 60
    bench.client.base += 7  # all have aged alike: the same order
    bench.plan(j1=-0.5)
    assert inverted() == 1
    assert counted[-1] is counted[-2]


def test_jobs_that_do_not_meet_make_no_pair() -> None:
    bench = bench_with({"qos": 1}, {})
    bench.client.rows[2] = replace(bench.client.rows[2], partitions=("cpu",))
    bench.plan(j1=-0.5)
    assert bench.backend.inversions() == Inversions(0, 0, 0)
