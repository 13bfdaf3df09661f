"""Whoever announces long jobs as short is believed less; nobody else is."""

from __future__ import annotations

import json
import math
import random

import pytest
from support.jobs import T0, past_job, view

from gsched.model.times import DAY_S
from gsched.predict import caution
from gsched.predict.attributes import of_view
from gsched.predict.caution import (
    BELIEVED_S,
    HALF_LIFE_S,
    MAX_CAUTION,
    TOLERATED,
    Caution,
    distrust,
)
from gsched.predict.model import DurationModel

HOUR_S = 3600
NOW = T0 + 10**6


def distrusted(taken, now=T0 + 1, **job):
    asked = of_view(view(1, **job))
    return distrust(taken.overruns(asked.user, asked.kind, now), asked.num_units)


def factor(taken, now=T0 + 1, **job):
    return distrusted(taken, now, **job).factor


def after(*rows, gpus=1, user="ann", taken=None):
    """Rows (actual, announced) in seconds, which ended at T0."""
    taken = taken or Caution()
    for actual_s, announced_s in rows:
        taken.observe(of_view(view(1, user=user, gpus=gpus)), T0, actual_s, announced_s)
    return taken


def test_an_honest_user_is_believed():
    assert factor(Caution()) == 1.0
    assert factor(after(*[(HOUR_S, HOUR_S)] * 9)) == 1.0
    assert factor(after((HOUR_S, 3 * HOUR_S))) == 1.0
    assert factor(after((15 * HOUR_S, HOUR_S))) == 1.0  # within what is ordinary


def test_a_long_job_announced_as_short_costs_what_is_beyond_the_ordinary():
    found = factor(after((10 * HOUR_S, 60)))
    overrun = (36_000**2 * math.log(600)) / (36_000**2 + BELIEVED_S**2)
    assert found == pytest.approx(math.exp(overrun) / TOLERATED)
    assert found > 25
    assert factor(after((1000 * HOUR_S, 1e-9))) == MAX_CAUTION


def test_ten_thousand_jobs_of_a_second_do_not_hide_one_of_ten_hours():
    junk = [(1, 1)] * 5_000
    hidden = factor(after(*junk, (10 * HOUR_S, 1), *junk))
    assert hidden > 100
    assert (10 * HOUR_S + 10_000) / (1 + 10_000) < 5  # what Σ actual / Σ announced would give


def test_where_everybody_is_off_by_as_much_nobody_is_distrusted():
    taken = after(*[(10 * HOUR_S, 60)] * 9, user="bob")
    after(*[(10 * HOUR_S, 60)] * 9, taken=taken)
    assert factor(taken) == 1.0
    after(*[(10 * HOUR_S, 10 * HOUR_S)] * 90, user="cem", taken=taken)
    assert factor(taken) > 10
    assert factor(taken, user="cem") == 1.0


def test_no_job_is_taken_for_longer_than_those_that_outran_theirs():
    limited = distrusted(after((10 * HOUR_S, 60), (8, 8)))
    assert limited.up_to_s == pytest.approx(10 * HOUR_S, rel=0.01)
    wide = distrusted(after((10 * HOUR_S, 60), gpus=4), gpus=8)
    assert wide.up_to_s == pytest.approx(5 * HOUR_S)


def test_a_short_overrun_tells_little():
    assert factor(after((60, 1))) == 1.0


def test_it_is_forgotten_with_time():
    taken = after((10 * HOUR_S, 60))
    factors = [factor(taken, T0 + 1 + days * DAY_S) for days in (0, 7, 28, 60, 100)]
    assert factors == sorted(factors, reverse=True)
    assert factors[0] > factors[2] > 1.0 == factors[-1]
    assert HALF_LIFE_S == 7 * DAY_S


def test_it_holds_for_the_users_jobs_of_that_kind_alone():
    taken = after((10 * HOUR_S, 1), gpus=4)
    assert factor(taken, gpus=4, name="another") > 1
    assert factor(taken, gpus=0) == 1.0
    assert factor(taken, gpus=4, user="bob") == 1.0


