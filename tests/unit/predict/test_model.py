from __future__ import annotations

from dataclasses import replace

import pytest
from support.jobs import T0, past_job, view

from gsched.errors import DataError
from gsched.model.job import JobState, PredictionKind
from gsched.predict.attributes import of_view
from gsched.predict.model import DurationModel

from .conftest import LIMITS_S, recurring_history, unnamed_history

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
    assert [p for p, _ in first.quantiles] == [0.1, 0.5, 0.9]
    values = [v for _, v in first.quantiles]
    assert values == sorted(values)
    assert values[0] < first.mean < values[2]
    assert first.as_of == recurring_model.info.data_until + 1


def test_the_blend_weighs_both_parts(blended_model):
    asked = view(1, user="bob", name="sh", time_limit_s=LIMITS_S[1], submit=T0)
    lam = blended_model.info.lam
    rolled = blended_model.rolling.estimate(of_view(asked), NOW).duration_s
    regressed = float(blended_model.regression.predict([of_view(asked)])[0])
    found = blended_model.predict([asked], NOW)[0]
    assert found.mean == pytest.approx(lam * rolled + (1 - lam) * regressed)
    assert regressed == pytest.approx(1280, rel=0.1)
    assert lam == 0.4
    ratios = blended_model.info.validation.ratios
    expected = [found.mean * r for r in ratios["similar-name"]]
    assert [v for _, v in found.quantiles] == pytest.approx(expected)


def test_quantiles_come_from_held_out_jobs_of_the_same_rule(blended_model):
    ratios = {"any": (0.5, 1.0, 2.0), "similar-name": (0.9, 1.0, 1.1)}
    validation = replace(blended_model.info.validation, ratios=ratios)
    info = replace(blended_model.info, validation=validation)
    model = DurationModel(info, blended_model.rolling, blended_model.regression)
    same, other = model.predict([view(1, name="sh"), view(2, name="new one")], NOW)
    assert (same.source, other.source) == ("similar-name", "user-gpus")
    assert [v / same.mean for _, v in same.quantiles] == pytest.approx([0.9, 1.0, 1.1])
    assert [v / other.mean for _, v in other.quantiles] == pytest.approx([0.5, 1.0, 2.0])


def test_order_and_length_of_the_answer_follow_the_question(blended_model):
    asked = [view(i, user=u) for i, u in enumerate(["bob", "ann"] * 2)]
    means = [p.mean for p in blended_model.predict(asked, NOW)]
    assert means[0] == means[2] > means[1] == means[3]
    assert blended_model.predict([], NOW) == []


def test_without_regression_none_is_kept_or_needed(recurring_model):
    assert recurring_model.info.lam == 1.0
    assert recurring_model.regression is None


def test_too_few_jobs_use_the_rolling_estimate_alone():
    model = fit([past_job(i, 10 * i, end=T0 + i) for i in range(1, 5)])
    assert model.info.validation is None
    assert model.info.lam == 1.0
    found = model.predict([view(1)], NOW)[0]
    assert found.quantiles[0][1] == 10
    assert found.quantiles[2][1] == 40


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
    assert blended_model.regression is not None
    found = blended_model.predict(asked, early)[0]
    estimate = blended_model.rolling.estimate(of_view(asked[0]), early)
    assert found.mean == estimate.duration_s
    assert found.quantiles == estimate.quantiles()
    assert max(m.run.end_time for m in estimate.matches) < early
    assert found.as_of == early
    assert blended_model.predict(asked, T0) == [None]
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
    names = ["a\nb", "x|y'\"", "\udcff", "\u202eevil", "n" * 5000, ""]
    jobs = [
        past_job(10 * i + run, 5 + i, end=T0 + 10 * i + run, name=name)
        for i, name in enumerate(names)
        for run in range(4)
    ]
    model = fit(jobs)
    found = model.predict([view(i, name=name) for i, name in enumerate(names)], NOW)
    assert [p.mean for p in found] == pytest.approx([5, 6, 7, 8, 9, 10])


def test_the_record_of_its_making_is_complete(blended_model):
    info = blended_model.info
    assert info.num_jobs == 240
    assert info.data_until == T0 + 478_000
    assert info.data_from == T0 - 20
    assert info.trained_at == NOW
    assert info.as_of == NOW
    assert set(info.versions) == {"gsched", "numpy", "scikit-learn"}
    assert "name_cluster" in info.features
