"""What needs no model: means of what has ended, the last two, the time limit."""

from __future__ import annotations

import pytest
from support.jobs import T0, past_job

from gsched.predict.attributes import of_past
from gsched.predict.baselines import NAMES, Baselines


def told(baselines, user="ann", time_limit_s=None):
    job = past_job(99, 1, end=T0 + 10**6, user=user, time_limit_s=time_limit_s)
    return baselines.durations_s(of_past(job))


def ended(*durations_s, user="ann", start=0):
    return [
        past_job(start + i, s, end=T0 + 1000 * (start + i), user=user)
        for i, s in enumerate(durations_s)
    ]


def test_each_is_what_its_name_says():
    known = Baselines([*ended(100, 200, 600), *ended(1100, user="bob", start=3)])
    assert told(known, time_limit_s=5000) == {
        "user-mean": 300.0,
        "last-two": 400.0,
        "mean": 500.0,
        "time-limit": 5000,
    }


def test_who_has_no_ended_job_gets_the_limit_else_the_mean_of_all():
    known = Baselines(ended(100, 300))
    stranger = told(known, user="new", time_limit_s=900)
    assert (stranger["user-mean"], stranger["last-two"], stranger["mean"]) == (900, 900, 200.0)
    assert set(told(known, user="new").values()) == {200.0}


def test_the_last_two_are_two():
    known = Baselines([*ended(100, 300), *ended(1100, user="bob", start=3)])
    assert told(known, user="bob", time_limit_s=5000)["last-two"] == 5000
    assert told(known, user="bob")["last-two"] == 500.0  # without a limit the mean of all
    known.observe(*ended(900, user="bob", start=4))
    assert told(known, user="bob", time_limit_s=5000)["last-two"] == 1000.0


def test_before_anything_has_ended():
    assert set(told(Baselines(default_s=77.0)).values()) == {77.0}
    assert set(told(Baselines(default_s=77.0), time_limit_s=10).values()) == {10}


def test_none_exceeds_the_limit():
    assert set(told(Baselines(ended(1000, 2000)), time_limit_s=60).values()) == {60}


@pytest.mark.parametrize("name", NAMES)
def test_an_observed_job_counts_at_once(name):
    known = Baselines(ended(100, 100))
    before = told(known)[name]
    known.observe(past_job(9, 10_000, end=T0 + 9000))
    assert (told(known)[name] > before) or name == "time-limit"
