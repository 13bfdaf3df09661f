"""`gsched predict train` as an admin meets it: real SQLite, a stand-in for scontrol."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.history import attempt, batch

from gsched.model.job import JobState
from gsched.predict.store import load
from gsched_sql import History

T0 = 1_750_000_000
EVER = {"GSCHED_PREDICT_HISTORY_DAYS": "36500"}


@pytest.fixture
def site(gsched, environment, stand_in):
    """A cluster called alpha with a database; fill it with `site.fill(jobs)`."""
    stand_in("scontrol").answers("ClusterName = alpha\n")
    assert gsched("db", "init").returncode == 0
    return Site(gsched, environment)


class Site:
    def __init__(self, gsched, environment):
        self._gsched = gsched
        self._state = environment["GSCHED_STATE_DIR"]
        self.model_file = Path(self._state) / "models" / "duration.gsmodel"

    def fill(self, count, cluster="alpha", **facts):
        """`count` jobs of twelve names, each name with a duration of its own."""
        records = [
            attempt(
                1 + i,
                T0 + 1000 * i,
                cluster=cluster,
                name=f"{'abcdefghijkl'[i % 12] * 5}",
                start_time=T0 + 1000 * i,
                end_time=T0 + 1000 * i + 5 + 10 * (i % 12),
                **facts,
            )
            for i in range(count)
        ]
        with History.open(f"sqlite:///{self._state}/history.db") as history:
            history.ingest(batch(*records), source_key=cluster)

    def train(self, *words, **environ):
        return self._gsched("predict", "train", *words, environ=EVER | environ)


def test_training_tells_what_it_learnt_from_and_how_good_it_is(site):
    site.fill(36)
    answer = site.train()
    assert answer.returncode == 0, answer.stderr
    lines = [line.split() for line in answer.stdout.splitlines() if line]
    begin = lines.index(["KIND", "ESTIMATOR", "RANK-CORR", "OFF-BY"])
    facts = {tuple(line[:2]): " ".join(line[2:]) for line in lines[:begin]}
    assert lines[1][1].startswith("duration-")
    assert facts["in", "use"] == str(site.model_file)
    assert "36 jobs of cluster alpha" in answer.stdout
    assert facts["gpu", "lambda"].endswith("(share of the rolling estimate)")
    table = [row[1:] for row in lines[begin + 1 :]]
    assert {row[0] for row in table} == {
        *("model", "rolling", "regression", "user-mean", "mean", "last-two", "time-limit")
    }
    by_name = {row[0]: float(row[1]) for row in table}
    assert by_name["model"] > 0.99 > by_name["user-mean"]
    assert load(site.model_file).info.num_jobs == 36


def test_as_json(site):
    site.fill(36)
    site.fill(5, cluster="beta")
    document = json.loads(site.train("--json").stdout)
    assert document["cluster"] == "alpha"
    assert document["num_jobs"] == 36
    assert document["kinds"].keys() == {"gpu"}
    assert 0 <= document["kinds"]["gpu"]["lambda"] <= 1
    assert document["left_out"] == {"incomplete-record": 0}
    assert document["model_id"] == load(site.model_file).model_id
    validation = document["kinds"]["gpu"]["validation"]
    scores = validation["scores"]
    assert scores["model"]["rank_correlation"] > 0.99
    assert scores["mean"]["log_error"] > scores["model"]["log_error"]
    assert validation["grid"].keys() >= {"0.1", "0.5", "1.0"}
    assert "scikit-learn" in document["versions"]


def test_until_keeps_later_jobs_out(site):
    site.fill(36)
    document = json.loads(site.train("--json", "--until", f"{iso(T0 + 20_500)}").stdout)
    assert document["num_jobs"] == 21
    assert document["as_of"] == T0 + 20_500
    assert document["data_until"] < T0 + 20_500
    assert site.train("--until", "whenever").returncode == 2


def iso(epoch):
    from datetime import UTC, datetime

    return datetime.fromtimestamp(epoch, UTC).isoformat()


def test_until_a_time_without_jobs_before_it_is_what_is_blamed(site):
    site.fill(36)
    answer = site.train("--until", "2099-01-01", GSCHED_PREDICT_HISTORY_DAYS="180")
    assert answer.returncode == 65
    assert "0 finished jobs of cluster alpha in the 180 days before 2099-01-01T" in answer.stderr
    assert "hint: name another time for --until" in answer.stderr
    assert "db ingest" not in answer.stderr


def test_a_history_shorter_than_the_time_limits_is_told(site):
    site.fill(36, time_limit_s=30_000)
    long_enough = site.train()
    assert "9:45:15, 99 % of the time limits are 8:20:00 or less" in long_enough.stdout
    assert "too narrow" not in long_enough.stderr
    short = site.train("--json", "--until", iso(T0 + 20_500))
    document = json.loads(short.stdout)
    assert (document["history_s"], document["long_limit_s"]) == (20_085, 30_000)
    assert "intervals are too narrow until the history outlasts the limits" in short.stderr


def test_too_few_jobs_are_refused_and_the_old_model_stays(site):
    site.fill(12)
    assert site.train().returncode == 0
    before = site.model_file.read_bytes()
    answer = site.train(GSCHED_PREDICT_MIN_JOBS="13")
    assert (answer.returncode, answer.stdout) == (65, "")
    assert "12 finished jobs of cluster alpha" in answer.stderr
    assert "predict.min_jobs is 13" in answer.stderr
    assert "gsched db ingest" in answer.stderr
    assert site.model_file.read_bytes() == before


def test_old_jobs_and_those_that_the_cluster_ended_do_not_count(site):
    site.fill(30, state=JobState.NODE_FAIL)
    answer = site.train()
    assert answer.returncode == 65
    assert "0 finished jobs" in answer.stderr
    recent = site.train(GSCHED_PREDICT_HISTORY_DAYS="1")
    assert "0 finished jobs of cluster alpha in the last 1 days" in recent.stderr


def test_it_says_when_the_model_is_not_in_use(site):
    site.fill(12)
    answer = site.train(GSCHED_PREDICT_ESTIMATOR="constant")
    assert answer.returncode == 0
    assert "predict.estimator is 'constant'" in answer.stderr


def test_a_folder_that_cannot_be_written_is_named(site):
    site.fill(12)
    site.model_file.parent.parent.joinpath("models").write_text("a file in its place")
    answer = site.train()
    assert answer.returncode == 69
    assert str(site.model_file) in answer.stderr


def test_before_the_first_training_a_prediction_says_what_to_do(gsched):
    answer = gsched("predict", "job", "1")
    assert (answer.returncode, answer.stdout) == (78, "")
    assert "there is no duration model" in answer.stderr
    assert "hint: train a new one: `gsched predict train`" in answer.stderr


def test_a_damaged_model_is_no_traceback(site, gsched):
    site.model_file.parent.mkdir()
    site.model_file.write_bytes(b"PK\x03\x04 and then nonsense")
    answer = gsched("predict", "job", "1")
    assert answer.returncode == 65
    assert "Traceback" not in answer.stderr
