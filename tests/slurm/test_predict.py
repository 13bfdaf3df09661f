"""Predictions for jobs of a real Slurm, from a history that ran on it."""

from __future__ import annotations

import pytest
from support.site import fresh_site

from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm

RUNS = {"blink": 0.1, "nap's\n|end": 3}
"""Name → seconds that it runs."""


@pytest.fixture(scope="module")
def site():
    with fresh_site(num_nodes=2, accounting="filetxt") as site:
        for _ in range(5):
            for name, seconds in RUNS.items():
                site.slurm(
                    *("sbatch", "-J", name, "--gres=gpu:1", "-o", "/dev/null"),
                    *("--wrap", f"sleep {seconds}"),
                    user="games",
                )
        wait_for(site.arm.is_done, "the history's jobs to end", timeout_s=60)
        site.ok("db", "ingest")
        yield site


def test_a_waiting_job_is_predicted_from_its_users_runs_of_that_name(site):
    trained = site.json("predict", "train")
    assert trained["num_jobs"] == 10
    site.arm.fill()
    try:
        waiting = {name: site.submit(name, gpus=4) for name in RUNS}
        found = {name: site.json("predict", "job", str(job)) for name, job in waiting.items()}
        text = site.ok("predict", "job", str(waiting["blink"]))
    finally:
        site.drain_queue()
    for name, answer in found.items():
        assert answer["name"] == name
        assert answer["num_gpus"] == 4
        assert answer["prediction"]["source"] == "similar-name"
        assert answer["prediction"]["model_id"] == trained["model_id"]
        assert answer["prediction"]["similar_jobs"] == 5
        assert [m["name"] for m in answer["similar_jobs"]] == [name] * 5
        assert sum(m["weight"] for m in answer["similar_jobs"]) == pytest.approx(1)
    short, long = (found[name]["prediction"]["mean_s"] for name in RUNS)
    assert short < 1.5
    assert 2.5 < long < 5.0
    assert "from 5 similar jobs of this user" in text
    assert "4 × " in text


def test_a_job_that_slurm_does_not_know_is_a_usage_error(site):
    answer = site.gsched("predict", "job", "4242")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert "Slurm knows no job 4242" in answer.stderr
