"""What makes a prediction: the factors multiply to it, and those that matter are found."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from support.jobs import T0, past_job

from gsched.predict.attributes import of_past
from gsched.predict.caution import Distrust
from gsched.predict.explanation import GROUPS, explain
from gsched.predict.features import FEATURES
from gsched.predict.memory import HISTORY
from gsched.predict.model import DurationModel

from .conftest import with_kind

AFTER = T0 + 10**8


def history(count=400):
    """Run times follow the time limit and the user; names, partitions and hours tell nothing."""
    random = np.random.default_rng(8)
    jobs = []
    for i in range(count):
        user, is_long = random.integers(2), random.integers(2)
        seconds = 100 * (5 if user else 1) * (20 if is_long else 1)
        jobs.append(
            past_job(
                i,
                int(seconds * np.exp(random.normal(0, 0.1))),
                end=T0 + 40_000 * i + 30_000,
                submit=T0 + 40_000 * i,
                user=("ann", "bob")[user],
                name="",
                gpus=int(random.integers(1, 3)),
                time_limit_s=86_400 if is_long else 3600,
            )
        )
    return jobs


@pytest.fixture(scope="module")
def model():
    return DurationModel.fit(history(), AFTER, AFTER)


def looked(model, **changes):
    job = replace(of_past(history()[0]), submit_time=AFTER, **changes)
    return model.look([job], AFTER)[0]


def test_every_feature_is_in_one_group():
    grouped = [feature for features in GROUPS.values() for feature in features]
    assert sorted(grouped) == sorted(FEATURES)


@pytest.mark.parametrize("limit_s", [3600, 86_400])
@pytest.mark.parametrize("user", ["ann", "bob", "stranger"])
def test_factors_multiply_to_the_prediction(model, user, limit_s):
    look = looked(model, user=user, time_limit_s=limit_s)
    found = explain(model, look)
    assert found.predicted_s == pytest.approx(model.parts_of([look])["model"][0])
    product = found.typical_s * math.prod(c.factor for c in found.contributions)
    assert product == pytest.approx(found.predicted_s)
    assert {c.name for c in found.contributions} == set(GROUPS)
    sizes = [abs(c.log_s) for c in found.contributions]
    assert sizes == sorted(sizes, reverse=True)


def test_what_matters_is_found_and_what_does_not_is_not(model):
    found = explain(model, looked(model, user="bob", time_limit_s=86_400))
    factors = {c.name: c.factor for c in found.contributions}
    about_the_limit = factors["time-limit"] * factors["same-request"] * factors["similar-jobs"]
    assert about_the_limit > 2
    for nothing in ("name", "partition", "account", "nodes", "submitted-at", "gpus"):
        assert 0.8 < factors[nothing] < 1.25, nothing
    short = explain(model, looked(model, user="ann", time_limit_s=3600))
    assert short.typical_s == found.typical_s  # compared with the same jobs
    assert short.predicted_s < short.typical_s < found.predicted_s


def test_caution_and_the_limit_stay_out(model):
    """A limit below the prediction bounds it, in the explanation, too."""
    look = looked(model, user="bob", time_limit_s=60)
    found = explain(model, look)
    assert found.predicted_s == pytest.approx(60.0)
    cautious = replace(look, distrust=Distrust(5.0, 1e6))
    assert explain(model, cautious) == found


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_a_limit_bounds_both_parts_of_what_is_explained(model, lam):
    blended = with_kind(model, lam=lam)
    look = looked(blended, user="bob", time_limit_s=60)
    assert look.history[HISTORY.index("rolling_s")] > 60  # his runs took longer
    assert explain(blended, look).predicted_s == pytest.approx(60.0)


def test_where_the_past_runs_alone_predict_there_is_nothing_to_explain(model):
    look = looked(model)
    assert explain(model, look) is not None
    assert explain(model, replace(look, now=model.info.data_until)) is None
    model.rolling_only = frozenset({"gpu"})
    try:
        assert explain(model, look) is None
    finally:
        model.rolling_only = frozenset()


def test_it_survives_being_stored(model, tmp_path):
    from gsched.predict.store import load, save

    save(model, tmp_path / "m.gsmodel")
    look = looked(model, user="bob")
    assert explain(load(tmp_path / "m.gsmodel"), look) == explain(model, look)
