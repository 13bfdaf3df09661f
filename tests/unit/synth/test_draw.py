"""What holds for every drawn trace."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gsched.errors import UsageError
from gsched.model.names import masked
from gsched.model.times import DAY_S
from gsched.synth.columns import TraceJobs
from gsched.synth.draw import Drawn, draw
from gsched.synth.fit import Fit
from gsched.synth.quantiles import PROBABILITIES, Quantiles
from gsched.synth.shipped import SHIPPED, shipped
from gsched.synth.trace import attempts, recipe_name

from .conftest import MONDAY, WEEKS


def columns(drawn: Drawn) -> list[bytes]:
    return [b"" if column is None else column.tobytes() for column in vars(drawn).values()]


def test_the_seed_decides(site_fit: Fit) -> None:
    assert columns(draw(site_fit, 1)) == columns(draw(site_fit, 1))
    assert columns(draw(site_fit, 1)) != columns(draw(site_fit, 2))


@settings(max_examples=40, deadline=None)
@given(
    which=st.sampled_from(SHIPPED),
    seed=st.integers(0, 2**32),
    jobs=st.integers(1, 3_000),
    days=st.floats(0.01, 60),
)
def test_so_many_jobs_within_their_time(which: str, seed: int, jobs: int, days: float) -> None:
    fit = shipped(which)
    drawn = draw(fit, seed, jobs=jobs, days=days, start=MONDAY)
    assert len(drawn) == jobs
    assert {len(c) for c in vars(drawn).values() if c is not None} == {jobs}
    assert (np.diff(drawn.submit_s) >= 0).all()
    assert MONDAY <= drawn.submit_s[0] <= drawn.submit_s[-1] < MONDAY + days * DAY_S
    assert drawn.duration_s.min() >= 1
    assert drawn.duration_s.max() <= max(c.duration_s.values[-1] for c in fit.classes) + 1
    told = {(p, s.size) for p, pool in enumerate(fit.pools) for s in pool.sizes}
    assert set(zip(drawn.pool.tolist(), drawn.size.tolist(), strict=True)) <= told


def test_time_follows_from_the_number_and_the_number_from_time(site_fit: Fit) -> None:
    rate = site_fit.arrivals.jobs_a_day
    assert len(draw(site_fit, 1)) == site_fit.num_jobs
    assert len(draw(site_fit, 1, days=14)) == round(14 * rate)
    for number, days in ((round(14 * rate), None), (round(42 * rate), 14)):
        drawn = draw(site_fit, 1, jobs=number, days=days)
        took_days = (drawn.submit_s[-1] - drawn.submit_s[0]) / DAY_S
        assert 14 - 3.5 < took_days < 14  # a weekend may lie at either end


@pytest.mark.parametrize(
    "wanted", [{"jobs": 0}, {"days": 1e-9}, {"days": 1e9}, {"jobs": 5, "days": 1e9}]
)
def test_what_cannot_be_drawn_is_refused(site_fit: Fit, wanted: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="like site would have"):
        draw(site_fit, 1, **wanted)


def test_office_hours_and_weekends_are_kept(site_fit: Fit) -> None:
    drawn = draw(site_fit, 3, start=MONDAY)
    hour = drawn.submit_s // 3600 % 24
    weekday = (drawn.submit_s - MONDAY) // DAY_S % 7
    assert ((hour >= 8) & (hour < 20)).mean() > 0.97
    assert (weekday < 5).mean() > 0.97
    shifted = draw(site_fit, 3, start=MONDAY + 3 * DAY_S)  # weekdays are the calendar's
    assert (((shifted.submit_s - MONDAY) // DAY_S % 7) < 5).mean() > 0.97


def test_a_fit_whose_order_is_by_chance_draws_no_bursts(site_fit: Fit) -> None:
    """What the arrivals' parts are for: without them the drawn trace loses them."""
    flat = replace(
        site_fit,
        arrivals=replace(
            site_fit.arrivals, by_hour=(1.0,) * 24, by_weekday=(1.0,) * 7, day_sigma=0.0
        ),
    )
    hour = draw(flat, 3).submit_s // 3600 % 24
    assert ((hour >= 8) & (hour < 20)).mean() == pytest.approx(0.5, abs=0.06)


def test_every_recipe_has_a_name_that_masking_leaves_alone() -> None:
    names = [recipe_name(number) for number in range(20_000)]
    assert len(set(names)) == len(names)
    assert len({masked(f"{name}_7") for name in names}) == len(names)


def test_attempts_hold_the_columns(site_fit: Fit) -> None:
    drawn = draw(site_fit, 1)
    records = [record for part in attempts(drawn, site_fit, "mine") for record in part.records()]
    assert [r.submit_time for r in records] == drawn.submit_s.tolist()
    assert [r.end_time - r.start_time for r in records] == drawn.duration_s.tolist()
    assert [r.num_gpus for r in records] == drawn.size.tolist()
    assert {r.partition for r in records} == {"small", "large"}
    assert {r.tenant for r in records} == {"lab00", "lab01", "lab02"}
    assert {r.cluster for r in records} == {"mine"}
    assert [r.job_id for r in records] == list(range(1, len(drawn) + 1))
    runs = [r.name.rpartition("_")[2] for r in records]
    assert len(set(runs)) > 20  # the made-up site numbers its runs
    by_user = {(r.user, masked(r.name)) for r in records}
    assert len(by_user) < len(records) / 5


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=200))
def test_quantiles_rise_and_end_where_the_sample_does(sample: list[float]) -> None:
    told = Quantiles.of(np.array(sample))
    assert list(told.values) == sorted(told.values)
    assert told.values[0] == pytest.approx(min(sample), rel=1e-4)
    assert told.values[-1] == pytest.approx(max(sample), rel=1e-4)
    back = told.at(PROBABILITIES)
    assert back == pytest.approx(told.values, rel=1e-9, abs=1e-9)


def test_the_fit_sees_what_the_site_does(site: TraceJobs, site_fit: Fit) -> None:
    hours = site_fit.arrivals.by_hour
    assert sum(hours) == pytest.approx(24, abs=0.01)
    assert min(hours[9:17]) > 1.5
    assert max((*hours[:7], *hours[20:])) < 0.1
    assert site_fit.arrivals.by_weekday[5:] == (0.0, 0.0)
    assert site_fit.days == pytest.approx(7 * WEEKS, abs=4)
    assert site_fit.people is not None
    assert site_fit.people.num_users == 30
    assert site_fit.people.names is not None
    assert site_fit.people.names.counts_up > 0.95  # every run has a number of its own
    assert site_fit.people.names.later.repeat > 0.95  # a burst is one script
    assert site_fit.alike.recipe > 0.7
    assert {s.size for pool in site_fit.pools for s in pool.sizes} == set(site.size.tolist())
