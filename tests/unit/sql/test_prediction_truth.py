from __future__ import annotations

import pytest
from support.history import CLUSTER, attempt, batch, running

from gsched.model.job import JobKey, JobState, Prediction, PredictionKind
from gsched.model.prediction_truth import PredictionTruth
from gsched_sql import History
from gsched_sql.engine import open_engine, writing
from gsched_sql.prediction_rows import keep

QUANTILES = ((0.5, 100.0), (0.9, 150.0))


def predicted(mean, kind=PredictionKind.DURATION, model_id="m", quantiles=QUANTILES):
    return Prediction(kind, mean, quantiles, "similar-name", model_id, 3, 900)


def key(job_id, epoch=1000):
    return JobKey(CLUSTER, job_id, epoch=epoch)


@pytest.fixture
def truth(database_url):
    """Ingest records, keep predictions, and ask what became of them."""

    def ask(records, predictions, made_since=None):
        with History.open(database_url) as history:
            history.ingest(batch(*records), source_key=None)
            engine = open_engine(database_url)
            with writing(engine) as conn:
                for at, entries in predictions.items():
                    keep(conn, entries, at)
            engine.dispose()
            return history.prediction_truth(CLUSTER, made_since)

    return ask


def test_errors_and_coverage_over_the_predictions_that_met_their_truth(truth):
    ran = {1: 60, 2: 100, 3: 140, 4: 200}
    records = [attempt(n, 1000, end_time=1010 + s) for n, s in ran.items()]
    records.append(running(5))
    records.append(attempt(6, 1000, state=JobState.REVOKED))
    entries = [(key(n), 1000, predicted(110.0)) for n in (1, 2, 3, 4, 5, 6, 77)]
    (found,) = truth(records, {950: entries})
    assert found == PredictionTruth(
        kind=PredictionKind.DURATION,
        model_id="m",
        made=7,
        known=4,
        median_error=(30 + 50) / 2,  # of 50, 10, 30, 90
        mean_error=(50 + 10 - 30 - 90) / 4,
        coverage=((0.5, 0.5, 4), (0.9, 0.75, 4)),
    )


def test_kinds_models_and_times_are_told_apart(truth):
    records = [attempt(n, 1000) for n in (1, 2, 3)]
    early = [(key(1), 1000, predicted(90.0))]
    late = [
        (key(2), 1000, predicted(130.0, model_id="n")),
        (key(3), 1000, predicted(1000.0, PredictionKind.START, quantiles=())),
        (key(3), 1000, predicted(5.0, PredictionKind.SPEED)),
    ]
    found = {(t.kind.value, t.model_id): t for t in truth(records, {950: early, 980: late})}
    assert {k: (t.median_error, t.mean_error) for k, t in found.items()} == {
        ("duration", "m"): (10, -10),
        ("duration", "n"): (30, 30),
        ("start", "m"): (10, -10),
    }
    since = truth(records, {}, made_since=980)
    assert [t.model_id for t in since] == ["n", "m"]


def test_a_requeued_attempt_is_no_truth_and_nothing_known_has_no_errors(truth):
    records = [attempt(1, 1000, state=JobState.REQUEUED), running(1, 1111, restarts=1)]
    (found,) = truth(records, {950: [(key(1), 1000, predicted(1.0))]})
    assert (found.made, found.known) == (1, 0)
    assert (found.median_error, found.mean_error, found.coverage) == (None, None, ())


def test_a_cluster_that_is_not_known_has_no_predictions(database_url):
    with History.open(database_url) as history:
        assert history.prediction_truth("nowhere") == []
