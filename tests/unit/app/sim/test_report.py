"""A report of simulations: tables, sentences, JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from support.sim_jobs import sim_jobs
from support.sim_reports import report_of
from support.sim_results import queued, sim_result

from gsched.app.sim.left_out import LeftOut
from gsched.app.sim.report import SimReport
from gsched.app.sim.tables import (
    MOST_TENANTS,
    class_tables,
    comparison,
    difference_table,
    figures,
    interval_text,
)
from gsched.app.sim.words import report_lines
from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.intervals import Estimate
from gsched.sim.metrics import summarise
from gsched.sim.rules import Costs, Failures, Placement, Scheduler, Sharing, SimRules, Sleep

NAN = float("nan")


@cache
def three_policies() -> SimReport:
    return report_of({"fifo": [1.0], "sjf": [0.5], "qssf": [0.8]})


def words(report: SimReport) -> str:
    return "\n".join(report_lines(report))


def with_rules(rules: SimRules) -> str:
    return words(replace(three_policies(), rules=rules))


def test_the_first_policy_is_the_baseline() -> None:
    table = comparison(three_policies())
    assert table.title == "Compared with fifo (2,000 of 2,000 jobs simulated)"
    assert [row[0] for row in table.rows] == ["fifo", "sjf", "qssf"]
    assert table.rows[0][4:6] == ("-", "-")
    base, half = (summarise(queued(2000, 1, factor)).all_jobs.jct_s.mean for factor in (1.0, 0.5))
    assert table.rows[1][4] == f"−{100 * (1 - half / base):.1f} %"
    assert table.rows[1][5].startswith("−")


def test_every_row_of_a_table_fits_its_headings() -> None:
    report = three_policies()
    tables = [comparison(report), figures(report), difference_table(report), *class_tables(report)]
    assert len(tables) == 6
    for table in tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.headings)}


def test_figures_have_a_column_a_policy_and_tell_of_how_many_jobs() -> None:
    table = figures(three_policies())
    assert table.headings == ("FIGURE", "FIFO", "SJF", "QSSF")
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["jobs ended"] == ("2,000 of 2,000",) * 3
    assert {"mean JCT", "p99.9 JCT", "p99.9 queueing", "p99.9 bounded slowdown"} <= set(rows)


def test_classes_are_told_for_each_policy() -> None:
    size = next(class_tables(three_policies()))
    assert [row[:2] for row in size.rows[:3]] == [("1", "fifo"), ("1", "sjf"), ("1", "qssf")]


def test_of_many_tenants_the_largest_are_shown() -> None:
    many = MOST_TENANTS + 5
    jobs = sim_jobs([0] * many, np.arange(1, many + 1), tenant=np.arange(many))
    cluster = SimCluster.uniform({"p": many})
    run = summarise(sim_result(jobs, [0] * many, np.arange(1, many + 1), cluster))
    report = report_of({"fifo": [1.0]})
    report = replace(report, policies=[replace(report.policies[0], runs=[run])])
    table = next(table for table in class_tables(report) if table.title == "By tenant")
    assert [row[0] for row in table.rows] == [f"t{k}" for k in range(many - 1, 4, -1)]
    assert len(report.document()["policies"][0]["runs"][0]["by_tenant"]) == many


def test_the_document_is_json_without_nan() -> None:
    document = json.loads(json.dumps(three_policies().document(), allow_nan=False))
    assert list(document) == [
        "source", "cluster", "assumptions", "left_out", "notes", "interrupted", "policies",
        "baseline", "confidence", "interval_unit", "differences",
    ]  # fmt: skip
    assert document["cluster"]["pools"] == [{"name": "p", "nodes": 1, "gpus": 4}]
    assert document["cluster"]["gpu_types"] == [{"name": "", "speed": 1.0, "gpus": 4}]
    assert document["assumptions"]["placement"] == "consolidated"
    assert document["interval_unit"] == "days"
    assert [told["oracle"] for told in document["policies"]] == [False, True, False]
    told = document["differences"][0]
    assert list(told) == ["label", "metric", "value", "low", "high", "baseline"]
    assert document["policies"][1]["ended_under_both"] == [2000]
    assert told["label"] == "sjf"


def test_several_seeds_are_the_unit_of_intervals() -> None:
    report = report_of({"fifo": [1.0, 1.0, 1.0], "sjf": [0.5, 0.5, 0.5]}, seeds=(4, 5, 6))
    assert report.interval_unit == "runs"
    assert report.document()["assumptions"]["seeds"] == [4, 5, 6]
    assert "Runs: 3 a policy, seeds 4, 5, 6." in words(report)
    assert "Student's t over the 3 runs" in words(report)


def test_without_intervals_it_says_what_they_take() -> None:
    report = report_of({"fifo": [1.0]}, days=3)
    assert report.interval_unit is None
    assert "No intervals: they take 3 runs, or 7 days of jobs" in words(report)


def test_what_was_left_out_is_told_with_its_gpu_time() -> None:
    left = LeftOut("larger-than-pool", jobs=2, gpu_time_s=7200.0, examples=("17", "18"))
    report = replace(three_policies(), left_out=[left])
    assert f"Not simulated: {left.words}, 2 GPU-hours." in words(report)
    assert report.document()["left_out"][0]["reason"] == "larger-than-pool"
    assert "No job was left out." in words(three_policies())
    rows = LeftOut("rejected", jobs=7)
    for table in (comparison, figures):
        assert (
            "(2,000 of 2,002 jobs simulated)" in table(replace(report, left_out=[left, rows])).title
        )


@pytest.mark.parametrize(
    ("reason", "number", "told"),
    [
        ("rejected", 1, "1 row that could not be understood"),
        ("rejected", 2, "2 rows that could not be understood"),
        ("no-gpus", 1, "1 job without GPUs"),
        ("no-gpus", 2_859, "2,859 jobs without GPUs"),
    ],
)
def test_one_is_not_several(reason: str, number: int, told: str) -> None:
    assert LeftOut(reason, number).words == told


def test_the_speed_of_a_single_type_is_told_where_it_is_not_one() -> None:
    uniform = SimCluster.uniform({"p": 1})
    fast = replace(uniform, gpu_types=("h100",), type_speed=np.array([2.0]))
    assert "; speeds by GPU type: h100 2." in words(replace(three_policies(), cluster=fast))
    assert "speeds by" not in words(replace(three_policies(), cluster=uniform))


def test_oracles_are_named() -> None:
    lines = {line.split(":")[0]: line for line in report_lines(three_policies())}
    assert "TRUE run times" in lines["Policy sjf"]
    assert "TRUE" not in lines["Policy fifo"]
    assert "predicted run times" in lines["Policy qssf"]


def test_the_discipline_of_each_policy_is_told() -> None:
    report = report_of({"fifo": [1.0], "srtf": [1.0], "themis": [1.0]})
    fifo, srtf, themis = (line for line in report_lines(report) if line.startswith("Policy "))
    assert "does not preempt; the first job of a pool that does not fit blocks" in fifo
    assert "; preempts; a job that does not fit is passed over" in srtf
    assert "; preempts, after 20:00 on its GPUs at least;" in themis
    told = [(told["preempts"], told["misfit"]) for told in report.document()["policies"]]
    assert told == [(False, "block"), (True, "skip"), (True, "skip")]
    slurm = words(replace(report, rules=SimRules(scheduler=Scheduler.SLURM)))
    assert "preempts;" not in slurm


def test_the_first_table_tells_disciplines() -> None:
    """Whether a job may be passed matters more than the order: both stand side by side."""
    report = report_of({"fifo": [1.0], "srtf": [1.0], "multifactor": [1.0], "yarn-cs": [1.0]})
    table = comparison(report)
    place = table.headings.index("DISCIPLINE")
    told = [row[place] for row in table.rows]
    assert told == ["block", "preempt, skip", "backfill", "block-tenant"]
    slurm = comparison(replace(report, rules=SimRules(scheduler=Scheduler.SLURM)))
    assert {row[place] for row in slurm.rows} == {"backfill"}


def some_given_up() -> SimReport:
    """The same jobs under two policies; each gave up two, one of them the same."""
    jobs = sim_jobs([0] * 4, [10, 20, 30, 5000])
    policies = [
        replace(policy, runs=[summarise(sim_result(jobs, [0] * 4, end))])
        for policy, end in zip(
            report_of({"fifo": [1.0], "sjf": [1.0]}).policies,
            ([10, 40, NAN, 5000], [10, 30, 90, NAN]),
            strict=True,
        )
    ]
    return replace(three_policies(), policies=policies)


def test_changes_are_over_the_jobs_that_ended_under_both() -> None:
    """Under sjf the longest job was given up: its mean is the less, and that tells nothing."""
    report = some_given_up()
    rows = {row[0]: row for row in comparison(report).rows}
    assert rows["sjf"][2:5] == ("3 of 4", "0:43", "−20.0 %")
    assert rows["fifo"][2:4] == ("3 of 4", "28:03")
    difference = next(row for row in difference_table(report).rows if row[0] == "mean JCT")
    assert difference[2:4] == ("−0:05", "−20.0 %")
    assert report.ended_under_both(report.policies[1]) == [2]


def test_it_is_said_where_other_jobs_ended() -> None:
    told = words(some_given_up())
    assert "under each policy; of 4: fifo 3, sjf 3 (2 under both)." in told
    assert "over the jobs that ended under both the policy and fifo" in told
    assert "Not the same jobs" not in words(three_policies())
    assert {row[2] for row in comparison(three_policies()).rows} == {"all"}


def of_tenants(tenants: list[int], *names: str) -> SimReport:
    """Two pools with two jobs each."""
    jobs = sim_jobs([0] * 4, [10] * 4, pool=[0, 0, 1, 1], tenant=tenants)
    cluster = SimCluster.uniform({"p": 1, "q": 1})
    run = summarise(sim_result(jobs, [0] * 4, [10] * 4, cluster))
    made = report_of({name: [1.0] for name in names})
    policies = [replace(policy, runs=[run]) for policy in made.policies]
    return replace(made, cluster=cluster, policies=policies)


def test_it_is_said_where_no_pool_has_two_tenants() -> None:
    alone = of_tenants([0, 0, 1, 1], "fifo", "yarn-cs", "allox")
    (line,) = [line for line in report_lines(alone) if "more than one tenant" in line]
    assert line.startswith("No pool has jobs of more than one tenant")
    assert "of yarn-cs, allox only the rest of the order is seen" in line
    assert "--pool-by none" in line
    for other in (of_tenants([0, 1, 1, 1], "fifo", "yarn-cs"), of_tenants([0, 0, 1, 1], "fifo")):
        assert "more than one tenant" not in words(other)


def test_what_does_not_differ_at_all_is_the_same() -> None:
    report = report_of({"fifo": [1.0], "fair-tree": [1.0]})
    assert comparison(report).rows[1][4:6] == ("0.0 %", "the same")
    assert interval_text("jct_mean_s", Estimate(0.0, -0.2, 0.3)) == "about 0:00"
    assert interval_text("jct_mean_s", Estimate(0.0, -2.0, 3.0)) == "−0:02 … +0:03"


def test_knobs_are_told() -> None:
    report = report_of({"qssf": [1.0]})
    policy = load("qssf", span_octaves=4)
    report = replace(report, policies=[replace(report.policies[0], policy=policy)])
    assert "span_octaves = 4" in words(report)
    assert report.document()["policies"][0]["knobs"] == {"span_octaves": 4}


def test_plain_rules_say_that_nothing_is_assumed() -> None:
    told = with_rules(SimRules())
    for line in ("Failures: none.", "GPU sharing: none.", "Node sleep: none."):
        assert line in told
    assert "Costs of each attempt: none, preemption is free." in told
    assert "Placement: consolidated" in told


@pytest.mark.parametrize(
    ("rules", "line"),
    [
        (SimRules(placement=Placement.SPREAD), "Placement: spread"),
        (SimRules(placement=Placement.TOPOLOGY), "Placement: by topology"),
        (SimRules(scheduler=Scheduler.SLURM), "Scheduler: close to Slurm's"),
        (
            SimRules(costs=Costs(launch_s=3, restart_wide_s=60)),
            "Costs of each attempt: launch 3 s, restart on several nodes 60 s.",
        ),
        (
            SimRules(failures=Failures(86_400, 600, checkpoint_every_s=1800)),
            "a node fails every 1-00:00:00 on average and is back after 10:00; its jobs are "
            "requeued and lose all work since the last checkpoint, one every 1800 s",
        ),
        (SimRules(failures=Failures(86_400, 600)), "lose all work of its attempt"),
        (
            SimRules(failures=Failures(86_400, 600, max_requeues=4)),
            "a job that was requeued 4 times is given up at its next failure",
        ),
        (
            SimRules(sharing=Sharing(("a", "b"), np.ones((2, 2)), min_speed=0.6)),
            "two jobs of the same size where both keep 60 % of their speed, by the speeds of 2",
        ),
        (SimRules(sleep=Sleep(1800, 300, 2)), "after 30:00 idle, 300 s to wake, 2 idle nodes"),
        (SimRules(size_first_tick_s=1), "and by the policy's key 1 s later"),
        (SimRules(sample_s=60), "samples every 60 s"),
    ],
)
def test_each_rule_is_told(rules: SimRules, line: str) -> None:
    assert line in with_rules(rules)
    assert line not in with_rules(SimRules())


def test_pools_and_gpu_types_are_told() -> None:
    cluster = SimCluster.uniform(dict.fromkeys("abcdef", 2))
    cluster = replace(cluster, gpu_types=("V100", "A100"), type_speed=np.array([1.0, 2.5]))
    told = words(replace(three_policies(), cluster=cluster))
    assert "12 nodes, 96 GPUs, 6 pools that share nothing (a, b, c, d, …)" in told
    assert "speeds by GPU type: V100 1, A100 2.5" in told


def test_an_interrupted_report_says_so_first() -> None:
    report = three_policies()
    cut = replace(report.policies[0].runs[0], interrupted=True)
    report = replace(report, policies=[replace(report.policies[0], runs=[cut])])
    assert report.document()["interrupted"]
    assert next(report_lines(report)).startswith("INTERRUPTED")
    assert not next(report_lines(three_policies())).startswith("INTERRUPTED")
