from __future__ import annotations

import json
import math

import numpy as np
import pytest
from support.jobs import T0, past_job, view

from gsched.model.job import UNLIMITED_S
from gsched.predict import features
from gsched.predict.attributes import of_past, of_view
from gsched.predict.features import FEATURES, FeatureEncoder
from gsched.predict.gbdt import GbdtEstimator


def column(matrix, name):
    return matrix[:, FEATURES.index(name)].tolist()


def attributes(**job):
    return of_view(view(1, **job))


def test_rows_hold_codes_counts_and_the_calendar_in_utc():
    jobs = [attributes(user="ann"), attributes(user="ann"), attributes(user="bob")]
    monday = 1_767_604_980  # 2026-01-05 09:23 UTC
    rows = FeatureEncoder.fit(jobs).matrix(
        [attributes(user="bob", gpus=4, cpus=32, submit=monday, time_limit_s=600)]
    )
    assert rows.shape == (1, len(FEATURES))
    assert dict(zip(FEATURES, rows[0].tolist(), strict=True)) == {
        "user": 1.0,
        "tenant": 0.0,
        "partition": 0.0,
        "name_cluster": 0.0,
        "num_gpus": 4.0,
        "num_cpus": 32.0,
        "num_nodes": 1.0,
        "time_limit_s": 600.0,
        "month": 1.0,
        "weekday": 0.0,
        "hour": 9.0,
        "minute": 23.0,
    }


def test_what_was_not_seen_is_unknown():
    encoder = FeatureEncoder.fit([attributes(user="ann", name="train")])
    rows = encoder.matrix([attributes(user="eve", name="something else", partitions=("p",))])
    for name in ("user", "name_cluster", "partition"):
        assert math.isnan(column(rows, name)[0])
    assert column(rows, "time_limit_s") == [UNLIMITED_S]
    assert encoder.matrix([]).shape == (0, len(FEATURES))


@pytest.mark.parametrize("submit", [-1, 2**62])
def test_nonsense_times_do_not_stop_anything(submit):
    encoder = FeatureEncoder.fit([attributes()])
    assert np.isfinite(column(encoder.matrix([attributes(submit=submit)]), "hour")).all()


def test_similar_names_share_a_cluster_led_by_the_most_frequent():
    names = ["bert-large-1", "bert-large-22", "bert-larges-3", "eval", "eval"]
    encoder = FeatureEncoder.fit([attributes(name=n) for n in names])
    codes = column(encoder.matrix([attributes(name=n) for n in names]), "name_cluster")
    assert codes[0] == codes[1] == codes[2] != codes[3] == codes[4]
    assert encoder.to_json()["leaders"] == ["bert-large-#", "eval"]


def test_categories_are_bounded_and_the_frequent_ones_stay(monkeypatch):
    monkeypatch.setattr(features, "MAX_CATEGORIES", 2)
    users = ["aa rare", "c", "c", "b", "b"]
    encoder = FeatureEncoder.fit([attributes(user=u, name=u * 9) for u in users])
    codes = column(encoder.matrix([attributes(user=u) for u in ("b", "c", "aa rare")]), "user")
    assert codes[:2] == [0.0, 1.0]
    assert math.isnan(codes[2])
    assert len(encoder.to_json()["leaders"]) == 2


def test_the_encoder_survives_json():
    jobs = [attributes(user=u, name=f"{u}-{i}") for i, u in enumerate(["ann", "bob", "\udcff\n"])]
    encoder = FeatureEncoder.fit(jobs)
    again = FeatureEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    jobs.append(attributes(user="eve"))
    assert np.array_equal(again.matrix(jobs), encoder.matrix(jobs), equal_nan=True)


@pytest.mark.parametrize("code", [-1, 300, "0", True, 1.0])
def test_a_damaged_code_is_refused(code):
    state = FeatureEncoder.fit([attributes()]).to_json()
    state["codes"]["user"]["ann"] = code
    with pytest.raises(ValueError, match="category code"):
        FeatureEncoder.from_json(state)


def history():
    """Users differ in duration by 16, GPU counts by 2: 240 jobs."""
    jobs = []
    for i in range(240):
        user, gpus = ("ann", "bob")[i % 2], (1, 4)[i // 2 % 2]
        duration_s = (20 if user == "ann" else 320) * (2 if gpus == 4 else 1)
        jobs.append(past_job(i, duration_s, end=T0 + 1000 * i, user=user, gpus=gpus, name=f"j{i}z"))
    return jobs


def test_it_learns_what_the_attributes_tell():
    jobs = history()
    estimator = GbdtEstimator.fit([of_past(j) for j in jobs], [j.duration_s for j in jobs])
    asked = [attributes(user=u, gpus=g, submit=T0) for u in ("ann", "bob") for g in (1, 4)]
    assert estimator.predict(asked) == pytest.approx([20, 40, 320, 640], rel=0.1)


def test_short_jobs_are_told_apart_beside_very_long_ones():
    durations_s = {"ann": 5, "bob": 20, "cem": 5_000, "dan": 2_000_000}
    seen = list(durations_s) * 60
    estimator = GbdtEstimator.fit(
        [attributes(user=user) for user in seen], [durations_s[user] for user in seen]
    )
    predicted = estimator.predict([attributes(user=user) for user in durations_s])
    assert predicted == pytest.approx(list(durations_s.values()), rel=0.1)


def test_the_same_jobs_give_the_same_regression():
    jobs = history()
    asked = [attributes(user=u, gpus=g, submit=T0 + g) for u in ("ann", "bob") for g in range(9)]
    first, second = (
        GbdtEstimator.fit([of_past(j) for j in jobs], [j.duration_s for j in jobs])
        for _ in range(2)
    )
    assert first.predict(asked).tolist() == second.predict(asked).tolist()


@pytest.mark.parametrize("count", [1, 2, 3, 10])
def test_a_handful_of_jobs_is_enough(count):
    jobs = [past_job(i, 0 if i else 7, end=T0 + i) for i in range(count)]
    estimator = GbdtEstimator.fit([of_past(j) for j in jobs], [j.duration_s for j in jobs])
    predicted = estimator.predict([attributes(), attributes(user="eve", name="?", gpus=99)])
    assert ((predicted >= 1) & (predicted <= 7)).all()
    assert estimator.predict([]).shape == (0,)
