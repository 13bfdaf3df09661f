"""How long `chronus` takes to decide with 1,000 GPUs and 500 active jobs, and what its plans lack.

Writes tests/results/deadline_solver.json: seconds of CPU of each round's decision (p50, p99, max),
how plans were found, the gap of those that cannot keep all, and questions to the solver without an
answer in time. Three cases: as much as the cluster can do, far more, and nodes lost from one round
to the next (two in five), of which each round of the first case is made one. Budgets (each round
10 s at most on one core, p50 1 s) are recorded and not asserted, for machines differ.

    python tests/bench/bench_deadline_solver.py [HOURS]
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from support.sim_jobs import sim_jobs

from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import JobState
from gsched.model.jobtable import JobTable
from gsched.policy import chronus_round
from gsched.policy.chronus import Chronus
from gsched.policy.chronus_memory import Book
from gsched.policy.chronus_solver import Solver
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.replay import run_rounds
from gsched.sim.rules import Costs, SimRules

RESULT = Path(__file__).parents[1] / "results" / "deadline_solver.json"
BUDGET_S = {"p50": 1.0, "max": 10.0}
NODES, GPUS_A_NODE = 125, 8
ACTIVE = 500
SEED = 12
ROUND_S = 300.0
RULES = SimRules(costs=Costs(launch_s=30.0), round_s=ROUND_S, sample_s=3600.0)
KNOBS = {"spot_lease_s": 300.0, "resume_s": 30.0, "profile_s": 0.0}
BEGINS_WITH = 900
LOADS = {"more than can be done": 1.5, "far more": 3.0}


@dataclass(slots=True)
class Counted:
    """What the solvers of all rounds were asked."""

    asked: int = 0
    gave_up: int = 0
    gaps: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Seen:
    """One round: what was decided on, how long it took, and what came of it."""

    state: ClusterState
    memory: Mapping[str, JsonValue]
    cpu_s: float
    targets: int
    way: str
    gap: float


class Watched(Chronus):
    """Notes every decision that it makes with enough jobs at hand."""

    def __init__(self, least_active: int = ACTIVE, **knobs: float) -> None:
        super().__init__(**knobs)
        self.least_active, self.seen = least_active, list[Seen]()

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """As the policy does."""
        began = time.process_time()
        decision = super().decide(state, memory, now)
        cpu_s = time.process_time() - began
        if len(state.jobs) >= self.least_active:
            book = Book.of(decision.memory)
            seen = Seen(state, memory, cpu_s, len(book.targets), book.way, book.gap)
            self.seen.append(seen)
        return decision


def workload(load: float, hours: float) -> SimJobs:
    """Jobs of minutes to days on 1 to 32 GPUs; two in three ask for 1.2 to 2 times their run time.

    At first many at once, so that enough are active in each round.
    """
    chance = np.random.default_rng(SEED)
    sizes, weights = [1, 2, 4, 8, 16, 32], [0.45, 0.15, 0.12, 0.2, 0.06, 0.02]
    mean_gpus = float(np.dot(sizes, weights))
    mean_s = 5 * 3600.0
    a_second = load * NODES * GPUS_A_NODE / (mean_gpus * mean_s)
    count = BEGINS_WITH + int(a_second * hours * 3600)
    submit = np.sort(chance.uniform(0, hours * 3600, count - BEGINS_WITH))
    duration = np.clip(chance.lognormal(np.log(mean_s) - 0.98, 1.4, count), 120, 3 * 86400)
    submit = np.concatenate((np.zeros(BEGINS_WITH), submit))
    stretch = chance.uniform(1.2, 2.0, count)
    deadline = np.where(chance.uniform(size=count) < 2 / 3, submit + stretch * duration, np.nan)
    return sim_jobs(
        submit.tolist(),
        duration.tolist(),
        num_gpus=chance.choice(sizes, count, p=weights).tolist(),
        deadline_s=deadline.tolist(),
        predicted_duration_s=duration.tolist(),
        user=chance.integers(0, 40, count).tolist(),
    )


def counting(counted: Counted) -> type[Solver]:
    """A solver that tells of every question."""

    class Counting(Solver):
        """See `Counted`."""

        def __call__(self, needs: Any, free: Any, is_hard: bool) -> Any:
            before = self.asked, self.gave_up
            found = super().__call__(needs, free, is_hard)
            counted.asked += self.asked - before[0]
            counted.gave_up += self.gave_up - before[1]
            if found is not None and not is_hard:
                counted.gaps.append(self.gap)
            return found

    return Counting


def without_nodes(seen: Seen) -> ClusterState:
    """The same, but two nodes in five are down, and what ran there waits anew."""
    state = seen.state
    lost = {node.name for number, node in enumerate(state.nodes) if number % 5 < 2}
    nodes = tuple(
        replace(n, state="down", flags=("down",), gpus_used=0) if n.name in lost else n
        for n in state.nodes
    )
    views = [
        replace(v, state=JobState.PENDING, allocation=None, lease=None, restarts=v.restarts + 1)
        if v.allocation is not None and lost & {*v.allocation.nodes}
        else v
        for v in state.jobs.views
    ]
    return replace(state, nodes=nodes, jobs=JobTable.from_views(views))


def figures(seen: list[Seen], counted: Counted) -> dict[str, Any]:
    """Of one case."""
    cpu_s = np.array([one.cpu_s for one in seen])
    active = np.array([len(one.state.jobs) for one in seen])
    return {
        "rounds": len(seen),
        "active_jobs": {"min": int(active.min()), "max": int(active.max())},
        "targets": {
            "min": min(one.targets for one in seen),
            "max": max(one.targets for one in seen),
        },
        "cpu_s": {
            "p50": round(float(np.median(cpu_s)), 4),
            "p99": round(float(np.quantile(cpu_s, 0.99)), 4),
            "max": round(float(cpu_s.max()), 4),
        },
        "within_budget": bool(
            np.median(cpu_s) <= BUDGET_S["p50"] and cpu_s.max() <= BUDGET_S["max"]
        ),
        "ways": dict(Counter(one.way for one in seen)),
        "reward_lacking": {  # of plans that cannot keep all: below the sum of all rewards
            "mean": round(float(np.mean([one.gap for one in seen])), 4),
            "max": round(max(one.gap for one in seen), 4),
        },
        "solver": {
            "asked": counted.asked,
            "no_answer_in_time": counted.gave_up,
            "proven_gap_max": round(max(counted.gaps, default=0.0), 4),
        },
    }


def measured(load: float, hours: float) -> tuple[list[Seen], Counted]:
    """A simulated day or so with one load."""
    counted = Counted()
    chronus_round.Solver = counting(counted)
    policy = Watched(**KNOBS)
    run_rounds(
        workload(load, hours), SimCluster.uniform({"all": NODES}, GPUS_A_NODE), policy, RULES
    )
    return policy.seen, counted


def measured_losses(before: list[Seen], most: int = 60) -> tuple[list[Seen], Counted]:
    """The first round after a loss, from rounds at even distances."""
    counted = Counted()
    chronus_round.Solver = counting(counted)
    policy = Watched(least_active=0, **KNOBS)
    for one in before[:: max(1, len(before) // most)]:
        state = without_nodes(one)
        policy.decide(state, one.memory, state.as_of)
    return policy.seen, counted


def main() -> None:
    """Measure all cases and write them down."""
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    found: dict[str, Any] = {}
    first: list[Seen] = []
    for name, load in LOADS.items():
        seen, counted = measured(load, hours)
        first = first or seen
        found[name] = {"load": load, **figures(seen, counted)}
        print(name, json.dumps(found[name]), flush=True)
    seen, counted = measured_losses(first)
    found["two nodes in five lost"] = figures(seen, counted)
    print(json.dumps(found["two nodes in five lost"]))
    document = {
        "what": f"{NODES * GPUS_A_NODE} GPUs, rounds with {ACTIVE} active jobs or more",
        "seed": SEED,
        "hours": hours,
        "knobs": {**KNOBS, "solve_s": Chronus().knob_values["solve_s"]},
        "budget_cpu_s": BUDGET_S,
        "python": platform.python_version(),
        "machine": platform.processor() or platform.machine(),
        "cases": found,
    }
    RESULT.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
