"""The age that a requeue has cost a job is in its SiteFactor while it waits again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.slurm_bench import Bench

from gsched.daemon.age_repaid import Repayment
from gsched.model.job import JobKey
from gsched.slurm.records import SlurmConfig

DAY_S = 86400
KEY = JobKey("c", 1)
DBD = {"AccountingStorageType": "accounting_storage/slurmdbd"}


def owing(bench: Bench, waited_s: int, weight: int = 1000, job: int = 1) -> None:
    """The cluster's age factor has given the job so much of 1,000 points within ten days."""
    bench.backend.repayment = Repayment(weight, 10 * DAY_S, {bench.key(job): waited_s})


@pytest.mark.parametrize(
    ("waited_s", "points"), [(0, 0), (DAY_S, 100), (5 * DAY_S, 500), (99 * DAY_S, 1000), (-5, 0)]
)
def test_it_is_what_slurms_age_factor_had_given(waited_s: int, points: int) -> None:
    assert Repayment(1000, 10 * DAY_S, {KEY: waited_s}).points(KEY) == points
    assert Repayment(1000, 10 * DAY_S, {}).points(KEY) == 0


def test_weight_and_span_are_slurms() -> None:
    values = {"PriorityWeightAge": "5000", "PriorityMaxAge": "2-00:00:00"}
    assert Repayment.of(SlurmConfig(values | DBD), {KEY: DAY_S}).points(KEY) == 2500
    assert Repayment.of(SlurmConfig(values), {KEY: DAY_S}).points(KEY) == 0  # counts no age
    assert Repayment.of(SlurmConfig(DBD), {KEY: DAY_S}).points(KEY) == 0
    odd = SlurmConfig({"PriorityWeightAge": "700", "PriorityMaxAge": "soon"} | DBD)
    assert Repayment.of(odd, {KEY: DAY_S}).points(KEY) == 100  # Slurm's own seven days


def test_a_job_gets_it_on_top_of_its_place_and_is_told_so() -> None:
    bench = Bench(1, 2, 3)
    owing(bench, DAY_S + 500)
    plan = bench.decide(j1=-0.5, j2=0.5, j3=-0.5)
    assert {c.key.job_id: c.after for c in plan.changes} == {1: -400, 2: 500, 3: -500}
    (told,) = plan.reasons.values()
    assert told.code == "x"
    assert dict(told.params) == {"repaid_points": 100, "repaid_wait_s": DAY_S + 500}


def test_it_stands_from_round_to_round() -> None:
    bench = Bench(1, 2)
    owing(bench, DAY_S)
    assert bench.plan(j1=0.1, j2=0.9)[1] == (0, 200, False)
    bench.client.factors |= {1: 200, 2: 900}
    bench.stands(1, 0, 200)
    bench.stands(2, 0, 900)
    plan = bench.decide(j1=0.1, j2=0.9)
    assert plan.changes == ()
    assert [key.job_id for key in plan.reasons] == [1]
    bench.backend.repayment = Repayment()  # it runs, or waits no more
    assert bench.plan(j1=0.1, j2=0.9) == {1: (200, 100, False)}


def test_nobody_comes_before_the_first_by_it() -> None:
    bench = Bench(1, 2)
    owing(bench, 9 * DAY_S)
    plan = bench.decide(j1=0.3, j2=0.6)
    assert {c.key.job_id: c.after for c in plan.changes} == {1: 600, 2: 600}
    assert next(iter(plan.reasons.values())).params["repaid_points"] == 300
    assert bench.decide(j1=0.6, j2=0.3).reasons == {}


def test_what_is_not_moved_gets_nothing() -> None:
    bench = Bench(1, 2)
    owing(bench, 5 * DAY_S)
    bench.client.hidden = {1}  # sprio does not list it
    plan = bench.decide(j1=-0.5, j2=0.5)
    assert [c.key.job_id for c in plan.changes] == [2]
    assert plan.reasons == {}
    bench = Bench(1, 2)
    owing(bench, 5 * DAY_S)
    bench.exclude(1, "foreign-site-factor")
    plan = bench.decide(j2=0.5)
    assert [c.key.job_id for c in plan.changes] == [2]
    assert plan.reasons == {}


def test_another_attempts_key_is_another_jobs() -> None:
    bench = Bench(1, 2)
    stale = replace(bench.key(1), epoch=5)
    bench.backend.repayment = Repayment(1000, 10 * DAY_S, {stale: DAY_S})
    assert bench.plan(j1=-0.5, j2=0.5)[1] == (0, -500, False)
