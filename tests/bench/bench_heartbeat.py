"""What a heartbeat costs: the training loop for each step, its thread for each write, a reader.

Writes tests/results/heartbeat.json. A step shall pay less than 0.1 ms: that is measured twice, as
the time of a report alone and as what a loop of steps of about a millisecond of work takes longer
with a heartbeat than without, in turn, the thread's share included. Recorded, not asserted.

    python tests/bench/bench_heartbeat.py [RUNS]
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from gsched.runtime.heartbeat import Heartbeat
from gsched.telemetry.heartbeat_file import HeartbeatRecord
from gsched.telemetry.heartbeat_writer import HeartbeatFile
from gsched.telemetry.heartbeats import HeartbeatFolder
from gsched.telemetry.loss_curve import MAX_POINTS, Attempt, LossCurve
from gsched.telemetry.own_folder import OwnFolder

RESULT = Path(__file__).parents[1] / "results" / "heartbeat.json"
BUDGET_US = 100
REPORTS = 50_000
STEPS = 2_000
JOBS = 1_000


def each_us(action: Callable[[int], object], times: int) -> float:
    """Microseconds of one call, the mean over `times`."""
    started = time.perf_counter()
    for number in range(times):
        action(number)
    return (time.perf_counter() - started) / times * 1e6


def work() -> None:
    """About a millisecond that holds the interpreter's lock, as a loop's own Python does."""
    sum(range(40_000))


def steps_us(heartbeat: Heartbeat | None) -> float:
    def step(number: int) -> None:
        work()
        if heartbeat is not None:
            heartbeat.report(number + 1, loss=1.0, tokens=512)

    return each_us(step, STEPS)


def loops(folder: Path, runs: int) -> dict[str, float]:
    """A loop with and without a heartbeat, in turn."""
    environ = {"GSCHED_HEARTBEAT_DIR": str(folder), "SLURM_JOB_ID": "1"}
    plain, beating = [], []
    for _ in range(runs):
        plain.append(steps_us(None))
        with Heartbeat(STEPS, environ=environ) as heartbeat:
            beating.append(steps_us(heartbeat))
    more = [b - p for b, p in zip(beating, plain, strict=True)]
    return {
        "step_without_us_median": round(statistics.median(plain), 1),
        "step_with_us_median": round(statistics.median(beating), 1),
        "difference_us_median": round(statistics.median(more), 2),
        "difference_us_min": round(min(more), 2),
        "difference_us_max": round(max(more), 2),
    }


def reports(folder: Path, runs: int) -> dict[str, float]:
    """The call alone, by what is given as the loss."""
    environ = {"GSCHED_HEARTBEAT_DIR": str(folder), "SLURM_JOB_ID": "1"}
    losses = {"none": None, "float": 1.5, "tensor": torch.tensor(1.5)}
    found = {}
    with Heartbeat(REPORTS, environ=environ) as heartbeat:
        for name, loss in losses.items():

            def report(number: int, loss: torch.Tensor | float | None = loss) -> None:
                heartbeat.report(number, loss=loss, tokens=512)

            found[f"report_{name}_us_median"] = round(
                statistics.median(each_us(report, REPORTS) for _ in range(runs)), 2
            )
    return found


def files(folder: Path, runs: int) -> dict[str, float]:
    """A write by the thread, and a read by `gsched queue`, for each job."""
    now = time.time()
    record = HeartbeatRecord("0" * 12, 0, "1", 0, 0, 1, "gn01", now, now, now, 0, 1, 1000)
    curve = LossCurve()
    curve.begin(Attempt(0, 0, 0, now, now))
    for step in range(MAX_POINTS):
        curve.add(step, 1 / (step + 1))
    made = [HeartbeatFile(OwnFolder(folder, os.getuid()), str(job), 0) for job in range(JOBS)]

    def write(number: int) -> None:
        made[number].write(replace(record, job=str(number), step=number), curve)

    writes = statistics.median(each_us(write, JOBS) for _ in range(runs))
    with HeartbeatFolder(folder) as opened:
        reads = statistics.median(
            each_us(lambda n: opened.record(os.getuid(), str(n)), JOBS) for _ in range(runs)
        )
    return {"write_us_median": round(writes, 1), "read_us_median": round(reads, 1)}


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        figures = reports(folder, runs) | loops(folder, runs) | files(folder, runs)
    document = {
        "what": "time of a heartbeat, microseconds",
        "budget_us": BUDGET_US,
        "runs": runs,
        "reports_a_run": REPORTS,
        "steps_a_run": STEPS,
        "files": JOBS,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "load_at_the_end": [round(x, 2) for x in os.getloadavg()],
        "figures": figures,
    }
    RESULT.write_text(json.dumps(document, indent=2) + "\n")
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
