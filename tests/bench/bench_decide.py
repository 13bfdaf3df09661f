"""How long a policy takes to decide, and what a round computes besides, by the number of jobs.

Writes tests/results/decide.json: milliseconds of CPU, median and spread of N runs, all steps of one
size in turn, so that whatever else the machine does falls on all of them alike. The budgets are
recorded here and not asserted, for machines differ.

    python tests/bench/bench_decide.py [RUNS [JOBS ...]]
"""

from __future__ import annotations

import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.jobs import T0, view

from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.predictions import PredictionBook
from gsched.engine.starvation import lift_starving
from gsched.engine.validate import validate
from gsched.model.cluster import ClusterState
from gsched.model.job import Capability, JobState, JobView, Prediction, PredictionKind
from gsched.model.jobtable import JobTable
from gsched.policy.base import Policy
from gsched.policy.registry import POLICIES, load, load_scoped

RESULT = Path(__file__).parents[1] / "results" / "decide.json"
BUDGET_MS = {"qssf decides, 2048 jobs": 3.0, "qssf decides and is checked, 10000 jobs": 50.0}
WEEK_S = 7 * 86400
EVERYTHING = frozenset(Capability)
_CHURN = 100  # one job in so many has changed since the round before


class Guess:
    """A predictor that costs nothing, so that what the engine does is what is measured."""

    model_id = "guess"

    def predict(self, jobs: list[JobView], now: int) -> list[Prediction | None]:
        """Some duration of each job."""
        return [
            Prediction(
                PredictionKind.DURATION,
                60.0 + v.key.job_id % 9973,
                ((0.1, 30.0), (0.9, 90.0)),
                "user",
                "guess",
                7,
                now,
            )
            for v in jobs
        ]


class Queue:
    """So many waiting jobs, as one round finds them and as the next one does."""

    def __init__(self, jobs: int) -> None:
        chance = random.Random(jobs)
        self.views = [
            view(
                number,
                gpus=chance.choice([0, 1, 1, 2, 4, 8]),
                cpus=chance.randrange(1, 65),
                submit=T0 + chance.randrange(10 * 86400),
                partitions=(chance.choice(["gpu", "gpu", "debug"]),),
            )
            for number in range(jobs)
        ]
        self.now = T0 + 11 * 86400
        self.bare = JobTable.from_views(self.views)
        self.next_views = [
            replace(v, state=JobState.RUNNING) if number % _CHURN == 0 else v
            for number, v in enumerate(self.views)
        ]
        self.next_bare = JobTable.from_views(self.next_views, self.bare)
        self.book, self.journal = PredictionBook(), MemoryJournal()
        self.state = self.filled(self.bare)

    def filled(self, jobs: JobTable) -> ClusterState:
        """A snapshot of these jobs with predictions."""
        state = ClusterState("c", self.now, 1, (), (), (), jobs)
        return self.book.fill(state, Guess(), self.journal)

    def fill_in_turn(self) -> None:
        """Predictions for the next round's jobs, of which a few are new."""
        self.filled(self.next_bare)
        self.filled(self.bare)


def steps(jobs: int) -> dict[str, Callable[[], object]]:
    """What is measured with so many jobs waiting."""
    queue = Queue(jobs)
    state, now = queue.state, queue.now
    qssf = load("qssf")
    checked, _ = validate(qssf.decide(state, {}, now), state, EVERYTHING, now)
    policies: dict[str, Policy] = {name: load(name) for name in POLICIES}
    policies["qssf with fifo in one partition"] = load_scoped("qssf", {"debug": "fifo"}, {})
    found: dict[str, Callable[[], object]] = {
        f"{name} decides": lambda policy=policy: policy.decide(state, {}, now)
        for name, policy in policies.items()
    }
    found |= {
        "qssf decides and is checked": lambda: validate(
            qssf.decide(state, {}, now), state, EVERYTHING, now
        ),
        "every rank and reason is read": lambda: [
            (checked.order.get(key), checked.reasons.get(key)) for key in state.jobs.keys
        ],
        "starving jobs are lifted": lambda: lift_starving(checked, state, now, WEEK_S),
        "table of jobs, anew": lambda: JobTable.from_views(queue.views),
        "table of jobs, 1 % changed": lambda: JobTable.from_views(queue.next_views, queue.bare),
        "table of jobs, none changed": lambda: JobTable.from_views(queue.views, queue.bare),
        "predictions filled in twice, 1 % changed": queue.fill_in_turn,
        "predictions filled in, none changed": lambda: queue.filled(queue.bare),
    }
    return found


def measure(runs: int, sizes: list[int]) -> dict[str, dict[str, float]]:
    """Each step of each size in turn, `runs` times, after one run that warms up."""
    found = {f"{name}, {jobs} jobs": step for jobs in sizes for name, step in steps(jobs).items()}
    samples: dict[str, list[float]] = {name: [] for name in found}
    for turn in range(runs + 1):
        for name, step in found.items():
            began = time.process_time()
            step()
            used = time.process_time() - began
            if turn:
                samples[name].append(1000 * used)
    return {name: figures(ms) for name, ms in samples.items()}


def figures(ms: list[float]) -> dict[str, float]:
    """Median and extremes in milliseconds."""
    low, high = min(ms), max(ms)
    return {
        "ms_median": round(statistics.median(ms), 3),
        "ms_min": round(low, 3),
        "ms_max": round(high, 3),
    }


def main() -> None:
    """Measure, print and record."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    sizes = [int(word) for word in sys.argv[2:]] or [2048, 10000]
    results = measure(runs, sizes)
    for name, found in results.items():
        budget = f"  (budget {BUDGET_MS[name]:g})" if name in BUDGET_MS else ""
        print(f"{found['ms_median']:9.3f} ms  {name}{budget}")
    document = {
        "what": "CPU time (user + system) of one step, milliseconds",
        "budget_ms": BUDGET_MS,
        "runs": runs,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": results,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
