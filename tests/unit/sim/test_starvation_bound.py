"""A bound on waiting in a simulation: who has waited beyond it is next, in each of the paths."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.qssf_figures import overtakers
from support.sim_checks import check
from support.sim_jobs import columns_of, sim_jobs
from support.sim_strategies import workloads

from gsched.errors import UsageError
from gsched.model.job import Capability
from gsched.model.jobtable import JobTable
from gsched.model.progress import silent
from gsched.policy.base import Policy
from gsched.policy.order_form import Discipline, Misfit, OrderForm
from gsched.policy.qssf import Qssf
from gsched.policy.registry import POLICIES, load
from gsched.sim.cluster import SimCluster
from gsched.sim.core.ordered_loop import run_ordered
from gsched.sim.jobs import SimJobs
from gsched.sim.replay import run_rounds
from gsched.sim.result import SimResult
from gsched.sim.rules import Failures, Scheduler, SimRules
from gsched.sim.run import simulate
from gsched.sim.table import job_table

FREE = SimRules(sample_s=10.0)
ONE_NODE = SimCluster.uniform({"p": 1})
TRIED = {
    "plain": FREE,
    "backfill": replace(FREE, scheduler=Scheduler.SLURM),
    "by the clock": replace(FREE, round_s=7.0),
    "failing": replace(FREE, seed=3, failures=Failures(60.0, 5.0, 7.0)),
}
bounds = st.sampled_from([1, 5, 20, 60])


class Skipping(Qssf):
    """A site's own policy: whoever fits passes those before it."""

    name = "skipping"

    def order_form(self, jobs: JobTable) -> OrderForm | None:
        form = super().order_form(jobs)
        assert form is not None
        return replace(form, discipline=Discipline(misfit=Misfit.SKIP))


def policy_of(name: str) -> Policy:
    return Skipping() if name == Skipping.name else load(name)


def form_of(name: str, jobs: SimJobs, cluster: SimCluster) -> OrderForm:
    policy = policy_of(name)
    form = policy.order_form(job_table(jobs, cluster, Capability.ORACLE in policy.requires))
    assert form is not None
    return form


def discipline(name: str) -> tuple[bool, Misfit]:
    jobs = sim_jobs([0.0], [1.0], predicted_duration_s=1.0, deadline_s=9.0)
    found = form_of(name, jobs, ONE_NODE).discipline
    return found.preempts, found.misfit


FORMED = [name for name in POLICIES if name not in ("chronus", "unisched")]
"""That one plans, and decides by rounds alone."""

KEEPING = [name for name in (*FORMED, Skipping.name) if not discipline(name)[0]]
PREEMPTING = [name for name in FORMED if discipline(name)[0]]
STRICT = [name for name in KEEPING if discipline(name)[1] is not Misfit.BACKFILL]


def whole(seconds: float) -> int:
    return int(np.floor(seconds))


def overtaken(result: SimResult, bound_s: int) -> list[tuple[int, int]]:
    """(who started, who still waited then, beyond the bound, and should have come first)."""
    jobs, start_s = result.jobs, result.start_s
    due_s = np.floor(jobs.submit_s) + bound_s + 1  # from then on it has waited for longer
    found = []
    for waiter in range(len(jobs)):
        until_s = np.inf if np.isnan(start_s[waiter]) else start_s[waiter]
        for other in np.flatnonzero((start_s >= due_s[waiter]) & (start_s < until_s)).tolist():
            is_longer = due_s[other] <= start_s[other] and other < waiter
            if jobs.pool[other] == jobs.pool[waiter] and not is_longer:
                found.append((other, waiter))
    return found


def test_every_discipline_is_tried() -> None:
    assert {discipline(name)[1] for name in KEEPING} == set(Misfit)
    assert {"fifo", "qssf", "multifactor", "yarn-cs"} <= set(KEEPING)
    assert "srtf" in PREEMPTING


@pytest.mark.parametrize("name", KEEPING)
@given(work=workloads(most=12, shortest_s=2), bound_s=bounds, how=st.sampled_from(sorted(TRIED)))
@settings(max_examples=20, derandomize=True)
def test_rounds_with_the_daemons_bound_are_ordered_with_the_simulators(
    name: str, work: tuple[SimJobs, SimCluster], bound_s: int, how: str
) -> None:
    rules = replace(TRIED[how], starvation_bound_s=bound_s)
    rounds = columns_of(run_rounds(*work, policy_of(name), rules))
    ordered = columns_of(run_ordered(*work, form_of(name, *work), rules, name, silent))
    assert rounds.keys() == ordered.keys()
    differ = [c for c, column in rounds.items() if column.tobytes() != ordered[c].tobytes()]
    assert differ == []


