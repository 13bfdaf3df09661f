from __future__ import annotations

import math
from dataclasses import replace

import pytest
from support.jobs import T0, past_job, view

from gsched.errors import DataError
from gsched.model.job import JobState, PredictionKind
from gsched.predict.attributes import of_view
from gsched.predict.cold_start import ColdStart
from gsched.predict.model import DurationModel
from gsched.predict.rolling import QUANTILES
from gsched.predict.validation import scale

from .conftest import LIMITS_S, recurring_history, unnamed_history, with_kind

NOW = T0 + 10**6


def fit(jobs, as_of=NOW):
    return DurationModel.fit(jobs, as_of=as_of, trained_at=NOW)


def test_recurring_scripts_are_predicted_from_their_last_runs(recurring_model):
    asked = [view(i, user="ann", name="cccccc", gpus=g) for i, g in enumerate((1, 4, 8))]
    found = recurring_model.predict(asked, NOW)
    assert [p.mean for p in found] == pytest.approx([8.33] * 3, abs=0.1)
    first = found[0]
    assert first.kind is PredictionKind.DURATION
    assert first.source == "similar-name"
    assert first.similar_jobs == 3
    assert first.model_id == recurring_model.model_id
    assert [p for p, _ in first.quantiles] == list(QUANTILES)
    values = [v for _, v in first.quantiles]
    assert values == sorted(values)
    assert values[0] < first.mean < values[-1]
    assert first.as_of == recurring_model.info.data_until + 1


def test_the_blend_weighs_both_parts(blended_model):
    asked = view(1, user="bob", name="sh", time_limit_s=LIMITS_S[1], submit=T0)
    lam = blended_model.lam("gpu")
    rolled = blended_model.rolling.estimate(of_view(asked), NOW).duration_s
    looks = blended_model.look([of_view(asked)], NOW)
    regressed = float(blended_model.regressions["gpu"].predict(blended_model.rows(looks))[0])
    found = blended_model.predict([asked], NOW)[0]
    assert found.mean == pytest.approx(lam * rolled + (1 - lam) * regressed)
    assert regressed == pytest.approx(1280, rel=0.15)
    assert lam == 0.4
    parts = {name: float(values[0]) for name, values in blended_model.parts([asked], NOW).items()}
    assert parts == {"model": found.mean, "rolling": rolled, "regression": regressed}


def test_quantiles_come_from_held_out_jobs_of_the_same_rule(blended_model):
    validation = blended_model.info.kinds["gpu"].validation
    wide, narrow = ([w * (k - 3) / 3 for k in range(7)] for w in (math.log(8), math.log(2)))
    rolling = {"any": tuple(math.log(3) + r for r in narrow)}
    validation = replace(
        validation,
        residuals={"any": tuple(wide), "similar-name": tuple(narrow)},
        rolling_residuals=rolling | {"similar-name": rolling["any"]},
    )
    model = with_kind(blended_model, validation=validation)
    asked = [view(1, name="sh"), view(2, name="new one")]
    same, other = model.predict(asked, NOW)
    assert (same.source, other.source) == ("similar-name", "user-gpus")
    looks = model.look([of_view(job) for job in asked], NOW)
    assert looks[0].spread > 0.1
    scales = [scale(look) for look in looks]
    assert looks[0].own_quantiles == ()  # the rule has a calibration of its own

    def factors(found):
        return [value / found.mean for _, value in found.quantiles]

    assert factors(same) == pytest.approx([math.exp(r * scales[0]) for r in narrow])
    pooled = [math.exp(r * scales[1]) for r in wide]
    own = [value / other.mean for _, value in looks[1].own_quantiles]
    assert factors(other) == pytest.approx(
        [*map(min, pooled[:3], own[:3]), 1.0, *map(max, pooled[4:], own[4:])]
    )
    assert factors(other)[1] == pytest.approx(pooled[1])
    model.rolling_only = frozenset({"gpu"})
    alone = model.predict(asked, NOW)[0]
    shifted = [math.exp((r + math.log(3)) * scales[0]) for r in narrow]
    assert factors(alone) == pytest.approx(shifted)


def user_history(*runs_s):
    """Forty steady runs of ann's job, and after them those of bob without a name."""
    steady = [past_job(i, 5, end=T0 + 100 * i, user="ann", name="steady") for i in range(45)]
    return [
        *steady,
        *(
            past_job(100 + i, seconds, end=T0 + 10_000 + 100 * i, user="bob", name="")
            for i, seconds in enumerate(runs_s)
        ),
    ]


