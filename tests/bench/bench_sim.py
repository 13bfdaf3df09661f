"""How fast the simulator is, how its time and memory grow, and what its peers need.

Writes tests/results/sim.json. CPU seconds (user + system) of one core through `simulate` and the
policies that the daemon runs: median and best of some runs. Memory is the peak of a process of its
own. The targets are recorded here and not asserted, for machines differ.

    python tests/bench/bench_sim.py [RUNS [JOBS [LARGEST]]]      # 5 1500000 10000000
"""

from __future__ import annotations

import json
import math
import platform
import resource
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from support.peers import peer_input
from support.philly_like import philly_like
from support.sim_bench import PEER_CPU_S, in_a_process_of_its_own, speed, timed
from support.sim_bench_ordered import every_policy, other_peers, preempting_peers

from gsched.policy.registry import load
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate

RESULT = Path(__file__).parents[1] / "results" / "sim.json"
TARGETS = {
    "CPU seconds of 1.5 M jobs, each of fifo, sjf, qssf": 2.0,
    "times the peer's jobs a CPU second": 100,
    "bytes a job": 300,
}
STATIC = ("fifo", "sjf", "qssf")


def many_jobs(jobs: int, runs: int) -> dict[str, Any]:
    """Static orders over Philly-like jobs with placement on nodes."""
    found = {}
    columns, cluster = philly_like(jobs)
    for policy in STATIC:
        found[policy] = speed(*timed(columns, cluster, policy, runs))
    return found


def growth(largest: int, runs: int) -> dict[str, Any]:
    """Time by the number of jobs; n log n would leave the last figure as it is."""
    found = {}
    for exponent in range(4, 8):
        if 10**exponent > largest:
            break
        columns, cluster = philly_like(10**exponent)
        for policy in STATIC:
            figures = speed(*timed(columns, cluster, policy, runs if exponent < 7 else 1))
            each = figures["ns_a_job"] / math.log2(figures["jobs"])
            found[f"{policy}, 10^{exponent} jobs"] = figures | {"ns_a_job_log2n": round(each, 2)}
    return found


def memory(jobs: int) -> dict[str, float]:
    """Peak memory of a whole simulation by the number of jobs, inputs and results included."""
    few, many = (in_a_process_of_its_own(Path(__file__), "--peak", str(n)) for n in (1000, jobs))
    inputs, peak = (
        (many[key] - few[key]) / (jobs - 1000) for key in ("inputs_bytes", "peak_bytes")
    )
    return {
        "jobs": jobs,
        "bytes_a_job": round(peak, 1),
        "of_which_inputs": round(inputs, 1),
        "process_without_jobs_mb": round(few["peak_bytes"] / 1e6, 1),
    }


def print_peak(jobs: int) -> None:
    """In a process of its own: peak memory once the inputs are there, and after a simulation."""
    columns, cluster = philly_like(jobs)
    inputs = _peak_bytes()
    simulate(columns, cluster, load("sjf"))
    print(json.dumps({"inputs_bytes": inputs, "peak_bytes": _peak_bytes()}))


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peers(runs: int) -> dict[str, Any]:
    """Static orders on the peers' inputs: equal answers, and the time that they take."""
    found = {}
    for (name, policy), peer_cpu_s in PEER_CPU_S.items():
        if policy not in STATIC:
            continue
        peer = peer_input(name)
        rules = SimRules(size_first_tick_s=1.0 if policy == "qssf" else 0.0)
        result, cpu_s = timed(peer.jobs, peer.cluster, policy, runs, rules)
        answer = peer.answer(policy)
        figures = speed(result, cpu_s)
        found[f"{policy} on {name}"] = figures | {
            "equal_starts": int(np.count_nonzero(result.start_s == answer.start_s)),
            "peer_mean_jct_s": round(float(answer.jct_s.mean()), 2),
            "peer_cpu_s": peer_cpu_s,
            "times_the_peer": round(peer_cpu_s / figures["cpu_s_median"]),
        }
    return found


def main() -> None:
    """Measure, print and record."""
    if sys.argv[1:2] == ["--peak"]:
        print_peak(int(sys.argv[2]))
        return
    runs, jobs, largest = (
        int(word) for word in (sys.argv[1:] + ["5", "1500000", "10000000"][len(sys.argv) - 1 :])
    )
    sections = {
        "philly_like": many_jobs(jobs, runs),
        "peers": peers(runs),
        "preempting_peers": preempting_peers(runs),
        "other_peers": other_peers(),
        "every_policy": every_policy(jobs // 10, 1),
        "memory": memory(min(largest, 10 * jobs)),
        "growth": growth(largest, runs),
    }
    for section, found in sections.items():
        print(section, json.dumps(found, indent=1))
    document = {
        "what": "CPU seconds (user + system) on one core; peak memory of a process",
        "targets": TARGETS,
        "runs": runs,
        "python": platform.python_version(),
        "machine": platform.machine(),
        **sections,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
