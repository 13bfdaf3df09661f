"""What is kept of jobs between looks, and what is let go."""

from __future__ import annotations

import pytest
from support.queue import row as queue_row
from support.slurm_bench import Bench


def test_keys_of_jobs_that_are_gone_are_let_go_and_the_others_kept() -> None:
    """A daemon runs for months: were nothing let go, it would know every job that ever was."""
    bench = Bench(*range(1, 6))
    rows = dict(bench.client.rows)
    bench.snapshot()
    assert bench.epoch_lookups == [[1, 2, 3, 4, 5]]
    for raw_id in (4, 5):
        del bench.client.rows[raw_id]
    bench.snapshot()
    bench.client.rows |= rows
    bench.snapshot()
    assert len(bench.epoch_lookups) == 1  # a few are kept: they cost less than to look them up
    bench.client.rows = {1: rows[1]}
    bench.snapshot()
    bench.client.rows = dict(rows)
    bench.snapshot()
    assert bench.epoch_lookups[1:] == [[2, 3, 4, 5]]


def test_jobs_that_come_and_go_one_by_one_are_let_go_too() -> None:
    bench = Bench()
    for raw_id in [*range(1, 30), *range(1, 30)]:
        bench.client.rows = {raw_id: queue_row(raw_id)}
        bench.snapshot()
    assert len(bench.epoch_lookups) == 2 * 29


def test_what_gsched_wrote_before_is_not_taken_for_another_hands() -> None:
    """A slurmctld that was killed comes back with the values that it had saved last."""
    bench = Bench(1)

    def is_left_alone(shown: int) -> bool:
        bench.client.factors[1] = shown
        (view,) = bench.snapshot().jobs.views
        return "foreign-site-factor" in {why.code for why in view.exclusions}

    for written in (100, 200, 300):
        bench.stands(1, 0, written)
        assert not is_left_alone(written)
    assert not is_left_alone(100)
    assert is_left_alone(250)
    for written in range(301, 310):
        bench.stands(1, 0, written)
        assert not is_left_alone(written)
    assert is_left_alone(100)  # so many writes slurmctld does not forget


@pytest.mark.parametrize("tasks", ["2", "2%1"])
def test_the_last_task_of_an_array_has_one_key_from_when_it_waits_alone(tasks: str) -> None:
    """Slurm gives it the number of the array: what was promised to it would be nobody's."""
    bench = Bench(1)

    def named(**facts: object) -> str:
        bench.client.rows[20] = queue_row(20, **facts)
        return next(v.key for v in bench.snapshot().jobs.views if v.key.job_id == 20).slurm_id

    whole = {"is_unsplit_array": True}
    assert named(array_tasks="1-2", **whole) == "20"
    assert named(array_tasks=tasks, **whole) == "20_2"
    assert named(job_id=20, array_task=2) == "20_2"
    assert named(array_tasks="1-2", **whole) == "20"


def test_a_task_that_slurm_splits_off_between_two_looks_has_its_own_key() -> None:
    bench = Bench(1)
    bench.client.rows[20] = queue_row(20, is_unsplit_array=True, array_tasks="1-2")
    bench.snapshot()
    bench.client.rows[20] = queue_row(20, job_id=20, array_task=2)
    assert "20_2" in {view.key.slurm_id for view in bench.snapshot().jobs.views}
