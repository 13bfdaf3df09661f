"""Waits on five real clusters side by side, over several workloads: tests/results/qssf_live.json.

About two minutes a seed. What each arm is: tests/support/five_arms.py.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.five_arms import ARMS, NUM_JOBS, NUM_SCRIPTS, RUNS_EACH, run_trial

RESULT = Path(__file__).parents[1] / "results" / "qssf_live.json"


def main() -> None:
    """Run the trials one after the other and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    seeds = parser.parse_args().seeds
    trials = {seed: run_trial(seed) for seed in seeds}
    for seed, trial in trials.items():
        print(f"seed {seed}\n{trial.table()}\n")
    figures = {
        str(seed): {
            arm: {
                **{k: round(v, 3) for k, v in asdict(trial.figures[arm]).items()},
                "share_of_oracle_gain": round(trial.gain(arm), 3),
            }
            for arm in ARMS
        }
        for seed, trial in trials.items()
    }
    workload = {"history_jobs": NUM_SCRIPTS * RUNS_EACH, "queued_jobs": NUM_JOBS, "nodes": 8}
    RESULT.write_text(json.dumps({"workload": workload, "seeds": figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
