"""The simulation in which predictions are made: the same as others, and never before its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.qssf_online import BATCH_S, Model, Oracle, Rolling, run_online
from support.sim_jobs import columns_of, sim_jobs
from support.sim_strategies import workloads

from gsched.model.history import PastJob
from gsched.model.job import JobState
from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

RULES = SimRules(sample_s=1000.0)
NODE = SimCluster.uniform({"p": 1})


def past_of(jobs: SimJobs) -> list[PastJob]:
    """What is known of each; names and users go round."""
    return [
        PastJob(
            cluster="c",
            job_id=row + 1,
            submit_time=jobs.origin + int(jobs.submit_s[row]),
            start_time=0,
            end_time=int(jobs.duration_s[row]),
            user=f"u{row % 3}",
            tenant="t",
            partition="p",
            name=f"n{row % 4}",
            num_gpus=int(jobs.num_gpus[row]),
            num_cpus=1,
            num_nodes=1,
            time_limit_s=None,
            state=JobState.COMPLETED,
        )
        for row in range(len(jobs))
    ]


@given(work=workloads())
@settings(max_examples=40, derandomize=True)
def test_with_the_truth_it_is_the_static_simulation(work: tuple[SimJobs, SimCluster]) -> None:
    jobs, cluster = work
    known = replace(jobs, predicted_duration_s=jobs.duration_s)
    online, predicted_s = run_online(jobs, past_of(jobs), cluster, RULES, Oracle())
    static = simulate(known, cluster, load("qssf"), RULES)
    assert predicted_s.tolist() == jobs.duration_s.tolist()
    one, other = columns_of(online), columns_of(static)
    assert [name for name in one if one[name].tobytes() != other[name].tobytes()] == []


class Listening(Rolling):
    """Notes what it was told, and what it was asked when."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[PastJob] = []
        self.asked: list[tuple[int, int, int]] = []  # now, job id, how many had ended

    def predict(self, jobs: Sequence[PastJob], now: int) -> Sequence[float | None]:
        self.asked += [(now, job.job_id, len(self.ended)) for job in jobs]
        return super().predict(jobs, now)

    def observe(self, job: PastJob) -> None:
        self.ended.append(job)
        super().observe(job)


def crowded(seed: int = 1) -> SimJobs:
    draw = np.random.default_rng(seed)
    submit_s = np.sort(draw.integers(0, 40_000, 120)).astype(float)
    return sim_jobs(submit_s, draw.integers(1, 700, 120).astype(float), num_gpus=8)


def test_each_is_predicted_once_from_all_that_had_ended_and_nothing_else() -> None:
    jobs = crowded()
    learner = Listening()
    result, predicted_s = run_online(jobs, past_of(jobs), NODE, RULES, learner)
    assert [job_id for _, job_id, _ in learner.asked] == list(range(1, len(jobs) + 1))
    end_s = np.sort(result.end_s)
    for (now, _, known), submit_s in zip(learner.asked, jobs.submit_s.tolist(), strict=True):
        since_s = now - jobs.origin
        assert since_s == submit_s // BATCH_S * BATCH_S
        assert known == np.searchsorted(end_s, since_s)  # those that ended before
    told = {job.job_id: job.end_time - jobs.origin for job in learner.ended}
    assert all(result.end_s[number - 1] == end for number, end in told.items())
    assert all(job.duration_s == jobs.duration_s[job.job_id - 1] for job in learner.ended)
    assert np.isnan(predicted_s).any()
    assert not np.isnan(predicted_s[-50:]).any()


@pytest.mark.parametrize("learner", [Rolling, Model])
def test_what_has_not_ended_yet_changes_no_prediction(learner: type[Rolling | Model]) -> None:
    """All jobs that end after a moment take another time: predictions until then are the same."""
    jobs = crowded()
    result, before = run_online(jobs, past_of(jobs), NODE, RULES, learner())
    until_s = 20_000.0
    late = result.end_s >= until_s
    assert 20 < late.sum() < 100
    changed = replace(jobs, duration_s=np.where(late, jobs.duration_s * 7 + 13, jobs.duration_s))
    _, after = run_online(changed, past_of(changed), NODE, RULES, learner())
    same = jobs.submit_s < until_s
    np.testing.assert_array_equal(before[same], after[same])
    assert (before[~same] != after[~same]).any()


def test_a_job_that_nothing_is_known_of_has_the_median_key_of_those_before_it() -> None:
    """Nobody knows the first three, nor newcomers in the end: their keys are not those of 0 s."""

    class OfTheOld(Oracle):
        def predict(self, jobs: Sequence[PastJob], now: int) -> Sequence[float | None]:
            return [None if job.user == "u2" else float(job.duration_s) for job in jobs]

    jobs = sim_jobs([0, 1, 2, 3, 4, 5], [100, 10, 50, 30, 20, 40], num_gpus=8)
    past = [replace(p, user="u2" if p.job_id == 3 else "u1") for p in past_of(jobs)]
    result, _ = run_online(jobs, past, NODE, RULES, OfTheOld())
    # when the first ends: 10, 20, 30, then 40 and the unknown one (the median of 100 and 10 is 55)
    assert np.argsort(result.start_s).tolist() == [0, 1, 4, 3, 5, 2]
