"""Simulated against real: tests/results/reality.json.

    bench_reality.py calibrate      the overheads of real runs with the seeds of CALIBRATION
    bench_reality.py judge          other seeds, simulated with those overheads as they stand there

Each runs its seeds side by side, every one on a private Slurm of its own on which gsched acts, as
long as jobs of 20 s and more take: some eight minutes. They mostly sleep.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from scipy.special import stdtrit
from support.machine import slurm_release
from support.reality import Run, calibrated, mean_jct_s, order_correlation, run_real, simulated

from gsched.errors import UsageError
from gsched.policy.registry import load
from gsched.sim.rules import Costs
from gsched.testbed.arrivals import make_arrivals

RESULT = Path(__file__).parents[1] / "results" / "reality.json"
CALIBRATION = (101, 102, 103)
JUDGED = (1, 2, 3, 4, 5)
NUM_NODES, GPUS_A_NODE = 4, 8
WORKLOAD: dict[str, Any] = {"num_jobs": 80, "shortest_s": 20.0, "longest_s": 90.0, "load": 2.0}
WITHIN_PCT = 5.0


def real_runs(seeds: Sequence[int]) -> list[Run]:
    """All seeds side by side."""
    return run_real(
        [make_arrivals(seed, num_gpus=NUM_NODES * GPUS_A_NODE, **WORKLOAD) for seed in seeds],
        NUM_NODES,
    )


def calibrate(seeds: Sequence[int]) -> dict[str, Any]:
    """What the result keeps of a calibration."""
    runs = real_runs(seeds)
    costs = calibrated(runs)
    by_seed = {str(seed): asdict(calibrated([run])) for seed, run in zip(seeds, runs, strict=True)}
    kept = ("launch_s", "cleanup_s")
    return {
        "seeds": list(seeds),
        **{name: getattr(costs, name) for name in kept},
        "by_seed": {seed: {name: told[name] for name in kept} for seed, told in by_seed.items()},
    }


def judge(seeds: Sequence[int], costs: Costs) -> dict[str, Any]:
    """Each seed, and the interval of the error over the seeds; FIFO is the control."""
    runs = real_runs(seeds)
    by_seed = {str(seed): _figures(run, costs) for seed, run in zip(seeds, runs, strict=True)}
    errors = {
        policy: [told[policy]["error_pct"] for told in by_seed.values()]
        for policy in ("qssf", "fifo")
    }
    return {
        "seeds": by_seed,
        "mean_jct_error_pct": {p: _interval(values) for p, values in errors.items()},
        "within_pct": WITHIN_PCT,
        "is_within": all(abs(error) <= WITHIN_PCT for error in errors["qssf"]),
        "control_disagrees": all(abs(error) > WITHIN_PCT for error in errors["fifo"]),
    }


def _figures(run: Run, costs: Costs) -> dict[str, Any]:
    told: dict[str, Any] = {"real_mean_jct_s": round(run.mean_jct_s, 2)}
    for name, paid in (("qssf", costs), ("fifo", costs), ("qssf_without_costs", Costs())):
        result = simulated(run, load(name.partition("_")[0]), paid)
        mean_s = mean_jct_s(result)
        told[name] = {
            "mean_jct_s": round(mean_s, 2),
            "error_pct": round(100 * (mean_s / run.mean_jct_s - 1), 2),
            "start_order_correlation": round(order_correlation(run, result), 4),
        }
    return told


def _interval(values: Sequence[float]) -> dict[str, float]:
    """Mean over seeds with Student's interval of 95 %."""
    mean = statistics.fmean(values)
    half = stdtrit(len(values) - 1, 0.975) * statistics.stdev(values) / len(values) ** 0.5
    return {"mean": round(mean, 2), "low": round(mean - half, 2), "high": round(mean + half, 2)}


def main() -> None:
    """Run one of the two halves and write its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("half", choices=["calibrate", "judge"])
    parser.add_argument("--seeds", type=int, nargs="+")
    told = parser.parse_args()
    document = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if told.half == "calibrate":
        document = {
            "slurm": ".".join(map(str, slurm_release())),
            "workload": {**WORKLOAD, "nodes": NUM_NODES, "gpus_a_node": GPUS_A_NODE},
            "calibration": calibrate(told.seeds or CALIBRATION),
        }
    else:
        frozen = document.get("calibration")
        if frozen is None:
            raise UsageError(f"{RESULT} has no calibration", "run the half `calibrate` first")
        seeds = told.seeds or JUDGED
        if common := set(seeds) & set(frozen["seeds"]):
            raise UsageError(f"seeds {sorted(common)} were calibrated on: they judge nothing")
        costs = Costs(launch_s=frozen["launch_s"], cleanup_s=frozen["cleanup_s"])
        document["judged"] = judge(seeds, costs)
    RESULT.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
