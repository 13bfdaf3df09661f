"""Where jobs to come will stand in the queue."""

from __future__ import annotations

from typing import Any

import pytest
from support.queue import row
from support.scenes import MULTIFACTOR, NOW, predicted, view_of

from gsched.app.forecast.order import QueueOrder, queue_order
from gsched.slurm.records import SlurmConfig


def order_of(*jobs: tuple[int, float], by_prediction: bool = False, **config: str) -> QueueOrder:
    """Of jobs on one GPU, by priority and predicted run time, that were submitted just now."""
    rows: dict[Any, Any] = {}
    views = []
    for number, (priority, mean) in enumerate(jobs):
        told = row(number, submit_time=NOW, priority=priority, num_gpus=1)
        view = view_of(told, predicted(mean))
        views.append(view)
        rows[view.key] = told
    return queue_order(views, rows, SlurmConfig(config), NOW, by_prediction)


def test_who_comes_is_behind_all_that_have_a_place() -> None:
    assert order_of((70, 100.0), (50, 100.0)).of(1, 4, 1.0) == -50
    assert order_of().of(1, 4, 1.0) == 0


def test_who_is_held_has_no_place() -> None:
    assert order_of((70, 100.0), (50, 100.0), (0, 100.0)).of(1, 4, 1.0) == -50
    by_prediction = order_of((70, 100.0), (50, 10_000.0), (0, 10.0), by_prediction=True)
    assert by_prediction.of(1, 4, 10.0) == -70  # as the shortest that is not held
    assert by_prediction.of(1, 4, 10_000.0) == -50
    assert order_of((0, 100.0), by_prediction=True).of(1, 4, 100.0) == 0


def test_between_two_sizes_it_is_in_proportion_to_the_logarithm() -> None:
    found = order_of((70, 100.0), (50, 10_000.0), by_prediction=True)
    assert found.of(1, 4, 1000.0) == pytest.approx(-60)
    assert found.of(10, 4, 100.0) == pytest.approx(-60)  # as much GPU-time
    assert found.of(0, 4, 1000.0) == -50  # none without GPUs is waiting: behind all


def test_age_lowers_the_order_as_slurm_raises_the_priority() -> None:
    assert order_of((70, 100.0), **MULTIFACTOR).per_s == pytest.approx(1000 / 86_400)
    assert order_of((70, 100.0)).per_s == 0
    unread = MULTIFACTOR | {"PriorityMaxAge": "nonsense"}
    assert order_of(**unread).per_s == pytest.approx(1000 / (7 * 86_400))  # Slurm's own default