@pytest.mark.parametrize("name", STRICT)
@given(work=workloads(most=25), bound_s=bounds, round_s=st.sampled_from([0.0, 7.0]))
@settings(max_examples=40, derandomize=True)
def test_nobody_starts_in_a_pool_while_a_longer_waiter_starves_there(
    name: str, work: tuple[SimJobs, SimCluster], bound_s: int, round_s: float
) -> None:
    """And so a wait ends: with those that ran by then, and those that starved before."""
    rules = replace(FREE, starvation_bound_s=bound_s, round_s=round_s)
    result = simulate(*work, policy_of(name), rules)
    assert result.path == "ordered"
    check(result)
    assert overtaken(result, bound_s) == []
    assert overtakers(result, bound_s).tolist() == []
    for row in range(len(work[0])):
        assert result.start_s[row] <= latest_start_s(result, row, bound_s)


def latest_start_s(result: SimResult, row: int, bound_s: int) -> float:
    """When a job has started at the latest: after all that the bound leaves before it.

    Those that hold GPUs when it begins to starve, and then one by one those that wait since before
    it; each may wait for the next round.
    """
    jobs, round_s = result.jobs, result.rules.round_s
    due_s = whole(jobs.submit_s[row]) + bound_s + 1.0 + round_s
    mine = jobs.pool == jobs.pool[row]
    held = mine & (result.start_s < due_s) & (result.end_s > due_s)
    held[row] = False
    ahead = mine & (result.start_s >= due_s) & (np.arange(len(jobs)) < row)
    free_s = due_s + float(np.max(result.end_s[held] - due_s, initial=0.0)) + round_s
    return free_s + float(np.sum(jobs.duration_s[ahead] + round_s))


def test_without_a_bound_some_are_overtaken_for_ever() -> None:
    """What the property above would find: a large job under a stream of small ones."""
    submit_s = [0.0, 1.0, *range(2, 400, 4)]
    jobs = sim_jobs(submit_s, [10.0, 100.0, *[10.0] * 100], num_gpus=[4, 8, *[4] * 100])
    jobs = replace(jobs, predicted_duration_s=jobs.duration_s)
    free = simulate(jobs, ONE_NODE, load("qssf"), FREE)
    assert free.start_s[1] == free.start_s.max()
    assert len(overtaken(free, 60)) > 50
    # what benches count for large logs counts the same
    assert overtakers(free, 60).tolist() == sorted({other for other, _ in overtaken(free, 60)})
    bound = simulate(jobs, ONE_NODE, load("qssf"), replace(FREE, starvation_bound_s=60))
    assert overtaken(bound, 60) == []
    assert 62 <= bound.start_s[1] <= 62 + 10


@pytest.mark.parametrize("name", ["fifo", "qssf", "multifactor", "yarn-cs", "skipping"])
@given(work=workloads())
@settings(max_examples=15, derandomize=True)
def test_a_bound_that_nobody_reaches_changes_nothing(
    name: str, work: tuple[SimJobs, SimCluster]
) -> None:
    form = form_of(name, *work)
    free = columns_of(run_ordered(*work, form, FREE, name, silent))
    bound = columns_of(
        run_ordered(*work, form, replace(FREE, starvation_bound_s=10**6), name, silent)
    )
    assert [c for c in free if free[c].tobytes() != bound[c].tobytes()] == []


def test_backfill_goes_on_where_it_does_not_delay_who_starves() -> None:
    """EASY for the longest waiter: by time limits, that are kept here."""
    jobs = sim_jobs(
        [0, 1, 2, 3, 4],
        [30, 20, 5, 28, 9],
        num_gpus=[4, 8, 4, 4, 4],
        predicted_duration_s=[30, 2000, 5, 28, 9],
        time_limit_s=[30, 20, 5, 28, 9],
    )
    slurm = replace(FREE, scheduler=Scheduler.SLURM)
    free = simulate(jobs, ONE_NODE, load("qssf"), slurm)
    assert free.start_s.tolist() == [0, 44, 2, 16, 7]
    bound = simulate(jobs, ONE_NODE, load("qssf"), replace(slurm, starvation_bound_s=8))
    # row 1 starves from second 10 on and starts when row 0 has ended; row 3 would delay it
    assert bound.start_s.tolist() == [0, 30, 2, 50, 7]


def test_it_counts_from_the_first_submission_whatever_failed_since() -> None:
    """A job whose node failed waits behind shorter ones, but no longer than the bound."""
    jobs = sim_jobs([0.0, *range(1, 60)], [60.0, *[8.0] * 59], num_gpus=8)
    jobs = replace(jobs, predicted_duration_s=jobs.duration_s)
    failing = replace(FREE, seed=5, failures=Failures(200.0, 3.0))
    for bound_s, next_start_s in ((0, 483), (50, 55)):
        result = simulate(
            jobs, ONE_NODE, load("qssf"), replace(failing, starvation_bound_s=bound_s)
        )
        (first, again, *_) = result.segments.start_s[result.segments.job == 0]
        assert (first, int(again)) == (0, next_start_s)
        assert result.failures[0] > 0


@pytest.mark.parametrize("name", PREEMPTING)
def test_who_preempts_gives_gpus_by_a_rule_of_its_own(name: str) -> None:
    jobs = sim_jobs([0.0], [1.0], predicted_duration_s=1.0, deadline_s=9.0)
    with pytest.raises(UsageError, match="starvation bound"):
        simulate(jobs, ONE_NODE, load(name), replace(FREE, starvation_bound_s=60))
