"""What the benches of the simulator share: a peer's own figures, and fair measurements of ours."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

PEER_CPU_S = {
    ("philly7t", "fifo"): 78.6,
    ("philly7t", "sjf"): 35.5,
    ("philly7t", "qssf"): 106.0,
    ("philly7t", "srtf"): 80.3,
    ("philly60min", "fifo"): 24.1,
    ("philly60min", "sjf"): 11.4,
    ("philly60min", "srtf"): 18.0,
    ("itp61min", "fifo"): 18.5,
    ("itp61min", "sjf"): 12.4,
    ("itp61min", "srtf"): 20.1,
    ("philly3d_q", "fifo"): 3.8,
    ("philly3d_q", "sjf"): 3.5,
    ("philly3d_q", "qssf"): 5.2,
    ("philly3d_q", "srtf"): 5.9,
    ("philly3d_q", "tiresias"): 3.4,
}
"""CPU seconds of the HeliosArtifact and Lucid simulators, on two shared cores of a like machine."""


def timed(
    jobs: SimJobs, cluster: SimCluster, policy: str, runs: int, rules: SimRules | None = None
) -> tuple[SimResult, list[float]]:
    """The result, and CPU seconds of each of some runs after one that warms up."""
    result = simulate(jobs, cluster, load(policy), rules)
    cpu_s = []
    for _ in range(runs):
        began = time.process_time()
        result = simulate(jobs, cluster, load(policy), rules)
        cpu_s.append(time.process_time() - began)
    return result, cpu_s


def speed(result: SimResult, cpu_s: list[float]) -> dict[str, float]:
    """Figures of some runs of the same simulation."""
    jobs, jct_s = len(result.jobs), result.end_s - result.jobs.submit_s
    return {
        "jobs": jobs,
        "cpu_s_best": round(min(cpu_s), 4),
        "cpu_s_median": round(float(np.median(cpu_s)), 4),
        "jobs_a_cpu_s": round(jobs / float(np.median(cpu_s))),
        "ns_a_job": round(1e9 * float(np.median(cpu_s)) / jobs),
        "mean_jct_s": round(float(np.nanmean(jct_s)), 2),
        "unfinished": int(np.count_nonzero(np.isnan(result.end_s))),
    }


def in_a_process_of_its_own(script: Path, *words: str) -> dict[str, float]:
    """What a script prints as JSON: where peak memory counts."""
    command = [sys.executable, str(script), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found
