"""Named logs as simulations: which machine they run on, and what they ask of it.

A job asks for its GPUs, or for its cores where it has none: cores stand for GPUs. A CPU cluster is
one machine whose cores are all alike (no nodes, so no fragments); Philly and ITP have nodes of 8
GPUs in pools, one a virtual cluster.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from gsched.model.history import PastJob
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import ANY, Floats, Ints, SimJobs
from support.named_logs import LOGS, NamedLog, busiest, load
from support.peers import VALIDATION

GPUS_A_NODE = 8
LOAD = 0.85
OWN = "own"
LOADED = "loaded"
SIZINGS = {
    OWN: "cores as the log's header tells; without one, the most that were in use at one time; "
    "Philly and ITP: the nodes of other simulators' inputs (validation/*/vc_config.csv)",
    LOADED: f"as many cores as the jobs fill to {LOAD:.0%} from first to last submission; larger "
    "jobs are left out",
}
_PEER_INPUTS = {"philly": "philly60min", "itp": "itp61min"}
_WINDOWS = {"philly": (datetime(2017, 10, 1, tzinfo=UTC), datetime(2017, 12, 1, tzinfo=UTC))}
"""When the jobs of other simulators' inputs were submitted, where that is a part of the log."""


@dataclass(frozen=True, eq=False)
class Log:
    """A log on its machine; `past` and `jobs` go by the same rows, by submission.

    `sizing` is one of SIZINGS. `left_out` counts jobs by reason.
    """

    told: NamedLog
    sizing: str
    past: Sequence[PastJob]
    jobs: SimJobs
    cluster: SimCluster
    left_out: dict[str, int]

    @property
    def offered_load(self) -> float:
        """GPU-seconds of the jobs over those of the machine from first to last submission."""
        span_s = float(np.ptp(self.jobs.submit_s))
        return float((self.jobs.duration_s * self.jobs.num_gpus).sum()) / (
            span_s * self.cluster.num_gpus
        )


def sizings(name: str) -> tuple[str, ...]:
    """How the machine of a log may be sized."""
    return (OWN,) if name in _PEER_INPUTS else (OWN, LOADED)


def log_of(name: str, sizing: str) -> Log:
    """The log on a machine of that size."""
    told, past = LOGS[name], load(name)
    ran = [job for job in past if job.duration_s > 0]
    inside = [job for job in ran if _is_inside(name, job)]
    cluster, pool_of = _machine(told, inside, sizing)
    number = {pool: place for place, pool in enumerate(cluster.pools)}
    known = [job for job in inside if pool_of.get(job.tenant) in number]
    most = np.add.reduceat(cluster.node_gpus, cluster.first_node[:-1])
    fit = [job for job in known if units(job) <= most[number[pool_of[job.tenant]]]]
    left_out = {
        "took no time": len(past) - len(ran),
        "outside the window": len(ran) - len(inside),
        "of a pool that is not there": len(inside) - len(known),
        "too large": len(known) - len(fit),
    }
    pool = _ints([number[pool_of[job.tenant]] for job in fit])
    return Log(told, sizing, fit, _sim_jobs(told, fit, pool), cluster, left_out)


def units(job: PastJob) -> int:
    """What a job asks for: GPUs, or cores."""
    return job.num_gpus or job.num_cpus or 1


def _is_inside(name: str, job: PastJob) -> bool:
    if name not in _WINDOWS:
        return True
    since, until = _WINDOWS[name]
    return since.timestamp() <= job.submit_time < until.timestamp()


def _machine(
    told: NamedLog, jobs: Sequence[PastJob], sizing: str
) -> tuple[SimCluster, dict[str, str]]:
    """The machine, and the pool of each account."""
    accounts = sorted({job.tenant for job in jobs})
    if told.unit == "core":
        own = told.cores or busiest(list(jobs))
        cores = own if sizing == OWN else _filled(jobs)
        return SimCluster.uniform({"all": 1}, cores), dict.fromkeys(accounts, "all")
    with (VALIDATION / _PEER_INPUTS[told.name] / "vc_config.csv").open() as file:
        nodes = {row[""]: int(row["num"]) for row in csv.DictReader(file)}
    pool_of = {account: account.replace("cluster", "itp") for account in accounts}
    return SimCluster.uniform(nodes, GPUS_A_NODE), pool_of


def _filled(jobs: Sequence[PastJob]) -> int:
    """As many cores as the jobs fill to LOAD."""
    submits = [job.submit_time for job in jobs]
    busy_s = sum(units(job) * job.duration_s for job in jobs)
    return -(-busy_s // int(LOAD * (max(submits) - min(submits))))


def _sim_jobs(told: NamedLog, past: Sequence[PastJob], pool: Ints) -> SimJobs:
    origin = past[0].submit_time
    tenants, users, names = (
        sorted({getattr(job, field) for job in past}) for field in ("tenant", "user", "name")
    )
    limit = [np.nan if job.time_limit_s is None else job.time_limit_s for job in past]
    count = len(past)
    return SimJobs(
        cluster=told.name,
        origin=origin,
        ids=[str(job.job_id) for job in past],
        submit_s=_floats([job.submit_time - origin for job in past]),
        duration_s=_floats([job.duration_s for job in past]),
        num_gpus=_ints([units(job) for job in past]),
        num_nodes=_ints([0] * count),
        num_cpus=_ints([job.num_cpus or 0 for job in past]),
        pool=pool,
        tenant=_codes([job.tenant for job in past], tenants),
        tenants=tuple(tenants),
        user=_codes([job.user for job in past], users),
        users=tuple(users),
        name=_codes([job.name for job in past], names),
        names=names,
        time_limit_s=_floats(limit),
        deadline_s=_floats([np.nan] * count),
        weight=_floats([1.0] * count),
        predicted_duration_s=_floats([np.nan] * count),
        share_class=_ints([ANY] * count),
        gpu_type=_ints([ANY] * count),
    )


def _floats(values: Sequence[float]) -> Floats:
    return np.array(values, dtype=np.float64)


def _ints(values: Sequence[int]) -> Ints:
    return np.array(values, dtype=np.int32)


def _codes(values: Sequence[str], known: Sequence[str]) -> Ints:
    place = {value: code for code, value in enumerate(known)}
    return _ints([place[value] for value in values])