def test_an_earlier_moment_knows_nothing_of_it():
    taken = after((HOUR_S, HOUR_S))
    known = factor(taken, T0 + 10)
    taken.observe(of_view(view(1)), T0 + 10, 10 * HOUR_S, 1)
    assert factor(taken, T0 + 10) == known == 1.0
    assert factor(taken, T0 + 11) > 1.0


def test_the_state_survives_json_and_is_bounded():
    chance = random.Random(1)
    taken = Caution()
    for i in range(100):
        taken.observe(of_view(view(1)), T0 + i, chance.randrange(10**5), chance.randrange(10**3))
    text = json.dumps(taken.to_json())
    again = Caution.from_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    assert factor(again, T0 + 200) == factor(taken, T0 + 200)
    assert len(taken.to_json()["users"]["gpu"]["ann"]) == caution._KEPT
    assert len(taken.to_json()["all"]["gpu"]) == caution._KEPT


@pytest.mark.parametrize(
    "states",
    [1, [1], [[T0, 1, 1]], [[True, 1.0, 1.0, 1.0]], [[T0, 0.0, 1.0, 1.0]], [[T0, 1, math.nan, 1]]],
)
@pytest.mark.parametrize("place", ["users", "all"])
def test_damaged_state_is_refused(states, place):
    state = Caution().to_json()
    state[place]["gpu"] = {"ann": states} if place == "users" else states
    with pytest.raises((KeyError, TypeError, ValueError)):
        Caution.from_json(state)
    with pytest.raises(KeyError):
        Caution.from_json({})


def cheating_history(long_s=10 * HOUR_S):
    """Bob's jobs take what they take; ann runs a long job amid short ones of the same name."""
    jobs = [past_job(i, HOUR_S, end=T0 + 4000 * i, user="bob", name="work") for i in range(60)]
    short = [past_job(1000 + i, 1, end=T0 + 20 * i, name="train") for i in range(3000)]
    cheat = past_job(900, long_s, end=T0 + 20 * 2500 + 5, submit=T0 + 20 * 500 + 3, name="train")
    return [*jobs, *short, cheat]


def test_a_cheat_is_predicted_longer_than_the_last_runs_and_others_are_not():
    model = DurationModel.fit(cheating_history(), as_of=NOW, trained_at=NOW)
    asked = [view(1, name="train"), view(2, name="quite new"), view(3, user="bob", name="work")]
    ann, new, bob = model.predict(asked, NOW)
    parts = model.parts(asked, NOW)["model"].tolist()
    assert parts[0] < 2
    assert ann.mean == pytest.approx(parts[0] * ann.caution)
    assert ann.mean > 100
    assert new.caution == pytest.approx(ann.caution)
    assert (bob.caution, bob.mean) == (1.0, parts[2])
    assert max(value for _, value in ann.quantiles) < 100  # intervals are of what is likely
    honest = DurationModel.fit(cheating_history(long_s=1), as_of=NOW, trained_at=NOW)
    assert honest.predict(asked, NOW)[0].caution == 1.0


def test_what_a_daemon_observes_counts_without_a_refit():
    model = DurationModel.fit(cheating_history(long_s=1), as_of=NOW, trained_at=NOW)
    assert model.predict([view(1)], NOW)[0].caution == 1.0
    model.observe(past_job(5000, 10 * HOUR_S, end=NOW + 10 * HOUR_S, submit=NOW))
    assert model.predict([view(1)], NOW + 11 * HOUR_S)[0].caution > 5


def test_the_limit_bounds_a_cautious_prediction_too():
    model = DurationModel.fit(cheating_history(), as_of=NOW, trained_at=NOW)
    found = model.predict([view(1, time_limit_s=30)], NOW)[0]
    assert found.mean == 30.0
    assert found.caution == pytest.approx(30 / model.parts([view(1)], NOW)["model"][0])
