"""Fits of the model: every one is recorded, and what became of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.history import CLUSTER
from support.servers import each_engine

from gsched.model.fit import Fit, FitOutcome

pytestmark = each_engine

FIT = Fit(
    cluster=CLUSTER,
    model_id="duration-1",
    fitted_at=5000,
    took_s=2.5,
    started_by="timer",
    as_of=4990,
    data_from=100,
    data_until=4980,
    num_jobs=12,
    features=("user", "num_gpus"),
    details={"kinds": {"gpu": {"lambda": 0.3}}, "left_out": {"never-ran": 2}},
    outcome=FitOutcome.PINNED,
    why="root has pinned duration-0\nand | more \ue000",
)


@pytest.fixture
def fits(history):
    return history.fits(CLUSTER)


def test_what_was_recorded_is_told_newest_first(fits, history):
    assert fits.newest(5) == []
    others = [replace(FIT, model_id=f"duration-{n}", fitted_at=5000 + n) for n in (2, 3)]
    for fit in (FIT, *others):
        fits.record(fit)
    history.fits("beta").record(replace(FIT, cluster="beta"))
    assert fits.newest(5) == [others[1], others[0], FIT]
    assert fits.newest(1) == [others[1]]
    assert [fit.cluster for fit in history.fits("beta").newest(5)] == ["beta"]


def test_a_fit_is_settled_once_its_model_is_in_use(fits):
    fits.record(FIT)
    row = fits.record(replace(FIT, outcome=FitOutcome.ADOPTING, why=""))
    fits.settle(row, FitOutcome.ADOPTED, "")
    assert [fit.outcome for fit in fits.newest(5)] == [FitOutcome.ADOPTED, FitOutcome.PINNED]


def test_those_whose_process_was_killed_are_settled_by_what_is_in_use(fits, history):
    for number in (1, 2):
        fits.record(replace(FIT, model_id=f"duration-{number}", outcome=FitOutcome.ADOPTING))
    other = history.fits("beta")
    other.record(replace(FIT, cluster="beta", outcome=FitOutcome.ADOPTING))
    fits.record(FIT)
    fits.settle_interrupted("duration-2")
    assert [(fit.model_id, fit.outcome) for fit in fits.newest(5)] == [
        ("duration-1", FitOutcome.PINNED),
        ("duration-2", FitOutcome.ADOPTED),
        ("duration-1", FitOutcome.INTERRUPTED),
    ]
    assert other.newest(1)[0].outcome is FitOutcome.ADOPTING
    before = fits.newest(5)
    fits.settle_interrupted("duration-1")
    assert fits.newest(5) == before
