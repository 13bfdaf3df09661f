"""What `predict job` prints and gives as JSON, of a model that was really fitted."""

from __future__ import annotations

import json
import math
import re

import pytest
from support.jobs import T0, past_job, view

from gsched.app.job_prediction import JobPrediction
from gsched.predict.attributes import of_view
from gsched.predict.explanation import explain
from gsched.predict.model import DurationModel
from gsched_cli.predict_rows import print_prediction

NOW = T0 + 10**8


@pytest.fixture(scope="module")
def model():
    """Names tell nothing; jobs with a long limit run long."""
    jobs = [
        past_job(
            i,
            (100 if i % 2 else 4000) + i % 7,
            end=T0 + 9000 * i,
            user="ann",
            name="",
            time_limit_s=3600 if i % 2 else 86_400,
        )
        for i in range(160)
    ]
    return DurationModel.fit(jobs, NOW, NOW)


def answer(model, **facts):
    job = view(48211, submit=NOW, time_limit_s=86_400, **facts)
    attributes = of_view(job)
    (look,) = model.look([attributes], NOW)
    return JobPrediction(
        job,
        "model",
        model.predictions_of([look])[0],
        model.rolling.estimate(attributes, NOW),
        explain(model, look),
    )


def printed(capsys, *args):
    print_prediction(answer(*args, name="run\x1b[31m"))
    return capsys.readouterr().out


def test_the_factors_are_shown_and_lead_to_the_prediction(model, capsys):
    text = printed(capsys, model)
    assert "80 % interval" in text
    assert "median" in text
    rows = [line for line in text.splitlines() if "×" in line and "±" in line]
    assert "its time limit" in rows[0]
    assert 1 <= len(rows) < 12  # those that change nothing are told in one
    assert re.search(r"^all else  +×[01]\.\d\d", text, re.MULTILINE)
    document = answer(model, name="x").document()
    typical = document["explanation"]["typical_s"]
    factors = [c["factor"] for c in document["explanation"]["contributions"]]
    assert typical * math.prod(factors) == pytest.approx(document["explanation"]["predicted_s"])
    assert document["prediction"]["mean_s"] == pytest.approx(document["explanation"]["predicted_s"])
    assert document["prediction"]["caution"] == 1.0
    json.dumps(document, allow_nan=False)


def test_hostile_names_do_not_reach_the_terminal(model, capsys):
    assert "\x1b" not in printed(capsys, model)


def test_where_the_past_runs_alone_predict(model, capsys):
    model.rolling_only = frozenset({"gpu"})
    try:
        text = printed(capsys, model)
        assert answer(model, name="x").document()["explanation"] is None
    finally:
        model.rolling_only = frozenset()
    assert "WHAT MAKES IT" not in text
    assert "ENDED" in text


def test_without_a_prediction(capsys):
    print_prediction(JobPrediction(view(1), "table", None))
    assert "no prediction" in capsys.readouterr().out
