"""One policy over one trace, on whichever of the three paths is the quickest that can do it.

static: the order is known beforehand and nothing moves jobs about; ordered: the order has a closed
form; rounds: neither, the policy decides at every event. Where two of them can run the same
thing they give the same result.
"""

from __future__ import annotations

import numpy as np

from gsched.errors import DataError, UsageError
from gsched.model.job import Capability
from gsched.model.progress import Progress, silent
from gsched.policy import registry
from gsched.policy.base import Policy
from gsched.policy.order_form import Misfit, OrderForm
from gsched.sim import compiling
from gsched.sim.backend import CAPABILITIES
from gsched.sim.cluster import SimCluster
from gsched.sim.core.effects import check_effects, discipline_of
from gsched.sim.core.ordered_loop import run_ordered
from gsched.sim.core.placement import can_ever_fit
from gsched.sim.core.static_run import run_static
from gsched.sim.jobs import SimJobs
from gsched.sim.replay import run_rounds
from gsched.sim.result import SimResult
from gsched.sim.rules import Scheduler, SimRules
from gsched.sim.table import job_table


def simulate(
    jobs: SimJobs,
    cluster: SimCluster,
    policy: Policy,
    rules: SimRules | None = None,
    told: Progress = silent,
) -> SimResult:
    """What `policy` would have done with `jobs` on `cluster`.

    `told` hears how many jobs have ended, every some ten thousand events, and one of
    `compiling.TOLD` where the loops are yet to be compiled. Interrupted (Ctrl-C), the
    part so far comes back, with `interrupted` set. Raises DataError for a job that is no job or
    can never run here (``gsched.app.sim.inputs`` leaves those out and counts them), ConfigError for
    a policy that needs what no simulation offers, UsageError for rules that do not go together,
    GschedError when a policy without a form fails.
    """
    rules = rules or SimRules()
    registry.check(policy, CAPABILITIES)
    check_jobs(jobs, cluster)
    form = policy.order_form(job_table(jobs, cluster, oracle=Capability.ORACLE in policy.requires))
    preempts = (
        discipline_of(form, rules).preempts if form else Capability.PREEMPT in policy.requires
    )
    check_effects(preempts, rules)
    check_times(discipline_of(form, rules).lease_s if form and preempts else 0.0, rules)
    is_static = form is not None and runs_static(form, rules, cluster)
    if rules.size_first_tick_s and not is_static:
        raise UsageError(
            f"size_first_tick_s is for orders that never change, and that of {policy.name} may",
            "leave it out for this policy",
        )
    if form is None:
        _tell(compiling.before_rounds(), told)
        return run_rounds(jobs, cluster, policy, rules, told)
    _tell(compiling.before_static() if is_static else compiling.before_ordered(), told)
    run = run_static if is_static else run_ordered
    return run(jobs, cluster, form, rules, policy.name, told)


def check_times(lease_s: float, rules: SimRules) -> None:
    """Raises UsageError for times with which no job, or no decision, would ever come forward."""
    costs = rules.costs
    restart_s = max(costs.restart_s, costs.restart_wide_s, costs.restart_one_gpu_s or 0.0)
    start_up_s = costs.launch_s + restart_s
    if 0 < lease_s <= start_up_s:
        raise UsageError(
            f"a lease of {lease_s:g} s is over before a job has started, which takes up to "
            f"{start_up_s:g} s",
            "give the policy longer leases (knob lease_s), or let jobs start in less time",
        )
    if 0 < lease_s < rules.round_s:
        raise UsageError(
            f"a lease of {lease_s:g} s is over before the next round, which comes after "
            f"{rules.round_s:g} s",
            "give the policy longer leases (knob lease_s), or more rounds",
        )
    if rules.round_s % 1:
        raise UsageError(f"round_s is {rules.round_s:g}: rounds come at whole seconds")


def _tell(words: str, told: Progress) -> None:
    if words:
        told(words, 0)


def runs_static(form: OrderForm, rules: SimRules, cluster: SimCluster) -> bool:
    """Whether the tight loop can run it: sorted once, and nothing happens but arrivals and ends."""
    discipline = form.discipline
    return (
        form.is_static
        and not discipline.preempts
        and discipline.misfit is Misfit.BLOCK
        and rules.scheduler is Scheduler.PLAIN
        and rules.round_s == 0
        and rules.starvation_bound_s == 0
        and rules.failures is None
        and rules.sharing is None
        and rules.sleep is None
        and (cluster.type_speed == 1).all()
        and len(cluster.gpu_types) == 1
    )


def check_jobs(jobs: SimJobs, cluster: SimCluster) -> None:
    """Raises DataError for the first job that cannot be simulated, with its id and why."""
    submit_s, duration_s = jobs.submit_s, jobs.duration_s
    has_pool = (jobs.pool >= 0) & (jobs.pool < len(cluster.pools))
    wrong = {
        "has no submit time": ~np.isfinite(submit_s),
        "was submitted before the one in front of it": np.diff(submit_s, prepend=-np.inf) < 0,
        "does not run for a time above 0": ~(np.isfinite(duration_s) & (duration_s > 0)),
        "asks for no GPUs": jobs.num_gpus < 1,
        "belongs to no pool": ~has_pool,
    }
    if has_pool.all():
        wrong["can never fit on this cluster"] = ~can_ever_fit(jobs, cluster)
    for what, rows in wrong.items():
        if rows.any():
            raise DataError(
                f"job {jobs.ids[int(rows.argmax())]} {what}",
                "leave such jobs out, or mend them",
            )
