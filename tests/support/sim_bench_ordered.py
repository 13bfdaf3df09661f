"""Arms of the simulator's bench for orders that move: speed a policy, and how near peers come."""

from __future__ import annotations

import csv
import gzip
from dataclasses import replace
from typing import Any

import numpy as np

from gsched.app.sim.inputs import choose, read_files, sim_jobs
from gsched.app.trace_formats import TraceOptions
from gsched.model.progress import silent
from gsched.policy.registry import POLICIES, load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import Costs, SimRules
from gsched.sim.run import simulate
from support.peers import PeerInput, peer_input
from support.philly_like import philly_like
from support.shared import SHARED
from support.sim_bench import PEER_CPU_S, speed, timed
from support.sim_jobs import sim_jobs as plain_jobs

HELIOS_COSTS = Costs(restart_s=30, restart_wide_s=60, restart_one_gpu_s=7)
LUCID_COSTS = Costs(restart_s=40, restart_wide_s=60)
"""In ticks; found in the peers' answers as (JCT − queueing − duration − 1) / preemptions."""

PREEMPTING_PEERS = {
    ("philly7t", "srtf"): SimRules(costs=HELIOS_COSTS, round_s=1),
    ("philly60min", "srtf"): SimRules(costs=HELIOS_COSTS, round_s=1),
    ("itp61min", "srtf"): SimRules(costs=HELIOS_COSTS, round_s=1),
    ("philly3d_q", "srtf"): SimRules(costs=LUCID_COSTS, round_s=1),
    ("philly3d_q", "tiresias"): SimRules(costs=LUCID_COSTS, round_s=60),
}
"""Under which rules the peer ran: it decides at each tick, Lucid's Tiresias every 60."""

WHY = {
    "srtf": "what remains lies in two rules: of equal remaining times the peer takes the job that"
    " waits, ours the one submitted first; the peer's remaining time has the costs of restarts in"
    " it, ours is the duration less the time that the job has held GPUs. With both changed for a"
    " trial, mean JCT and preemptions were the peer's on three inputs, 0.009 % off on itp61min",
    "tiresias": "by its ticks every job ends when the peer has it end; by events jobs do not wait"
    " for the next minute, and sink exactly at the threshold",
}

_TICK_S = 1.0


def as_the_peer_runs_it(peer: PeerInput, policy: str) -> SimResult:
    """By the peer's ticks: a job ends the tick after nothing remains, and sinks above a threshold,
    not at it."""
    jobs = replace(peer.jobs, duration_s=peer.jobs.duration_s + _TICK_S)
    knobs = {"threshold_gpu_s": 18_000.5} if policy == "tiresias" else {}
    rules = PREEMPTING_PEERS[peer.name, policy]
    return simulate(jobs, peer.cluster, load(policy, **knobs), rules)


def preempting_peers(runs: int) -> dict[str, Any]:
    """Mean JCT beside the peer's under its rules and under ours, and speed."""
    found = {}
    for (name, policy), rules in PREEMPTING_PEERS.items():
        peer, answer = peer_input(name), peer_input(name).answer(policy)
        ours, cpu_s = timed(peer.jobs, peer.cluster, policy, runs, replace(rules, round_s=0))
        alike = as_the_peer_runs_it(peer, policy)
        figures = speed(ours, cpu_s)
        found[f"{policy} on {name}"] = figures | {
            "peer_mean_jct_s": round(float(answer.jct_s.mean()), 2),
            "difference_percent": _difference(ours, peer.jobs, answer.jct_s.mean()),
            "by_its_ticks_mean_jct_s": round(_mean_jct(alike, peer.jobs), 2),
            "by_its_ticks_difference_percent": _difference(alike, peer.jobs, answer.jct_s.mean()),
            "by_its_ticks_equal_ends": int(np.count_nonzero(alike.end_s == answer.end_s)),
            "by_its_ticks_preemptions": int(alike.preemptions.sum()),
            "peer_preemptions": int(answer.preemptions.sum()),
            "peer_cpu_s": PEER_CPU_S[name, policy],
            "times_the_peer": round(PEER_CPU_S[name, policy] / figures["cpu_s_median"]),
            "why": WHY[policy],
        }
    return found


def every_policy(jobs: int, runs: int) -> dict[str, Any]:
    """CPU time of each policy over Philly-like jobs; predictions are the true durations.

    Not of `chronus`, which decides by rounds: see bench_chronus.py.
    """
    columns, cluster = philly_like(jobs)
    found = {}
    for policy in POLICIES:
        if policy == "chronus":
            continue
        result, cpu_s = timed(columns, cluster, policy, runs)
        found[policy] = speed(result, cpu_s) | {"path": result.path}
    return found


