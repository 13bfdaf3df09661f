"""The same jobs through a real Slurm on which gsched acts, and through the simulator's Slurm mode.

What the simulator is told of the real cluster are two overheads, measured on runs of other seeds:
how long a job holds its GPUs beyond its own run time, and how long freed GPUs wait for the next.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

from gsched.policy.base import Policy
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import Costs, Scheduler, SimRules
from gsched.sim.run import simulate
from gsched.testbed.arrivals import (
    SCHEDULER_PARAMETERS,
    Arrival,
    Played,
    play,
    write_predictions,
)
from gsched.testbed.wait import wait_for
from support.sim_jobs import sim_jobs
from support.site import Site, fresh_site

GPUS_A_NODE = 8
AT_ONCE_S = 2
"""A job that starts so soon after its submission, in Slurm's whole seconds, did not wait."""

_CONF = (f"SchedulerParameters={SCHEDULER_PARAMETERS}", "MinJobAge=7200")


@dataclass(frozen=True)
class Run:
    """Jobs, and what a real Slurm made of them."""

    arrivals: Sequence[Arrival]
    played: Sequence[Played]
    num_nodes: int

    @property
    def mean_jct_s(self) -> float:
        """Mean time from submission to end."""
        return statistics.fmean(p.end_time - p.submit_time for p in self.played)

    @property
    def start_s(self) -> list[float]:
        """Start times from the first submission."""
        first = self.played[0].submit_time
        return [float(p.start_time - first) for p in self.played]


def run_real(workloads: Sequence[Sequence[Arrival]], num_nodes: int) -> list[Run]:
    """Each through a testbed of its own, side by side; gsched acts by QSSF and their predictions.

    The daemons begin before the first job comes. Sites are opened one after the other: Alembic
    knows no threads.
    """
    with ExitStack() as opened:
        sites = []
        for number, arrivals in enumerate(workloads):
            spec = {"num_nodes": num_nodes, "gpus_per_node": GPUS_A_NODE, "extra_conf": _CONF}
            site = opened.enter_context(fresh_site(cluster=f"real{number}", **spec))
            table = site.bed.spec.root / "etc" / "durations.csv"
            write_predictions(arrivals, table)
            site.configure("predict", estimator='"table"', table=f'"{table}"')
            opened.enter_context(site.daemon("--act"))
            sites.append(site)
        for site in sites:
            wait_for(lambda s=site: _is_up(s), "the daemon's first round")

        def one(site: Site, arrivals: Sequence[Arrival]) -> Run:
            total_s = sum(a.duration_s for a in arrivals)
            return Run(arrivals, play(site.bed, arrivals, timeout_s=60 + total_s), num_nodes)

        with ThreadPoolExecutor(len(sites)) as side_by_side:
            return list(side_by_side.map(one, sites, workloads))


def _is_up(site: Site) -> bool:
    answer = site.gsched("daemon", "status", "--json")
    return answer.returncode == 0 and json.loads(answer.stdout)["summary"] is not None


def calibrated(runs: Sequence[Run]) -> Costs:
    """The overheads that these runs show, each a mean over the jobs that tell of it.

    Launch: what a job that found free GPUs took from submission to end beyond its own duration.
    Clean-up: what the way from the end of one job to the end of the next, which had waited for its
    GPUs, takes beyond that.
    """
    at_once, after_another = [], []
    for run in runs:
        ends = sorted(p.end_time for p in run.played)
        for arrival, played in zip(run.arrivals, run.played, strict=True):
            if played.start_time - played.submit_time <= AT_ONCE_S:
                at_once.append(played.end_time - played.submit_time - arrival.duration_s)
            elif before := [end for end in ends if end <= played.start_time]:
                after_another.append(played.end_time - before[-1] - arrival.duration_s)
    launch_s = statistics.fmean(at_once)
    cleanup_s = statistics.fmean(after_another) - launch_s
    return Costs(launch_s=round(max(0.0, launch_s), 2), cleanup_s=round(max(0.0, cleanup_s), 2))


def simulated(run: Run, policy: Policy, costs: Costs) -> SimResult:
    """The simulator's answer for the same jobs."""
    cluster = SimCluster.uniform({"gpu": run.num_nodes}, GPUS_A_NODE)
    return simulate(_jobs(run.arrivals), cluster, policy, slurm_rules(costs))


def slurm_rules(costs: Costs) -> SimRules:
    """All that the simulator assumes of the testbed."""
    return SimRules(scheduler=Scheduler.SLURM, costs=costs)


def _jobs(arrivals: Sequence[Arrival]) -> SimJobs:
    return sim_jobs(
        [a.submit_s for a in arrivals],
        [a.duration_s for a in arrivals],
        num_gpus=[a.num_gpus for a in arrivals],
        num_nodes=1,
        name=range(len(arrivals)),
        time_limit_s=[a.time_limit_s for a in arrivals],
        predicted_duration_s=[a.predicted_s for a in arrivals],
    )


def mean_jct_s(result: SimResult) -> float:
    """Mean time from submission to end; every job has ended."""
    assert result.finished.all()
    return float((result.end_s - result.jobs.submit_s).mean())


def order_correlation(run: Run, result: SimResult) -> float:
    """Spearman's rank correlation of real with simulated start times."""
    from scipy.stats import spearmanr

    return float(spearmanr(run.start_s, result.start_s).statistic)
