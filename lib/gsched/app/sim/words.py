"""What a report of simulations assumes, and what its figures mean, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice

from gsched.app.sim.gpu_types import type_words
from gsched.app.sim.report import SimReport
from gsched.explain.words import count, moment, percent, short_time
from gsched.model.job import Capability
from gsched.policy.order_form import Discipline, Misfit
from gsched.resampling import CONFIDENCE, MIN_DAYS, RESAMPLES
from gsched.sim.intervals import MIN_RUNS
from gsched.sim.job_figures import BOUND_S, LOSS_BELOW
from gsched.sim.rules import Costs, Placement, Scheduler, SimRules

_SHOWN_POOLS = 4

_PLACEMENT = {
    Placement.CONSOLIDATED: "consolidated: as few nodes as possible, the fullest that still fits, "
    "wholly free nodes for jobs that fill nodes",
    Placement.SPREAD: "spread: the emptiest nodes first",
    Placement.TOPOLOGY: "by topology: consolidated, and several nodes under one switch where "
    "possible, under the fewest switches otherwise",
}
_SCHEDULER = {
    Scheduler.PLAIN: "none but the policy's own discipline, see below",
    Scheduler.SLURM: "close to Slurm's: jobs start in the policy's order, others backfill by their "
    "time limits so that the first is not delayed (EASY; Slurm's own backfill delays no job of "
    "higher priority that it looks at), nothing is preempted",
}
_MISFIT = {
    Misfit.BLOCK: "the first job of a pool that does not fit blocks all behind it, no backfill",
    Misfit.BLOCK_TENANT: "the first job of a tenant that does not fit blocks those of its tenant "
    "behind it, not other tenants, no backfill",
    Misfit.SKIP: "a job that does not fit is passed over, large ones may starve",
    Misfit.BACKFILL: "jobs backfill by their time limits so that the first is not delayed",
}
_COSTS = {
    "launch_s": "launch",
    "cleanup_s": "clean-up",
    "checkpoint_s": "checkpoint at preemption",
    "restart_s": "restart",
    "restart_wide_s": "restart on several nodes",
    "restart_one_gpu_s": "restart on one GPU",
}


def report_lines(report: SimReport) -> Iterator[str]:
    """Everything that the figures depend on, a sentence or two a line."""
    if report.interrupted:
        yield (
            "INTERRUPTED: figures are of the jobs that had ended by then, the early and the short "
            "ones, and of the time up to then."
        )
    yield from _ended(report)
    yield from _inputs(report)
    yield from rule_lines(report.rules)
    yield from _policies(report)
    yield from _chance(report)
    yield from DEFINITIONS


def rule_lines(rules: SimRules) -> Iterator[str]:
    """The rules of a simulation."""
    yield f"Placement: {_PLACEMENT[rules.placement]}. A job starts on all its GPUs at once."
    yield f"Scheduler: {_SCHEDULER[rules.scheduler]}."
    told = ", ".join(
        f"{_COSTS[name]} {_seconds(value)}" for name, value in _told_costs(rules.costs)
    )
    yield f"Costs of each attempt: {told or 'none, preemption is free'}."
    yield _failures(rules)
    yield _sharing(rules)
    yield _sleep(rules)
    power = rules.power
    yield (
        f"Energy: {power.idle_w:g} W a node, {power.gpu_w:g} W more for each GPU in use, "
        f"{power.asleep_w:g} W asleep; no cooling. This is a model, not a meter."
    )
    if rules.round_s:
        yield f"Decisions: every {_seconds(rules.round_s)} from the first submission on alone."
    if rules.starvation_bound_s:
        yield (
            f"Starvation bound: who has waited for more than {_seconds(rules.starvation_bound_s)} "
            "comes before all others, the longest waiter first, and is not passed but by backfill."
        )
    if rules.size_first_tick_s:
        yield (
            "A job that comes to an empty queue is placed by its number of GPUs, and by the "
            f"policy's key {_seconds(rules.size_first_tick_s)} later."
        )
    yield (
        f"Free, fragmented and wanted GPUs are of samples every {_seconds(rules.sample_s)}; use is "
        "exact."
    )


DEFINITIONS = (
    "JCT: end − submission. Queueing: first start − submission. Waiting: queueing, and "
    "all time without GPUs from then to the end.",
    f"Bounded slowdown: JCT over run time, or over {BOUND_S:g} s for shorter jobs; at least 1.",
    "Quantiles: the least value that so large a share of the jobs did not exceed. Queueing is of "
    "jobs that started, all else of jobs that ended.",
    "Utilisation, fragmentation and GPUs wanted: means from the first to the last submission "
    "(while work still comes), of all GPUs, those of sleeping and failed nodes too. Fragmented: "
    "free on nodes that are not wholly free.",
    "Finish-time ratio (after Themis): JCT over run time × max(1, GPUs × jobs active in the pool, "
    "on average over the job's life / GPUs of the pool); a job above 1 counts as unfair.",
    "Sharing loss (after Astraea): the job held less than "
    f"{percent(LOSS_BELOW)} of the GPU time that it was entitled to; its tenant's quota over the "
    "tenant's active jobs, at most what it asks for. A tenant's quota is its part of all quotas "
    "(--quota, [fairness.quotas]); where there are none, tenants of a pool have equal ones.",
    "Unfair tenant-hours and tenant-days: those in which a tenant asked for GPUs and held less "
    f"than {percent(LOSS_BELOW)} of what was its: of what it asked for, up to its quota.",
    "Only jobs with GPUs are simulated: CPUs, memory, holds, reservations and QOS limits are not.",
)
"""What the figures mean."""


def _ended(report: SimReport) -> Iterator[str]:
    if report.same_ended:
        return
    told = []
    for policy in report.policies:
        ended = sum(run.all_jobs.finished for run in policy.runs)
        both = sum(report.ended_under_both(policy))
        beside = f" ({both:,} under both)" if policy is not report.baseline else ""
        told.append(f"{policy.label} {ended:,}{beside}")
    jobs = sum(run.all_jobs.jobs for run in report.baseline.runs)
    runs = f" of {len(report.seeds)} runs" if len(report.seeds) > 1 else ""
    yield (
        f"Not the same jobs ended under each policy; of {jobs:,}{runs}: {', '.join(told)}. Each "
        "policy's own figures are of the jobs that ended under it, without those given up. "
        f"Changes, differences and intervals are over the jobs that ended under both the policy "
        f"and {report.baseline.label}; those of the cluster are of all."
    )


def _inputs(report: SimReport) -> Iterator[str]:
    run = report.baseline.runs[0]
    load = "" if run.offered_load is None else f", offered load {run.offered_load:.2f}"
    yield (
        f"Jobs: {run.all_jobs.jobs:,} of {report.source}, submitted {moment(run.first_submit)} to "
        f"{moment(run.last_submit)}{load}."
    )
    for left in report.left_out:
        hours = f", {left.gpu_time_s / 3600:,.0f} GPU-hours" if left.gpu_time_s else ""
        yield f"Not simulated: {left.words}{hours}."
    if not report.left_out:
        yield "No job was left out."
    yield _cluster(report)
    yield from report.notes


def _cluster(report: SimReport) -> str:
    cluster = report.cluster
    pools = "one pool"
    if len(cluster.pools) > 1:
        more = ", …" if len(cluster.pools) > _SHOWN_POOLS else ""
        names = ", ".join(islice(cluster.pools, _SHOWN_POOLS))
        pools = f"{len(cluster.pools)} pools that share nothing ({names}{more})"
    told = type_words(cluster)
    types = f"; speeds by GPU type: {told}" if told else ""
    return (
        f"Cluster: {count(cluster.num_nodes, 'node')}, {count(cluster.num_gpus, 'GPU')}, "
        f"{pools}{types}."
    )


def _policies(report: SimReport) -> Iterator[str]:
    for told in report.policies:
        knobs = ", ".join(f"{name} = {value:g}" for name, value in told.policy.knob_values.items())
        means = [
            "is told the TRUE run times: an oracle, no real scheduler can do this"
            if told.is_oracle
            else "orders by predicted run times"
            if told.policy.needs_prediction
            else "plans by predicted run times where there are some"
            if told.policy.reads_progress
            else "",
            "who is refused a deadline and ends by it all the same has not missed it"
            if Capability.ADMIT in told.policy.requires
            else "",
            "" if report.rules.scheduler is Scheduler.SLURM else _discipline(told.discipline),
            f"knobs: {knobs}" if knobs else "",
        ]
        yield "; ".join(filter(None, [f"Policy {told.label}: {told.policy.summary}", *means])) + "."
    yield from _lonely_tenants(report)


def _lonely_tenants(report: SimReport) -> Iterator[str]:
    named = ", ".join(p.label for p in report.policies if p.tells_tenants_apart)
    if not named or report.baseline.runs[0].most_tenants > 1:
        return
    pools = len(report.cluster.pools) > 1
    where = "No pool has" if pools else "There are no"
    way = "; --pool-by none puts all jobs into one pool" if pools else ""
    yield (
        f"{where} jobs of more than one tenant, so that what tenants use orders nothing: of "
        f"{named} only the rest of the order is seen (yarn-cs and fair-tree are fifo then, allox "
        f"is sjf){way}."
    )


def _discipline(told: Discipline | None) -> str:
    if told is None:
        return "decides in rounds as in the daemon"
    if not told.preempts:
        return f"does not preempt; {_MISFIT[told.misfit]}"
    lease = f", after {short_time(told.lease_s)} on its GPUs at least" if told.lease_s else ""
    return f"preempts{lease}; {_MISFIT[told.misfit]}"


def _chance(report: SimReport) -> Iterator[str]:
    seeds = ", ".join(map(str, report.seeds))
    runs = len(report.seeds)
    yield f"Runs: {runs} a policy, seeds {seeds}." if runs > 1 else f"Seed: {seeds}."
    level = percent(CONFIDENCE)
    if report.interval_unit == "runs":
        yield (
            f"Intervals ({level}): Student's t over the {runs} runs, of differences run by run. "
            "Tables by class are of the first run."
        )
    elif report.interval_unit == "days":
        yield (
            f"Intervals ({level}): {RESAMPLES} resamples of the days of submission (UTC), the same "
            "for all policies; nothing is simulated anew, so they tell how much a figure hangs on "
            "single days of this trace, not how another month would be."
        )
    else:
        yield f"No intervals: they take {MIN_RUNS} runs, or {MIN_DAYS} days of jobs in one run."


def _told_costs(costs: Costs) -> Iterator[tuple[str, float]]:
    """Those that are not 0, and those of 0 that another kind of restart has not."""
    for name, value in asdict(costs).items():
        is_restart = name in ("restart_wide_s", "restart_one_gpu_s")
        if value or (is_restart and value is not None and costs.restart_s):
            yield name, value


def _failures(rules: SimRules) -> str:
    told = rules.failures
    if told is None:
        return "Failures: none."
    kept = (
        f"since the last checkpoint, one every {_seconds(told.checkpoint_every_s)}"
        if told.checkpoint_every_s
        else "of its attempt"
    )
    return (
        f"Failures: a node fails every {short_time(told.node_mtbf_s)} on average and is back after "
        f"{short_time(told.repair_s)}; its jobs are requeued and lose all work {kept}; a job "
        f"that was requeued {told.max_requeues} times is given up at its next failure."
    )


def _sharing(rules: SimRules) -> str:
    told = rules.sharing
    if told is None:
        return "GPU sharing: none."
    return (
        f"GPU sharing: two jobs of the same size where both keep {percent(told.min_speed)} of "
        f"their speed, by the speeds of {len(told.classes)} classes of jobs that were measured."
    )


def _sleep(rules: SimRules) -> str:
    told = rules.sleep
    if told is None:
        return "Node sleep: none."
    return (
        f"Node sleep: after {short_time(told.idle_timeout_s)} idle, {_seconds(told.wake_s)} to "
        f"wake, {count(told.keep_awake, 'idle node')} of each pool kept awake."
    )


def _seconds(value: float) -> str:
    return f"{value:g} s"
