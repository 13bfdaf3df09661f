"""How long a forecast takes, by the number of jobs that wait.

128 nodes of 8 GPUs, full; jobs of 1 to 32 GPUs whose run times are uncertain by a factor of 2 to 6
(one standard deviation), in an order that has nothing to do with when they came; two weeks of
arrivals that make up nine tenths of what the nodes can do. So much waits at 5,000 jobs that the
last one starts after more than a week, of which each sample has to see all.

Writes tests/results/forecast_speed.json: seconds of CPU, one process, the loops compiled before.

    python tests/bench/bench_forecast_speed.py [SAMPLES [JOBS ...]]
"""

from __future__ import annotations

import json
import platform
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from gsched.forecast.forecast import ForwardRun, forecast
from gsched.forecast.outlook import Change, ForecastOptions
from gsched.forecast.situation import (
    Demand,
    Field,
    Node,
    PastArrival,
    Piece,
    RunningJob,
    Situation,
    WaitingJob,
    read_situation,
    to_json,
)

RESULT = Path(__file__).parents[1] / "results" / "forecast_speed.json"
NOW = 1_700_000_000.0
NODES, GPUS_A_NODE = 128, 8
DAYS = 14
LOAD = 0.9
LEVELS = (0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98)
SCORES = np.array([-2.054, -1.282, -0.674, 0.0, 0.674, 1.282, 2.054])
SIZES = (1, 1, 1, 2, 4, 8, 8, 16, 32)
LIMITS_S = (3_600.0, 14_400.0, 86_400.0, 172_800.0)
MEDIAN_S, DEVIATION = 3_000.0, 1.5  # of run times, log-normal

T = TypeVar("T")


class Site:
    """What is drawn, from one seed."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)

    def run_s(self) -> float:
        return float(self.chance.lognormal(np.log(MEDIAN_S), DEVIATION))

    def quantiles_s(self) -> tuple[float, ...]:
        factors = np.exp(SCORES * self.chance.uniform(np.log(2), np.log(6)))
        return tuple((self.run_s() * factors).tolist())

    def demands(self) -> tuple[Demand, ...]:
        return (Demand(0, int(self.chance.choice(SIZES))),)

    def ago_s(self, most: float) -> float:
        return float(self.chance.uniform(0, most))

    def order_and_limit(self) -> tuple[float, float]:
        return float(self.chance.random()), float(self.chance.choice(LIMITS_S))


def situation(waiting: int) -> Situation:
    """So many jobs wait on a full cluster."""
    site = Site(waiting)
    running = [
        RunningJob(f"r{n}", NOW - site.ago_s(20_000), 86_400.0, site.quantiles_s(), (Piece(n, 8),))
        for n in range(NODES)
    ]
    queue = []
    for number in range(waiting):
        order, limit_s = site.order_and_limit()
        submitted_at = NOW - site.ago_s(80_000)
        queue.append(
            WaitingJob(
                f"w{number}", site.demands(), order, submitted_at, limit_s, site.quantiles_s()
            )
        )
    job_gpu_s = float(np.mean(SIZES)) * MEDIAN_S * float(np.exp(DEVIATION**2 / 2))
    a_day = LOAD * NODES * GPUS_A_NODE * 86_400 / job_gpu_s
    came = []
    for _ in range(int(a_day * DAYS)):
        order, limit_s = site.order_and_limit()
        known_s = (min(site.run_s(), limit_s),) * len(LEVELS)
        came.append(
            PastArrival(NOW - site.ago_s(DAYS * 86_400), site.demands(), order, limit_s, known_s)
        )
    return Situation(
        as_of=NOW,
        levels=LEVELS,
        fields=(Field("gpu", "GPU"),),
        nodes=tuple(Node(f"n{n}", 0, GPUS_A_NODE) for n in range(NODES)),
        running=tuple(running),
        waiting=tuple(queue),
        arrivals=tuple(came),
        arrivals_from=NOW - DAYS * 86_400,
    )


def timed(step: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the seconds of CPU that it took."""
    began = time.process_time()
    found = step()
    return found, round(time.process_time() - began, 3)


def measure(waiting: int, samples: int) -> dict[str, float]:
    """All steps with so many jobs waiting."""
    made, options = situation(waiting), ForecastOptions(samples=samples)
    document, written_s = timed(lambda: to_json(made))
    read, read_s = timed(lambda: read_situation(document))
    run, built_s = timed(lambda: ForwardRun(read, options))
    outlook, outlook_s = timed(run.outlook)
    job = made.waiting[waiting // 2]
    fewer = replace(job, demands=(Demand(0, 1),))
    _, tried_s = timed(
        lambda: run.what_if(job.job_id, [Change("gpus", "--gres=gpu:1", "1", fewer)])
    )
    last = max(start.raw.median for start in outlook.starts)
    return {
        "past_arrivals": len(made.arrivals),
        "last_start_after_days": round((last - NOW) / 86_400, 2),
        "document_mib": round(len(document) / 2**20, 2),
        "write_cpu_s": written_s,
        "read_and_check_cpu_s": read_s,
        "draw_cpu_s": built_s,
        "forecast_cpu_s": outlook_s,
        "one_change_cpu_s": tried_s,
    }


def main() -> None:
    """Measure, print and record."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 32
    sizes = [int(word) for word in sys.argv[2:]] or [100, 1_000, 5_000]
    forecast(replace(situation(1), arrivals=()), ForecastOptions(samples=1))  # compiles
    figures = {}
    for waiting in sizes:
        figures[str(waiting)] = measure(waiting, samples)
        print(waiting, json.dumps(figures[str(waiting)]), flush=True)
    document = {
        "what": "a forecast of all waiting jobs, by their number; seconds of CPU, one process",
        "cluster": f"{NODES} nodes of {GPUS_A_NODE} GPUs, all in use; arrivals at {LOAD:.0%} load",
        "samples": samples,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": figures,
    }
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
