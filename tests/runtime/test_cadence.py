"""When to take a snapshot and when to write one, from what they cost."""

from __future__ import annotations

import math

import pytest

from gsched.runtime.checkpoint.cadence import (
    MAX_INTERVAL_S,
    MAX_PATIENCE_S,
    MIN_INTERVAL_S,
    Cadence,
    young_daly_s,
)


def lost_share(interval_s: float, cost_s: float, mtbf_s: float) -> float:
    """Of the time, by checkpoints and by work that is done again: first order."""
    return cost_s / interval_s + interval_s / (2 * mtbf_s)


@pytest.mark.parametrize(("cost_s", "mtbf_s"), [(0.5, 3600.0), (20.0, 1e6)])
def test_no_other_interval_loses_less(cost_s: float, mtbf_s: float) -> None:
    best = young_daly_s(cost_s, mtbf_s)
    for factor in (0.5, 0.9, 1.1, 2.0):
        assert lost_share(best * factor, cost_s, mtbf_s) > lost_share(best, cost_s, mtbf_s)


def measured(stall_s: float, write_s: float, alone_s: float, beside_s: float) -> Cadence:
    cadence = Cadence(None, None, mtbf_s=1e6)
    for step in range(3):
        cadence.snapshot_taken(step, stall_s)
        cadence.write_s.add(write_s)
        cadence.step_took(alone_s, writing=False)
        cadence.step_took(beside_s, writing=True)
    return cadence


def test_the_cost_is_the_stall_and_the_work_that_the_writer_takes() -> None:
    assert measured(0.2, 10.0, 1.0, 1.0).cost_s == pytest.approx(0.2)
    # in 10 s at 1.25 s a step 8 steps are done, at 1 s a step 10 would have been
    assert measured(0.2, 10.0, 1.0, 1.25).cost_s == pytest.approx(0.2 + 2.0)
    assert measured(0.2, 10.0, 1.0, 0.9).cost_s == pytest.approx(0.2)


def test_the_interval_follows_the_cost_within_bounds() -> None:
    assert measured(0.2, 1.0, 1.0, 1.0).interval_s == pytest.approx(math.sqrt(2 * 0.2 * 1e6))
    assert measured(0.0, 1.0, 1.0, 1.0).interval_s == MIN_INTERVAL_S
    assert measured(30.0, 1.0, 60.0, 60.0).interval_s == MAX_INTERVAL_S
    assert measured(0.0, 60.0, 1.0, 1.0).interval_s == 120.0  # the writer needs half of it
    assert Cadence(7.0, None, 1e6).interval_s == 7.0


def test_snapshots_come_as_often_as_cost_a_hundredth() -> None:
    cadence = measured(0.0495, 1.0, 1.0, 1.0)
    assert cadence.steps_between_snapshots == 5
    due = [step for step in range(2, 18) if cadence.wants_snapshot(step)]
    assert due == [7, 12, 17]
    assert Cadence(None, 3, 1e6).steps_between_snapshots == 3


def test_a_first_snapshot_that_makes_memory_does_not_count() -> None:
    cadence = Cadence(None, None, 1e6)
    cadence.snapshot_taken(1, 9.0, is_typical=False)
    assert cadence.stall_s.value is None
    assert cadence.steps_between_snapshots == 1


def test_a_checkpoint_is_wanted_once_when_its_time_comes() -> None:
    fixed = Cadence(10.0, None, 1e6)
    assert [t for t in range(100, 135) if fixed.wants_persist(t)] == [110, 120, 130]
    automatic = Cadence(None, None, 1e6)
    assert [t for t in range(100, 125) if automatic.wants_persist(t)] == [100, 110, 120]
    fixed.persist_asked(135.0)
    assert not fixed.wants_persist(144.0)
    assert fixed.wants_persist(145.0)


def test_a_writer_is_waited_for_three_intervals_and_three_times_what_it_takes() -> None:
    often = Cadence(5.0, None, mtbf_s=1e6)
    assert often.patience_s(1000) == 15.0
    assert often.patience_s(10**9) == pytest.approx(60.0), "1 GB at 50 MB/s, three times"
    often.write_s.add(7.0)
    assert often.patience_s(10**9) == 21.0
    assert Cadence(3600.0, None, mtbf_s=1e6).patience_s(1000) == MAX_PATIENCE_S
