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
from gsched.predict.gbdt import BACKGROUND_ROWS, GbdtEstimator
from gsched.predict.memory import HISTORY, Memory, walk


def unseen(jobs):
    """Looks at jobs before anything has ended."""
    return Memory.empty().look(jobs, 0)


def column(matrix, name):
    return matrix[:, FEATURES.index(name)].tolist()


def attributes(**job):
    return of_view(view(1, **job))


def test_rows_hold_codes_counts_and_the_calendar_in_utc():
    jobs = [attributes(user="ann"), attributes(user="ann"), attributes(user="bob")]
    monday = 1_767_604_980  # 2026-01-05 09:23 UTC
    asked = attributes(user="bob", gpus=4, cpus=32, submit=monday, time_limit_s=600)
    rows = FeatureEncoder.fit(jobs).matrix(unseen([asked]))
    assert rows.shape == (1, len(FEATURES))
    known = dict(zip(FEATURES, rows[0].tolist(), strict=True))
    assert all(math.isnan(known.pop(name)) for name in HISTORY)
    assert known == {
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
    asked = attributes(
        user="eve", name="something else", partitions=("p",), cpus=0, time_limit_s=UNLIMITED_S
    )
    rows = encoder.matrix(unseen([asked, attributes(name="")]))
    for name in ("user", "name_cluster", "partition", "num_cpus", "time_limit_s"):
        assert math.isnan(column(rows, name)[0])
    assert math.isnan(column(rows, "name_cluster")[1])
    assert encoder.matrix([]).shape == (0, len(FEATURES))


@pytest.mark.parametrize("submit", [-1, 2**62])
def test_nonsense_times_do_not_stop_anything(submit):
    encoder = FeatureEncoder.fit([attributes()])
    assert np.isfinite(column(encoder.matrix(unseen([attributes(submit=submit)])), "hour")).all()


def test_similar_names_share_a_cluster_led_by_the_most_frequent():
    names = ["bert-large-1", "bert-large-22", "bert-larges-3", "eval", "eval"]
    encoder = FeatureEncoder.fit([attributes(name=n) for n in names])
    codes = column(encoder.matrix(unseen([attributes(name=n) for n in names])), "name_cluster")
    assert codes[0] == codes[1] == codes[2] != codes[3] == codes[4]
    assert encoder.to_json()["leaders"] == ["bert-large-#", "eval"]


def test_categories_are_bounded_and_the_frequent_ones_stay(monkeypatch):
    monkeypatch.setattr(features, "MAX_CATEGORIES", 2)
    users = ["aa rare", "c", "c", "b", "b"]
    encoder = FeatureEncoder.fit([attributes(user=u, name=u * 9) for u in users])
    codes = column(
        encoder.matrix(unseen([attributes(user=u) for u in ("b", "c", "aa rare")])), "user"
    )
    assert codes[:2] == [0.0, 1.0]
    assert math.isnan(codes[2])
    assert len(encoder.to_json()["leaders"]) == 2


def test_the_encoder_survives_json():
    jobs = [attributes(user=u, name=f"{u}-{i}") for i, u in enumerate(["ann", "bob", "\udcff\n"])]
    encoder = FeatureEncoder.fit(jobs)
    again = FeatureEncoder.from_json(json.loads(json.dumps(encoder.to_json())))
    jobs.append(attributes(user="eve"))
    assert np.array_equal(again.matrix(unseen(jobs)), encoder.matrix(unseen(jobs)), equal_nan=True)


@pytest.mark.parametrize("code", [-1, 300, "0", True, 1.0])
def test_a_damaged_code_is_refused(code):
    state = FeatureEncoder.fit([attributes()]).to_json()
    state["codes"]["user"]["ann"] = code
    with pytest.raises(ValueError, match="category code"):
        FeatureEncoder.from_json(state)


def test_rows_hold_what_had_ended_before():
    jobs = [
        past_job(1, 100, end=T0 + 100, name="train", time_limit_s=600),
        past_job(2, 400, end=T0 + 500, name="train", time_limit_s=900),
        past_job(3, 7000, end=T0 + 9000, name="train", time_limit_s=600),
    ]
    memory, _ = walk(jobs, [])
    look = memory.look([attributes(name="train", time_limit_s=600)], T0 + 700)[0]
    rolling_s = (400 + 0.8 * 100) / 1.8
    assert dict(zip(HISTORY, look.history, strict=True)) == pytest.approx(
        {
            "rule": 0.0,
            "rolling_s": rolling_s,
            "typical_s": 200.0,
            "spread": math.log(2),
            "shortest_s": 100.0,
            "longest_s": 400.0,
            "num_similar": 2.0,
            "last_s": 400.0,
            "last_two_s": 250.0,
            "idle_s": 200.0,
            "same_request_s": 100.0,
            "num_same_request": 1.0,
        }
    )
    assert memory.look([attributes(user="eve")], T0 + 700)[0].source == "gpus"
    assert memory.look([attributes()], T0 + 100)[0].source == ""


def history():
    """Users differ in duration by 16, GPU counts by 2: 240 jobs, whose names tell nothing."""
    jobs = []
    for i in range(240):
        user, gpus = ("ann", "bob")[i % 2], (1, 4)[i // 2 % 2]
        duration_s = (20 if user == "ann" else 320) * (2 if gpus == 4 else 1)
        jobs.append(past_job(i, duration_s, end=T0 + 1000 * i, user=user, gpus=gpus, name=""))
    return jobs


class Learnt:
    """A regression on all of `jobs` at which something was known."""

    def __init__(self, jobs):
        self.memory, looks = walk(jobs, [(job.submit_time, i) for i, job in enumerate(jobs)])
        known = [i for i, look in enumerate(looks) if look.source]
        self.encoder = FeatureEncoder.fit([of_past(jobs[i]) for i in known])
        self.rows = self.encoder.matrix([looks[i] for i in known])
        self.estimator = GbdtEstimator.fit(self.rows, [jobs[i].duration_s for i in known])

    def predict(self, asked):
        looks = self.memory.look(asked, 2 * T0)
        return self.estimator.predict(self.encoder.matrix(looks)).tolist()


def test_it_learns_what_the_attributes_tell():
    learnt = Learnt(history())
    asked = [attributes(user=u, name="", gpus=g) for u in ("ann", "bob") for g in (1, 4)]
    assert learnt.predict(asked) == pytest.approx([20, 40, 320, 640], rel=0.1)


def test_short_jobs_are_told_apart_beside_very_long_ones():
    durations_s = {"ann": 5, "bob": 20, "cem": 5_000, "dan": 2_000_000}
    jobs = [
        past_job(i, durations_s[user], end=T0 + 3_000_000 * i, user=user, name="")
        for i, user in enumerate(list(durations_s) * 60)
    ]
    predicted = Learnt(jobs).predict([attributes(user=user, name="") for user in durations_s])
    assert predicted == pytest.approx(list(durations_s.values()), rel=0.1)


def test_it_follows_the_last_runs_without_being_fitted_again():
    learnt = Learnt(history())
    asked = [attributes(user="ann", name="", gpus=1)]
    for i in range(20):
        learnt.memory.observe(past_job(900 + i, 200, end=T0 + 10**6 + i, user="ann", name=""))
    assert learnt.predict(asked)[0] > 150


def test_the_same_jobs_give_the_same_regression():
    asked = [attributes(user=u, gpus=g, submit=T0 + g) for u in ("ann", "bob") for g in range(9)]
    assert Learnt(history()).predict(asked) == Learnt(history()).predict(asked)


def test_logarithms_are_bounded_and_a_sample_of_the_rows_is_kept():
    learnt = Learnt(history())
    logs = learnt.estimator.predict_logs(learnt.rows)
    assert np.exp(logs) == pytest.approx(learnt.estimator.predict(learnt.rows))
    assert (logs >= 0).all()
    background = learnt.estimator.background
    assert background.shape == (BACKGROUND_ROWS, len(FEATURES))
    assert {row.tobytes() for row in background} <= {row.tobytes() for row in learnt.rows}


@pytest.mark.parametrize("count", [2, 3, 4, 11])
def test_a_handful_of_jobs_is_enough(count):
    jobs = [past_job(i, 0 if i else 7, end=T0 + 10 * i) for i in range(count)]
    learnt = Learnt(jobs)
    predicted = learnt.predict([attributes(), attributes(user="eve", name="?", gpus=99)])
    assert all(1 <= seconds <= 7 for seconds in predicted)
    assert learnt.estimator.predict(learnt.rows[:0]).shape == (0,)
