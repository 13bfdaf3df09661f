"""Static, ordered and rounds: where two paths can run the same thing they give the same result.

The same examples each time: shares of tenants that are equal but for rounding come in either order,
where the two paths let use fade in steps of other lengths.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.sim_jobs import columns_of, sim_jobs
from support.sim_strategies import placements, workloads

from gsched.model.job import Capability
from gsched.model.progress import silent
from gsched.policy.base import Policy
from gsched.policy.order_form import OrderForm
from gsched.policy.registry import POLICIES, load
from gsched.sim.cluster import SimCluster
from gsched.sim.core.ordered_loop import run_ordered
from gsched.sim.core.static_run import run_static
from gsched.sim.jobs import SimJobs
from gsched.sim.replay import run_rounds
from gsched.sim.result import SimResult
from gsched.sim.rules import Costs, Failures, Placement, Scheduler, SimRules, Sleep
from gsched.sim.run import runs_static, simulate
from gsched.sim.table import job_table

FREE = SimRules(sample_s=10.0)
COSTLY = replace(FREE, costs=Costs(2.0, 3.0, 4.0, 5.0, 6.0))
UNDER_WAY = replace(FREE, costs=Costs(launch_s=2.0, cleanup_s=3.0))  # all that jobs without
SLURM = replace(FREE, scheduler=Scheduler.SLURM)
SLEEPING = replace(FREE, sleep=Sleep(idle_timeout_s=5.0, wake_s=3.0))
FAILING = replace(FREE, seed=3, failures=Failures(300.0, 20.0, 7.0))
BY_THE_CLOCK = replace(FREE, round_s=7.0)

ONE_NODE = SimCluster.uniform({"p": 1})


def form_of(policy: Policy, jobs: SimJobs, cluster: SimCluster) -> OrderForm:
    form = policy.order_form(job_table(jobs, cluster, Capability.ORACLE in policy.requires))
    assert form is not None
    return form


def is_static(name: str) -> bool:
    jobs = sim_jobs([0.0], [1.0], predicted_duration_s=1.0, deadline_s=9.0)
    return runs_static(form_of(load(name), jobs, ONE_NODE), FREE, ONE_NODE)


BY_ROUNDS = ["chronus", "unisched"]
"""It plans: no other path can run it."""

FORMED = [name for name in POLICIES if name not in BY_ROUNDS]
STATIC = [name for name in FORMED if is_static(name)]


def assert_same(one: SimResult, other: SimResult) -> None:
    columns, others = columns_of(one), columns_of(other)
    differ = [name for name, column in columns.items() if not _equal(column, others[name])]
    assert differ == []
    assert columns.keys() == others.keys()
    assert [c.dtype for c in columns.values()] == [c.dtype for c in others.values()]


def _equal(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and one.tobytes() == other.tobytes()


def test_there_are_static_policies() -> None:
    assert {"fifo", "sjf", "qssf", "fewest-gpus"} <= set(STATIC) < set(POLICIES)


@pytest.mark.parametrize("name", STATIC)
@given(work=workloads(), placement=placements, rules=st.sampled_from([FREE, UNDER_WAY]))
@settings(max_examples=25, derandomize=True)
def test_static_is_ordered(
    name: str, work: tuple[SimJobs, SimCluster], placement: Placement, rules: SimRules
) -> None:
    policy = load(name)
    form = form_of(policy, *work)
    told = replace(rules, placement=placement)
    static = run_static(*work, form, told, name, silent)
    assert static.path == "static"
    assert_same(static, run_ordered(*work, form, told, name, silent))


@pytest.mark.parametrize("name", BY_ROUNDS)
def test_what_has_no_form_runs_by_rounds(name: str) -> None:
    jobs = sim_jobs([0.0], [1.0], predicted_duration_s=1.0, deadline_s=9.0)
    assert load(name).order_form(job_table(jobs, ONE_NODE, oracle=False)) is None
    assert simulate(jobs, ONE_NODE, load(name), FREE).path == "rounds"


@pytest.mark.parametrize("name", FORMED)
@given(
    # memory forgets who has received less than a GPU-second; here nobody has so little
    work=workloads(most=10, shortest_s=2),
    placement=placements,
    rules=st.sampled_from([FREE, COSTLY, SLURM, BY_THE_CLOCK]),
)
@settings(max_examples=12, derandomize=True)
def test_rounds_are_ordered(
    name: str, work: tuple[SimJobs, SimCluster], placement: Placement, rules: SimRules
) -> None:
    """The daemon's own rounds, with what the policy decides in each, against the compiled loop."""
    jobs, cluster = work
    told = replace(rules, placement=placement)
    rounds = run_rounds(jobs, cluster, load(name), told)
    assert rounds.path == "rounds"
    form = form_of(load(name), jobs, cluster)
    assert_same(rounds, run_ordered(jobs, cluster, form, told, name, silent))


@pytest.mark.parametrize("name", ["fifo", "qssf", "yarn-cs"])
@given(work=workloads(most=10), rules=st.sampled_from([SLEEPING, FAILING]))
@settings(max_examples=12, derandomize=True)
def test_nodes_that_sleep_and_fail_do_so_in_rounds_too(
    name: str, work: tuple[SimJobs, SimCluster], rules: SimRules
) -> None:
    rounds = run_rounds(*work, load(name), rules)
    assert_same(rounds, run_ordered(*work, form_of(load(name), *work), rules, name, silent))


@pytest.mark.parametrize("name", ["fifo", "srtf", "tiresias"])
def test_times_need_not_be_whole(name: str) -> None:
    """Nor does a large origin make them inexact."""
    draw = np.random.default_rng(5)
    jobs = sim_jobs(
        np.sort(draw.uniform(0, 50, 40)),
        draw.uniform(0.1, 40, 40),
        origin=1_700_000_000,
        num_gpus=draw.choice([1, 2, 8], 40),
    )
    rounds = run_rounds(jobs, ONE_NODE, load(name), FREE)
    assert rounds.finished.all()
    if name != "tiresias":  # it can ask to be woken at whole seconds only
        ordered = run_ordered(jobs, ONE_NODE, form_of(load(name), jobs, ONE_NODE), FREE, "", silent)
        np.testing.assert_array_equal(rounds.start_s, ordered.start_s)
        np.testing.assert_array_equal(rounds.end_s, ordered.end_s)


@pytest.mark.parametrize(
    ("name", "path"), [("fifo", "static"), ("qssf", "static"), ("srtf", "ordered")]
)
def test_simulate_takes_the_quickest(name: str, path: str) -> None:
    jobs = sim_jobs([0.0, 1.0], [5.0, 6.0], predicted_duration_s=4.0)
    assert simulate(jobs, ONE_NODE, load(name)).path == path


@pytest.mark.parametrize(
    "rules",
    [
        SLURM,
        SLEEPING,
        FAILING,
        BY_THE_CLOCK,
    ],
)
def test_what_moves_jobs_about_is_nothing_for_the_tight_loop(rules: SimRules) -> None:
    jobs = sim_jobs([0.0, 1.0], [5.0, 6.0])
    assert simulate(jobs, ONE_NODE, load("fifo"), rules).path == "ordered"
