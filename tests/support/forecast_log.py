"""Logs in which the start of every job is known: recorded, or simulated where none was recorded.

A log without waiting times (Philly, ITP, NASA, Atlas) is put on a machine of one pool that its jobs
would fill to USUAL_LOAD, under Slurm's way of starting jobs (EASY backfill by limits) and the
order of QSSF by the rolling estimate; what comes out is the truth that forecasts are judged by. A
log without limits gets some from LIMITS_S: the least that is 1 to 30 times the run (log-uniform).
A recorded limit stands as it is, and a run beyond it is cut there, as Slurm would have done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gsched.app.sim.sizing import USUAL_LOAD
from gsched.model.history import PastJob
from gsched.policy.qssf import Qssf
from gsched.predict.attributes import of_past
from gsched.predict.rolling import RollingEstimator
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, SimJobs
from gsched.sim.rules import Scheduler, SimRules
from gsched.sim.run import simulate
from support.named_logs import LOGS, busiest, load

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LIMITS_S = tuple(3600.0 * hours for hours in (1, 4, 12, 24, 72, 168, 720, 2160))
MOST_GENEROUS = 30.0
SEED = 7

UNITS_A_NODE = {
    "philly": 8,
    "itp": 8,
    "llnl-atlas-2006": 8,
    "iu-mason-2017": 32,
    "pozidriv": 12,
}
"""GPUs or cores of a node. Logs that are not here are one node: cores are not told apart."""


@dataclass(frozen=True, eq=False)
class ReplayLog:
    """Jobs by submission, one element a job in every column; times epoch seconds.

    `units` are the GPUs or cores that a job holds, of `capacity` in all, on nodes with `node_units`
    each; `user` tells users apart. By `key`, smaller first, the simulated cluster orders its queue.
    """

    name: str
    starts: str  # "recorded" or "simulated"
    jobs: tuple[PastJob, ...]
    submit: Floats
    start: Floats
    end: Floats
    units: Ints
    user: Ints
    limit_s: Floats
    key: Floats
    node_units: int
    num_nodes: int

    @property
    def capacity(self) -> int:
        """Units of all nodes."""
        return self.node_units * self.num_nodes

    def __len__(self) -> int:
        return len(self.jobs)


def replay_log(name: str, num_jobs: int | None = None, skipped: int = 0) -> ReplayLog:
    """The log of that name, all of it or `num_jobs` after the first `skipped`."""
    log = LOGS[name]
    jobs = [job for job in load(name) if job.end_time > job.start_time]
    jobs = jobs[skipped : None if num_jobs is None else skipped + num_jobs]
    if log.has_waits:
        return recorded(name, jobs, log.cores)
    return simulated(name, jobs)


def recorded(name: str, jobs: Sequence[PastJob], cores: int | None) -> ReplayLog:
    """The log as it was; who stood where in the queue is not told (see ``forecast_order``).

    The machine has `cores`, or as many as were in use at once.
    """
    node_units = UNITS_A_NODE.get(name)
    capacity = max(cores or 0, busiest(list(jobs)))
    return ReplayLog(
        name=name,
        starts="recorded",
        jobs=tuple(jobs),
        submit=_floats(job.submit_time for job in jobs),
        start=_floats(job.start_time for job in jobs),
        end=_floats(job.end_time for job in jobs),
        units=_units(jobs),
        user=_users(jobs),
        limit_s=_floats(job.time_limit_s or np.nan for job in jobs),
        key=_floats(job.submit_time for job in jobs),
        node_units=node_units or capacity,
        num_nodes=-(-capacity // node_units) if node_units else 1,
    )


def simulated(name: str, jobs: Sequence[PastJob], load_share: float = USUAL_LOAD) -> ReplayLog:
    """The log on a machine that it fills to `load_share`, under QSSF with backfill by limits."""
    units = _units(jobs)
    node_units = UNITS_A_NODE.get(name, 1)
    num_nodes = _nodes_for(jobs, units, node_units, load_share)
    jobs = [_limited(job, int(s)) for job, s in zip(jobs, limits_s(jobs), strict=True)]
    predicted_s = rolled_s(jobs)
    sim = _sim_jobs(jobs, units, predicted_s)
    cluster = SimCluster.uniform({"": num_nodes}, gpus_a_node=node_units)
    result = simulate(sim, cluster, Qssf(), SimRules(scheduler=Scheduler.SLURM))
    start = np.ceil(result.start_s).astype(np.int64) + sim.origin
    moved = [
        replace(job, start_time=int(began), end_time=int(began) + job.duration_s)
        for job, began in zip(jobs, start, strict=True)
    ]
    return ReplayLog(
        name=name,
        starts="simulated",
        jobs=tuple(moved),
        submit=_floats(job.submit_time for job in moved),
        start=_floats(job.start_time for job in moved),
        end=_floats(job.end_time for job in moved),
        units=units,
        user=_users(jobs),
        limit_s=_floats(job.time_limit_s or np.nan for job in moved),
        key=units * predicted_s,
        node_units=node_units,
        num_nodes=num_nodes,
    )


def limits_s(jobs: Sequence[PastJob]) -> Floats:
    """The limits that the jobs have, and drawn ones where they have none."""
    random = np.random.default_rng(SEED)
    generous = np.exp(random.uniform(0, np.log(MOST_GENEROUS), len(jobs)))
    least = np.array([job.duration_s for job in jobs]) * generous
    ladder = np.array(LIMITS_S)
    drawn = ladder[np.minimum(np.searchsorted(ladder, least), len(ladder) - 1)]
    told = _floats(job.time_limit_s or np.nan for job in jobs)
    limits: Floats = np.where(np.isnan(told), np.maximum(drawn, least), told)
    return limits


def _limited(job: PastJob, limit_s: int) -> PastJob:
    """The job with a time limit, ended by it: a limit raised to the run would tell the truth."""
    end = min(job.end_time, job.start_time + max(1, limit_s))
    return replace(job, time_limit_s=limit_s, end_time=end)


def rolled_s(jobs: Sequence[PastJob], unknown_s: float = 3600.0) -> Floats:
    """The rolling estimate of each job at its submission, from those that had ended as recorded."""
    estimator = RollingEstimator()
    endings = iter(sorted(jobs, key=lambda job: job.end_time))
    ending = next(endings, None)
    estimates = np.full(len(jobs), unknown_s)
    for row, job in enumerate(jobs):
        while ending is not None and ending.end_time < job.submit_time:
            estimator.observe(ending)
            ending = next(endings, None)
        estimate = estimator.estimate(of_past(job), job.submit_time)
        if estimate is not None:
            estimates[row] = estimate.duration_s
    return estimates


def _nodes_for(jobs: Sequence[PastJob], units: Ints, node_units: int, load_share: float) -> int:
    work = float(sum(n * job.duration_s for n, job in zip(units, jobs, strict=True)))
    span_s = jobs[-1].submit_time - jobs[0].submit_time
    wanted = max(work / span_s / load_share, float(units.max()))
    return int(np.ceil(wanted / node_units))


def _units(jobs: Sequence[PastJob]) -> Ints:
    return np.array([job.num_gpus or job.num_cpus or 1 for job in jobs], dtype=np.int64)


def _users(jobs: Sequence[PastJob]) -> Ints:
    users: Ints = np.unique([job.user for job in jobs], return_inverse=True)[1].astype(np.int64)
    return users


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), dtype=np.float64)


def _sim_jobs(jobs: Sequence[PastJob], units: Ints, predicted_s: Floats) -> SimJobs:
    count = len(jobs)
    zeros, none = np.zeros(count, dtype=np.int32), np.full(count, np.nan)
    anyone = np.full(count, ANY, dtype=np.int32)
    submit = _floats(job.submit_time for job in jobs)
    return SimJobs(
        cluster="replay",
        origin=int(submit[0]),
        ids=[str(row) for row in range(count)],
        submit_s=submit - submit[0],
        duration_s=_floats(job.duration_s for job in jobs),
        num_gpus=units.astype(np.int32),
        num_nodes=zeros,
        num_cpus=zeros,
        pool=zeros,
        tenant=zeros,
        tenants=("",),
        user=zeros,
        users=("",),
        name=zeros,
        names=("",),
        time_limit_s=_floats(job.time_limit_s or np.nan for job in jobs),
        deadline_s=none,
        weight=np.ones(count),
        predicted_duration_s=predicted_s,
        share_class=anyone,
        gpu_type=anyone,
    )
