"""QSSF simulated on real logs against FIFO, SJF, SRTF and Slurm's own order.

Writes tests/results/qssf_sim.json. Headline, per log: which share of what SJF with true run times
saves of FIFO's mean JCT does QSSF save, by predictions that are made in the simulation at each
submission from what had ended in it (``support/qssf_online.py``), the model fitted anew every week.
Logs of CPU clusters count cores as GPUs. Two logs at a time, each in a process of its own.

    python tests/bench/bench_qssf.py [LOG...]      # those of support/named_logs.py
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parents[1]))

from support.named_logs import LOGS
from support.qssf_bench import BOUNDS_S, SHIPPED, judged
from support.qssf_figures import CLASSES, LEAST_GAIN
from support.qssf_logs import LOAD, SIZINGS
from support.qssf_online import BATCH_S

RESULT = Path(__file__).parents[1] / "results" / "qssf_sim.json"
AT_ONCE = 2
DEFAULT_BOUND = f"bound {BOUNDS_S[-1] // 86_400} d"
SHOWN = {
    "model": "qssf, model",
    "rolling": "qssf, rolling",
    "sizes": "fewest GPUs",
    "shuffled": "qssf, shuffled run times",
    "bound": f"qssf, model, {DEFAULT_BOUND}",
    "Slurm": "multifactor, backfill",
    "shipped": SHIPPED,
}
"""Columns of the table, and the runs that they are of."""


def in_its_own_process(name: str) -> tuple[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, __file__, "--one", name], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name}:\n{done.stderr}")
    return name, json.loads(done.stdout)


def shares(name: str, told: dict[str, Any]) -> str:
    """One line of the table."""
    machine = told["machines"][told["headline_machine"]]
    runs = machine["runs"]
    found = [runs.get(run, {}).get("recovered", {}).get("share") for run in SHOWN.values()]
    cells = "".join(f"{'-' if share is None else format(share, '.3f'):>9}" for share in found)
    words = f"{machine['jobs']:>7,} {told['headline_machine']:>8} {machine['offered_load']:>6.2f}"
    marked = name if told["judges"] else f"{name} (tuned on)"
    return f"{marked:30} {words} {runs['fifo']['mean_queueing_s']:>13,.0f}{cells}"


def main(names: list[str]) -> None:
    began = time.monotonic()
    largest_first = sorted(names, key=lambda name: -sum(f.stat().st_size for f in LOGS[name].files))
    with ThreadPoolExecutor(AT_ONCE) as processes:
        found = dict(processes.map(in_its_own_process, largest_first))
    told = {
        "what": "share of FIFO→SJF(oracle)'s gain in mean JCT that QSSF recovers, per log",
        "machines": SIZINGS,
        "classes_s": {
            name: [low, None if high > 1e9 else high] for name, (low, high) in CLASSES.items()
        },
        "bounds_s": BOUNDS_S,
        "load": LOAD,
        "least_gain": LEAST_GAIN,
        "predicted_every_s": BATCH_S,
        "runs": {
            "qssf, model": "predictions made in the simulation, at each submission",
            SHIPPED: "so, too: what a site gets that has Slurm's backfill and gsched's defaults",
            "qssf, model, …": "the same predictions under other rules; learnt_early: jobs that end "
            "later than where these were made",
            "fewest GPUs": "what QSSF does with sizes alone",
            "…, backfill": "EASY by the log's limits; jobs without one count as 365 days",
        },
        "interval": "95 %, weeks of submission drawn anew; none for fewer than 7 weeks",
        "python": platform.python_version(),
        "machine": platform.machine(),
        "took_s": round(time.monotonic() - began),
        "logs": {name: found[name] for name in names},
    }
    RESULT.write_text(json.dumps(told, indent=2) + "\n")
    columns = "".join(f"{name:>9}" for name in SHOWN)
    print(f"{'log':30} {'jobs':>7}  machine   load  FIFO waits s{columns}")
    for name in names:
        print(shares(name, found[name]))
    print(f"{told['took_s']} s; {RESULT} is written")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(judged(sys.argv[2])))
    else:
        main(sys.argv[1:] or list(LOGS))