def other_peers() -> dict[str, Any]:
    """Peers of which only averages or answers are known, not the rules."""
    return {
        **_muri(),
        **_elasticflow(),
        **_titan(),
        **_chronus(),
    }


def _muri() -> dict[str, Any]:
    peers = {
        "trace1": {"srtf": 1_370_603.0, "tiresias": 3_330_371.0},
        "trace3": {"srtf": 193_081.8, "tiresias": 347_213.2},
    }
    why = "its rules are not given; ours: consolidated placement, two queues cut at 18,000 GPU-s"
    return {
        f"Muri's {policy} on {name}": _near(
            _read("muri", f"muri/{name}.csv.gz"), _cluster(8, 8), policy, mean_s, why
        )
        for name, policies in peers.items()
        for policy, mean_s in policies.items()
    }


def _elasticflow() -> dict[str, Any]:
    jobs = _read("elasticflow", "elasticflow/elasticVpollux_e.csv")
    why = "its rules are not given; ours keep the number of GPUs that the trace tells"
    peers = {"edf": (163_564.0, 11.8), "tiresias": (136_712.0, 28.7)}
    found = {}
    for policy, (mean_s, met) in peers.items():
        found[f"ElasticFlow's {policy}"] = _near(jobs, _cluster(16, 4), policy, mean_s, why) | {
            "peer_deadlines_met_percent": met
        }
    return found


def _titan() -> dict[str, Any]:
    """Its input tells no run times: they are what its own answer leaves beside the waiting."""
    why = "both decide every 300 s; of equal jobs the peer takes others first"
    found = {}
    for policy, mean_s in {"srtf": 1_278.4, "tiresias": 1_288.9}.items():
        path = SHARED / f"traces/validation/titan_FM-1-roberta-base_{policy}_perjob.csv.gz"
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            lines = sorted(csv.DictReader(stream), key=lambda row: float(row["submission_time"]))
        submit, pending, staying, gpus, completion = (
            np.array([float(line[name]) for line in lines])
            for name in (
                *("submission_time", "pending_time", "staying_time"),
                *("target_num_gpus", "completion_time"),
            )
        )
        jobs = plain_jobs(submit, staying - pending, num_gpus=gpus)
        cluster, rules = _cluster(8, 4), SimRules(round_s=300)
        result = simulate(jobs, cluster, load(policy), rules)
        found[f"Titan's {policy}"] = _near(jobs, cluster, policy, mean_s, why, rules) | {
            "equal_ends": int(np.count_nonzero(np.abs(result.end_s - completion) < 1e-6)),
            "fifo_mean_jct_s": round(
                _mean_jct(simulate(jobs, cluster, load("fifo"), rules), jobs), 1
            ),
        }
    return found


def _chronus() -> dict[str, Any]:
    jobs = _read("chronus", "chronus/trace_job_Philly_MIX1.csv.gz")
    why = "Chronus itself is no policy here: it admits, profiles and leases by 20 min"
    return {
        f"{policy} beside Chronus without MILP, MIX1": _near(
            jobs, _cluster(120, 8), policy, 387.6 * 60, why
        )
        | {"peer_deadlines_met_percent": round(100 - 3.84, 2)}
        for policy in ("edf", "srtf", "tiresias")
    }


def _near(
    jobs: SimJobs,
    cluster: SimCluster,
    policy: str,
    peer_mean_s: float,
    why: str,
    rules: SimRules | None = None,
) -> dict[str, Any]:
    result = simulate(jobs, cluster, load(policy), rules)
    due = ~np.isnan(jobs.deadline_s)
    met = result.end_s[due] <= jobs.deadline_s[due]
    return {
        "jobs": len(jobs),
        "mean_jct_s": round(_mean_jct(result, jobs), 1),
        "peer_mean_jct_s": peer_mean_s,
        "difference_percent": _difference(result, jobs, peer_mean_s),
        "jobs_with_deadline": int(due.sum()),
        "deadlines_met_percent": round(100 * float(met.mean()), 2) if due.any() else None,
        "why": why,
    }


def _read(form: str, name: str) -> SimJobs:
    past = read_files(
        [str(SHARED / "traces" / name)], TraceOptions(format=form), (None, None), silent
    )
    jobs = choose(past).past
    none = np.zeros(len(jobs), dtype=np.int32)
    return sim_jobs(jobs, none, np.zeros(len(jobs), dtype=np.int64), none - 1)


def _cluster(nodes: int, gpus: int) -> SimCluster:
    return SimCluster.uniform({"all": nodes}, gpus_a_node=gpus)


def _mean_jct(result: SimResult, jobs: SimJobs) -> float:
    return float(np.mean(result.end_s - jobs.submit_s))


def _difference(result: SimResult, jobs: SimJobs, peer_mean_s: float) -> float:
    return round(100 * (_mean_jct(result, jobs) / float(peer_mean_s) - 1), 3)
