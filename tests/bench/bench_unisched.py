"""UniSched beside CHRONUS on the same inputs: misses, best effort, profiling, and the model's time.

Writes tests/results/unisched.json, a section at a time. The windows are the public ones of
``support.chronus_windows``, by the same accounting; both policies have the same knobs where they
share them. A miss counts what the job asked for: 100 for a strict deadline, and what is lost of a
soft one's reward (`weighted`). No knob was chosen on these windows: what is tuned is tuned on the
windows of development of ``bench_chronus``.

"profiling": no run time is told before a job has had its first short run of `profile_s`; then its
remainder is, as profile runs tell it. The wait is from the submission to the first start.

The margin is stated before: no window worse by more than MARGIN in weighted misses (percent of the
targets) or by more than MARGIN_JCT in the mean best-effort JCT.

    python tests/bench/bench_unisched.py [SECTION ...]
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

import bench_chronus
import bench_deadline_solver as solver_bench
import numpy as np
from support.chronus_told import with_soft_deadlines
from support.chronus_windows import RULES, WINDOWS, cluster, jobs_of

from gsched.engine.round import WithProgress, untold
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue
from gsched.model.job import JobView, Prediction, PredictionKind
from gsched.model.jobtable import JobTable
from gsched.model.targets import LATE_REWARD, steps_of
from gsched.policy.base import Policy
from gsched.policy.chronus import Chronus
from gsched.policy.unisched import UniSched
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.replay import run_rounds
from gsched.sim.result import SimResult
from gsched.sim.table import Records

RESULT = Path(__file__).parents[1] / "results" / "unisched.json"
MARGIN = 0.25
"""Percent of the targets."""

MARGIN_JCT = 0.02
"""Part of the best-effort JCT."""

KNOBS = bench_chronus.KNOBS
PROFILE_S = 300.0
POLICIES: dict[str, type[Chronus]] = {"chronus": Chronus, "unisched": UniSched}


def timed(base: type[Chronus]) -> type[Chronus]:
    """The policy, which notes how long it takes and how its choices were made."""

    class Timed(base):  # type: ignore[misc, valid-type]
        """See `timed`."""

        def __init__(self, **knobs: float) -> None:
            super().__init__(**knobs)
            self.decide_s: list[float] = []
            self.gaps: list[float] = []

        def decide(
            self, state: ClusterState, memory: Mapping[str, JsonValue], now: int
        ) -> Decision:
            """As the policy does."""
            began = time.process_time()
            decision = super().decide(state, memory, now)
            self.decide_s.append(time.process_time() - began)
            choice = decision.memory.get("choice")
            if isinstance(choice, Mapping):
                self.gaps.append(float(choice["gap"]))
            return decision

    return Timed


def weighted_misses(jobs: SimJobs, result: SimResult) -> float:
    """Percent of the reward that all targets ask for which was not earned."""
    records = Records(jobs, cluster(), oracle=False)
    asked = {row: steps_of(view.wants) for row, view in enumerate(records)}
    lost = [
        (100.0 - steps.reward(result.end_s[row] + jobs.origin)) / (100.0 - LATE_REWARD)
        for row, steps in asked.items()
        if steps is not None
    ]
    return round(100 * float(np.mean(lost)), 3) if lost else 0.0


def measured(
    name: str, jobs: SimJobs, on: SimCluster, progress: WithProgress = untold, **knobs: float
) -> dict[str, Any]:
    """One policy on one input."""
    policy = timed(POLICIES[name])(**(KNOBS | knobs))
    result = run_rounds(jobs, on, policy, RULES, progress=progress)
    wait_s = result.start_s - jobs.submit_s
    found = bench_chronus.figures(jobs, result) | {
        "weighted_miss_percent": weighted_misses(jobs, result),
        "wait_to_first_start_s": {
            "mean": round(float(wait_s.mean()), 1),
            "p99": round(float(np.quantile(wait_s, 0.99)), 1),
            "max": round(float(wait_s.max()), 1),
        },
        "decide_s": _times(policy.decide_s),
    }
    if isinstance(policy, UniSched):
        found["ways"] = dict(policy.ways)
        found["gap"] = {"p99": round(float(np.quantile(policy.gaps, 0.99)), 4)}
        found["gap"]["max"] = round(max(policy.gaps), 4)
    print(name, json.dumps(found), flush=True)
    return found


def _times(seconds: list[float]) -> dict[str, float]:
    own = np.array(seconds)
    return {
        "p50": round(float(np.median(own)), 4),
        "p99": round(float(np.quantile(own, 0.99)), 4),
        "max": round(float(own.max()), 4),
    }


def beside(jobs: SimJobs, progress: WithProgress = untold, **knobs: float) -> dict[str, Any]:
    """Both policies on one input, and whether the margin is kept."""
    found = {name: measured(name, jobs, cluster(), progress, **knobs) for name in POLICIES}
    ours, theirs = found["unisched"], found["chronus"]
    worse = ours["weighted_miss_percent"] - theirs["weighted_miss_percent"]
    jct, others = ours["best_effort_jct_min"], theirs["best_effort_jct_min"]
    return {
        "jobs": len(jobs),
        "policies": found,
        "weighted_misses_more_percent": round(worse, 3),
        "best_effort_jct_ratio": round(jct / others, 4) if others else None,
        "within_margin": worse <= MARGIN and (not others or jct <= others * (1 + MARGIN_JCT)),
    }


def window(name: str) -> dict[str, Any]:
    """All run times told."""
    return beside(bench_chronus.told_all(jobs_of(WINDOWS[name])))


def soft() -> dict[str, Any]:
    """Half of the targets have soft deadlines, synthesised as in ``bench_chronus``."""
    strict = bench_chronus.told_all(jobs_of(WINDOWS["MIX1w"]))
    return beside(with_soft_deadlines(strict, bench_chronus.SEED))


def profiling(name: str) -> dict[str, Any]:
    """No run time is told before the first short run is over."""
    jobs = jobs_of(WINDOWS[name])
    return beside(jobs, told_after_profile(jobs), profile_s=PROFILE_S)


def told_after_profile(jobs: SimJobs) -> WithProgress:
    """Whoever has held its GPUs for PROFILE_S tells how many seconds of its run are left, as a
    profile does: with a speed that is true to 5 %.
    """

    def told(state: ClusterState, _policy: Policy) -> ClusterState:
        views = [_profiled(jobs, view, state.as_of) for view in state.jobs.views]
        return replace(state, jobs=JobTable.from_views(views, state.jobs))

    return told


def _profiled(jobs: SimJobs, view: JobView, now: int) -> JobView:
    gpus = view.request.gpus.minimum
    held_s = (view.attained_gpu_s or 0.0) / gpus
    if held_s < PROFILE_S:
        return view
    starts = view.restarts + (view.allocation is not None)
    done_s = max(0.0, held_s - starts * bench_chronus.START_S)
    left_s = max(1.0, float(jobs.duration_s[view.key.job_id - 1]) - done_s)
    speeds = ((0.05, 0.95), (0.5, 1.0), (0.95, 1.05))
    found = (
        Prediction(PredictionKind.ITERATIONS, left_s, (), "profile", "profile", 0, now),
        Prediction(PredictionKind.SPEED, 1.0, speeds, "profile", "profile", 0, now),
    )
    return replace(view, predictions=found)


def solver() -> dict[str, Any]:
    """Decisions with 1,000 GPUs and 500 active jobs or more, as ``bench_deadline_solver``."""
    found: dict[str, Any] = {}
    for name, load in solver_bench.LOADS.items():
        policy = timed(UniSched)(**solver_bench.KNOBS)
        seen: list[tuple[int, str, float]] = []
        decide = policy.decide

        def watched(
            state: ClusterState,
            memory: Mapping[str, JsonValue],
            now: int,
            decide: Callable[..., Decision] = decide,
            seen: list[tuple[int, str, float]] = seen,
        ) -> Decision:
            decision = decide(state, memory, now)
            choice: Any = decision.memory["choice"]
            seen.append((len(state.jobs), choice["way"], choice["gap"]))
            return decision

        policy.decide = watched  # type: ignore[method-assign]
        on = SimCluster.uniform({"all": solver_bench.NODES}, solver_bench.GPUS_A_NODE)
        run_rounds(solver_bench.workload(load, SOLVER_HOURS), on, policy, solver_bench.RULES)
        busy = [n for n, (active, _, _) in enumerate(seen) if active >= solver_bench.ACTIVE]
        asked = [n for n in busy if seen[n][1] != "greedy"]
        found[name] = {
            "load": load,
            "rounds": len(busy),
            "cpu_s": _times([policy.decide_s[n] for n in busy]),
            "ways": dict(Counter(seen[n][1] for n in busy)),
            "gap": {
                "greedy, against GPUs cut into pieces": max(
                    (seen[n][2] for n in busy if seen[n][1] == "greedy"), default=0.0
                ),
                "of the model": max((seen[n][2] for n in asked), default=0.0),
            },
        }
        if asked:
            found[name]["cpu_s_where_asked"] = _times([policy.decide_s[n] for n in asked])
        print(name, json.dumps(found[name]), flush=True)
    return found


SOLVER_HOURS = 3.0
SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "MIX1s": lambda: window("MIX1s"),
    "MIX1w": lambda: window("MIX1w"),
    "profiling, MIX1s": lambda: profiling("MIX1s"),
    "solver": solver,
    "soft": soft,
    "profiling, MIX1w": lambda: profiling("MIX1w"),
}


def main() -> None:
    """Measure, print and record; other sections of the file stay."""
    for name in sys.argv[1:] or SECTIONS:
        found = SECTIONS[name]()
        document = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        document["what"] = "unisched beside chronus on the same inputs, by the peer's accounting"
        document["knobs"] = KNOBS | {
            spec.name: spec.default for spec in UniSched.knobs if spec.name not in KNOBS
        }
        document["margin"] = {"misses_percent": MARGIN, "best_effort_jct": MARGIN_JCT}
        document[name] = found
        RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