def test_no_interval_is_narrower_than_the_runs_that_it_is_said_to_come_from():
    """Most held-out jobs are matched by name and steady; they alone spoke for bob's 13 runs."""
    runs_s = (2, 2, 2, 3, 3, 3, 3, 5, 5, 8, 8, 8, 8)
    found = fit(user_history(*runs_s)).predict([view(1, user="bob", name="")], NOW)[0]
    assert (found.source, found.similar_jobs) == ("user-gpus", 13)
    told = dict(found.quantiles)
    assert told[0.1] <= 2
    assert told[0.9] >= 8
    assert told[0.5] == 3
    assert list(told.values()) == sorted(told.values())


@pytest.mark.parametrize("steady", [0, 45], ids=["uncalibrated", "calibrated by others"])
def test_a_single_run_makes_a_wider_interval_than_many_alike(steady):
    def width(*runs_s):
        jobs = user_history(*runs_s)[45 - steady :]
        told = dict(fit(jobs).predict([view(1, user="bob", name="")], NOW)[0].quantiles)
        return told[0.9] / told[0.1]

    assert width(100) > 5
    assert width(100) > width(100, 100) > width(*[100] * 9) > 1


def test_one_kind_of_jobs_can_fall_back_to_the_rolling_estimate(blended_model):
    model = with_kind(blended_model)
    asked = [view(1, user="bob", name="sh")]
    blended = model.predict(asked, NOW)[0]
    looks = model.look([of_view(asked[0])], NOW)
    model.rolling_only = frozenset({"cpu"})
    assert model.predict(asked, NOW)[0].mean == blended.mean
    model.rolling_only = frozenset({"gpu"})
    alone = model.predict(asked, NOW)[0]
    assert alone.mean == looks[0].rolling_s != blended.mean
    assert model.parts_of(looks)["model"].tolist() == [blended.mean]  # goes on, unseen
    assert alone.model_id == model.model_id != blended.model_id
    model.rolling_only = frozenset()
    assert model.predict(asked, NOW)[0] == blended


def test_jobs_without_gpus_have_a_regression_and_a_lambda_of_their_own():
    jobs = unnamed_history()
    without = [
        replace(job, num_gpus=0, num_cpus=32, job_id=1000 + job.job_id, name=f"n{job.job_id % 12}")
        for job in recurring_history(20)
    ]
    model = fit([*jobs, *without])
    assert {kind: found.num_jobs for kind, found in model.info.kinds.items()} == {
        "gpu": 240,
        "cpu": 240,
    }
    assert set(model.regressions) == {"gpu", "cpu"}
    alone = fit(jobs)
    asked = view(1, user="bob", name="none", time_limit_s=3600)
    regressed = [float(m.parts([asked], NOW)["regression"][0]) for m in (model, alone)]
    assert regressed[0] == pytest.approx(regressed[1], rel=0.2)
    assert (
        model.info.kinds["gpu"].validation.scores["rolling"]
        != (model.info.kinds["cpu"].validation.scores["rolling"])
    )


def test_no_prediction_exceeds_the_time_limit(blended_model):
    asked = [view(i, user="bob", name="sh", time_limit_s=limit) for i, limit in enumerate((60, 7))]
    for model in (blended_model, fit(recurring_history())):
        for found, job in zip(model.predict(asked, NOW), asked, strict=True):
            assert found.mean <= job.time_limit_s
            assert all(value <= job.time_limit_s for _, value in found.quantiles)


def test_fields_that_nobody_told_are_no_reason_to_drop_a_job():
    jobs = [replace(job, num_cpus=None, num_nodes=None) for job in unnamed_history()]
    model = fit(jobs)
    assert model.info.num_jobs == 240
    asked = [view(1, user="bob", name="sh", time_limit_s=LIMITS_S[1])]
    assert model.parts(asked, NOW)["regression"] == pytest.approx([1280], rel=0.15)


def test_order_and_length_of_the_answer_follow_the_question(blended_model):
    asked = [view(i, user=u) for i, u in enumerate(["bob", "ann"] * 2)]
    means = [p.mean for p in blended_model.predict(asked, NOW)]
    assert means[0] == means[2] > means[1] == means[3]
    assert blended_model.predict([], NOW) == []


def test_the_regression_is_known_beside_a_rolling_model(recurring_model):
    assert recurring_model.info.kinds["gpu"].lam == 1.0
    asked = [view(1, user="ann", name="cccccc")]
    parts = recurring_model.parts(asked, NOW)
    assert parts["model"] == parts["rolling"] != parts["regression"]


def test_too_few_jobs_use_the_rolling_estimate_alone():
    model = fit([past_job(i, 10 * i, end=T0 + i) for i in range(1, 5)])
    assert model.info.kinds["gpu"].validation is None
    assert model.info.kinds["gpu"].lam == 1.0
    found = model.predict([view(1)], NOW)[0]
    told = dict(found.quantiles)
    assert 5 < told[0.02] < 10 < told[0.5] < 40 < told[0.98] < 80
    assert math.isnan(model.parts([view(1)], NOW)["regression"][0])
    of_another_kind = model.predict([view(2, gpus=0, name="other")], NOW)[0]
    assert of_another_kind.source == "user"


def test_before_anything_has_ended_the_limit_or_the_default_is_told():
    model = DurationModel.fit(unnamed_history(), NOW, NOW, default_duration_s=1234)
    limited, endless = model.predict([view(1, time_limit_s=600), view(2)], T0 - 10**6)
    assert (limited.mean, limited.source, limited.quantiles) == (600.0, "time-limit", ())
    assert (endless.mean, endless.source) == (1234.0, "site-default")
    cold = ColdStart(1234).predict([view(1, time_limit_s=600), view(2)], NOW)
    assert [p.mean for p in cold] == [600.0, 1234.0]
    assert {p.model_id for p in cold} == {ColdStart.model_id}


def test_no_job_no_model():
    with pytest.raises(DataError, match="no finished job"):
        fit([])
    with pytest.raises(DataError):
        fit([past_job(1, 5, end=NOW)])
    with pytest.raises(DataError):
        fit([past_job(1, 5, end=T0, state=JobState.NODE_FAIL)])


def test_jobs_that_end_later_change_nothing():
    jobs = unnamed_history(60)
    as_of = jobs[-1].end_time + 1
    leak = [
        past_job(1000 + i, 9999, end=as_of + i, submit=T0, user=user, name="sh", time_limit_s=limit)
        for i in range(30)
        for user in ("ann", "bob")
        for limit in LIMITS_S
    ]
    asked = [view(i, user=user, name="sh") for i, user in enumerate(["ann", "bob"])]
    honest, leaking = fit(jobs, as_of), fit(jobs + leak, as_of)
    assert leaking.predict(asked, as_of) == honest.predict(asked, as_of)
    assert leaking.model_id == honest.model_id
    assert leaking.info.left_out == {"ended-later": 120}


def test_asked_about_an_earlier_moment_it_uses_only_what_had_ended_then(blended_model):
    asked = [view(1, user="bob", name="sh")]
    early = blended_model.info.data_until - 9_000
    assert blended_model.regressions
    found = blended_model.predict(asked, early)[0]
    estimate = blended_model.rolling.estimate(of_view(asked[0]), early)
    assert found.mean == estimate.duration_s
    assert [seconds for _, seconds in found.quantiles] == pytest.approx(
        [seconds for _, seconds in estimate.quantiles()], rel=0.2
    )
    assert max(m.run.end_time for m in estimate.matches) < early
    assert found.as_of == early
    assert blended_model.predict(asked, T0)[0].source == "site-default"
    last = blended_model.info.data_until  # a job of the training ended at this second, not before
    rolled = blended_model.rolling.estimate(of_view(asked[0]), last).duration_s
    assert blended_model.predict(asked, last)[0].mean == rolled
    assert blended_model.predict(asked, last + 1)[0].mean != rolled


def test_jobs_that_end_later_can_be_taken_in_without_a_refit():
    model = fit(recurring_history())
    job = view(1, user="ann", name="aaaaaa")
    before = model.predict([job], NOW)[0]
    model.observe(past_job(500, 1000, end=NOW + 5, user="ann", name="aaaaaa"))
    assert model.predict([job], NOW + 5)[0].mean == before.mean
    after = model.predict([job], NOW + 6)[0]
    assert after.mean > 100
    assert after.similar_jobs == before.similar_jobs + 1
    assert after.as_of == NOW + 6


def test_the_id_names_the_content_whatever_the_order():
    jobs = recurring_history()
    assert fit(jobs).model_id == fit(jobs[::-1]).model_id
    renamed = [*jobs[:-1], replace(jobs[-1], name="other")]
    slower = [*jobs[:-1], replace(jobs[-1], end_time=jobs[-1].end_time + 1)]
    ids = {fit(j).model_id for j in (jobs, jobs[:-1], renamed, slower)}
    assert len(ids) == 4
    assert all(i.startswith("duration-") for i in ids)


def test_hostile_names_are_predicted_like_others():
    names = ["a\nb", "x|y'\"", "\udcff", "\u202eevil", "n" * 5000]
    jobs = [
        past_job(10 * i + run, 5 + i, end=T0 + 10 * i + run, name=name)
        for i, name in enumerate(names)
        for run in range(4)
    ]
    model = fit(jobs)
    found = model.predict([view(i, name=name) for i, name in enumerate(names)], NOW)
    assert [p.mean for p in found] == pytest.approx([5, 6, 7, 8, 9])


def test_the_record_of_its_making_is_complete(blended_model):
    info = blended_model.info
    assert info.num_jobs == 240
    assert info.data_until == T0 + 478_000
    assert info.data_from == T0 - 20
    assert info.trained_at == NOW
    assert info.as_of == NOW
    assert set(info.versions) == {"gsched", "numpy", "scikit-learn"}
    assert "name_cluster" in info.features
