"""CHRONUS on its authors' own traces, beside what their simulator made of them (PEERS.md).

Writes tests/results/chronus.json, a section at a time. All policies run on one simulator by the
peer's accounting (``support.chronus_windows``), which is told the true run times, as the peer is.
"missed" counts jobs with a deadline that ended after it, as the peer does; "missed or refused"
counts whoever was refused, too, though it ended in time.

The rule of admission and the order of those without a promise were chosen on other windows
(`DEVELOPMENT`: Philly and ITP, deadlines drawn), never on the judged ones.

    python tests/bench/bench_chronus.py [SECTION ...]      # nothing: all that follow in `SECTIONS`
"""

from __future__ import annotations

import csv
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from support.chronus_told import errors_of, heartbeats, with_soft_deadlines
from support.chronus_windows import RULES, WINDOWS, answer, cluster, jobs_of, missed
from support.shared import SHARED
from support.sim_jobs import sim_jobs
from support.tenant_traces import Whole, itp, philly

from gsched.engine.round import WithProgress, untold
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Refuse
from gsched.model.targets import steps_of
from gsched.policy.chronus import Chronus
from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.replay import run_rounds
from gsched.sim.result import ADMITTED, REFUSED, SimResult
from gsched.sim.rules import SimRules
from gsched.sim.run import simulate
from gsched.sim.table import Records

RESULT = Path(__file__).parents[1] / "results" / "chronus.json"
START_S = RULES.costs.launch_s
KNOBS = {"lease_s": 1200.0, "spot_lease_s": 300.0, "resume_s": START_S, "profile_s": 0.0}
"""Leases as in the paper; the cost of a start as simulated; every run time is told, so there is
nobody to profile."""

BASELINES = ("edf", "srtf", "tiresias")
SIGMAS = (0.4, 0.3, 0.2, 0.1)
SEED = 12
DEVELOPMENT = {
    "philly from day 85, 7 days, load 1.6": (philly, 85, 7, 1.6),
    "itp from day 50, 10 days, load 1.5": (itp, 50, 10, 1.5),
}


class Timed(Chronus):
    """Notes how long it takes and why it refuses."""

    def __init__(self, **knobs: float) -> None:
        super().__init__(**knobs)
        self.decide_s: list[float] = []
        self.refusals: dict[str, str] = {}
        self.ways: Counter[str] = Counter()

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """As the policy does."""
        began = time.process_time()
        decision = super().decide(state, memory, now)
        self.decide_s.append(time.process_time() - began)
        for action in decision.actions:
            if isinstance(action, Refuse) and action.key in decision.reasons:
                self.refusals[action.key.slurm_id] = decision.reasons[action.key].code
        last = decision.memory.get("last")
        if isinstance(last, Mapping):
            self.ways[str(last.get("way"))] += 1
        return decision


def figures(jobs: SimJobs, result: SimResult, judged: SimJobs | None = None) -> dict[str, Any]:
    """Of one simulation; `judged` has the deadlines where `jobs` do not."""
    asked = judged or jobs
    late, is_target = missed(asked, result.end_s), ~np.isnan(asked.deadline_s)
    jct_min = (result.end_s - jobs.submit_s) / 60
    found: dict[str, Any] = {
        "targets": int(is_target.sum()),
        "missed": int(late.sum()),
        "miss_percent": _percent(late.sum(), is_target.sum()),
        "best_effort_jct_min": _mean(jct_min[~is_target]),
        "target_jct_min": _mean(jct_min[is_target]),
        "jct_min": _mean(jct_min),
        "preemptions_a_job": round(float(result.preemptions.mean()), 3),
        "last_end_min": float(np.nanmax(result.end_s) / 60),
    }
    if result.answers is not None:
        admitted, refused = result.answers == ADMITTED, result.answers == REFUSED
        found |= {
            "admitted": int(admitted.sum()),
            "admitted_and_missed": int((admitted & late).sum()),
            "admitted_and_kept_percent": _percent((admitted & ~late).sum(), admitted.sum()),
            "refused": int(refused.sum()),
            "refused_and_met": int((refused & ~late).sum()),
            "missed_or_refused_percent": _percent(
                is_target.sum() - (admitted & ~late).sum(), is_target.sum()
            ),
        }
    return found


def _percent(part: float, whole: float) -> float | None:
    return round(100 * float(part) / float(whole), 3) if whole else None


def _mean(values: np.ndarray) -> float | None:
    return round(float(values.mean()), 2) if len(values) else None


def chronus(
    jobs: SimJobs,
    on: SimCluster,
    rules: SimRules = RULES,
    judged: SimJobs | None = None,
    progress: WithProgress = untold,
    **knobs: float,
) -> dict[str, Any]:
    """The policy's figures on jobs of which it is told what `predicted_duration_s` says."""
    policy, began = Timed(**(KNOBS | knobs)), time.process_time()
    result = run_rounds(jobs, on, policy, rules, progress=progress)
    told = np.array(policy.decide_s)
    late = [str(row + 1) for row in np.flatnonzero(missed(judged or jobs, result.end_s))]
    return figures(jobs, result, judged) | {
        "refused_for": dict(Counter(policy.refusals.values())),
        "missed_for": dict(Counter(policy.refusals.get(job, "no refusal") for job in late)),
        "ways": dict(policy.ways),
        "rounds": len(told),
        "decide_s": {
            "p50": round(float(np.median(told)), 4),
            "p99": round(float(np.quantile(told, 0.99)), 4),
            "max": round(float(told.max()), 4),
        },
        "cpu_s": round(time.process_time() - began, 1),
    }


def told_all(jobs: SimJobs) -> SimJobs:
    """With run times as a history has them: the first start is part of them."""
    return replace(jobs, predicted_duration_s=jobs.duration_s + START_S)


def baseline(jobs: SimJobs, on: SimCluster, name: str, rules: SimRules = RULES) -> dict[str, Any]:
    """Another policy on the same."""
    return figures(jobs, simulate(jobs, on, load(name), rules))


def window(name: str) -> dict[str, Any]:
    """One judged window."""
    jobs = jobs_of(WINDOWS[name])
    peers = {peer: asdict(answer(file)) for peer, file in WINDOWS[name].peers.items()}
    found = {
        "jobs": len(jobs),
        "peer": peers,
        "policies": {other: baseline(jobs, cluster(), other) for other in BASELINES}
        | {"chronus": chronus(told_all(jobs), cluster())},
    }
    ours = found["policies"]["chronus"]
    least = min(peer["missed"] for peer in peers.values())
    others = [p["best_effort_jct_min"] for p in peers.values() if p["best_effort_jct_min"]]
    found["targets"] = {
        "misses below the peer's rows": ours["missed"] < least,
        "best-effort JCT no worse": not others or ours["best_effort_jct_min"] <= min(others),
    }
    return found


def controls() -> dict[str, Any]:
    """What the gain hangs on, in the three busy days: deadlines that nobody knows, and one part of
    the method less each.
    """
    jobs = told_all(jobs_of(WINDOWS["MIX1w"]))
    blind = replace(jobs, deadline_s=np.full(len(jobs), np.nan))
    return {
        "no deadline is known": chronus(blind, cluster(), judged=jobs),
        "whatever is feasible is promised (room 0)": chronus(jobs, cluster(), room=0.0),
    }


def soft() -> dict[str, Any]:
    """Soft deadlines, synthesised: half of the targets of the three busy days, by lot, has D,
    1.1 D, 1.2 D and 1.5 D at 100, 80, 50 and 20, as in the paper. Rewards are of all targets (1:
    too late).
    """
    strict = told_all(jobs_of(WINDOWS["MIX1w"]))
    jobs = with_soft_deadlines(strict, SEED)
    records = Records(jobs, cluster(), oracle=False)
    steps = {row: steps_of(records[row].wants) for row in np.flatnonzero(jobs.deadline_s > 0)}

    def reward(result: SimResult) -> float:
        own = [s.reward(result.end_s[row] + jobs.origin) for row, s in steps.items() if s]
        return round(float(np.mean(own)), 3)

    found: dict[str, Any] = {"soft": len(jobs.soft_deadlines), "mean_reward": {}}
    for name in BASELINES:
        found["mean_reward"][name] = reward(simulate(jobs, cluster(), load(name), RULES))
    policy = Chronus(**KNOBS)
    result = run_rounds(jobs, cluster(), policy, RULES)
    found["mean_reward"]["chronus"] = reward(result)
    found["chronus"] = figures(jobs, result)
    return found


def errors(name: str, sigmas: Sequence[float]) -> dict[str, Any]:
    """Run times that are told wrong: the true ones times a normal number of mean 1 (0.1 at least).

    With heartbeats, running jobs tell how much is left and how fast it goes. The policy is told
    how wrong predictions are (`relative_error`) and promises at its quantile.
    """
    found: dict[str, Any] = {}
    jobs = jobs_of(WINDOWS[name])
    for sigma in sigmas:
        told = replace(jobs, predicted_duration_s=errors_of(jobs, sigma, SEED) + START_S)
        for way, progress in (("", untold), (", heartbeats", heartbeats(jobs, START_S))):
            key = f"sigma {sigma}{way}"
            found[key] = chronus(told, cluster(), progress=progress, relative_error=sigma)
            print(name, key, json.dumps(found[key]), flush=True)
    return found


def elasticflow() -> dict[str, Any]:
    """ElasticFlow's 195 jobs on 16 × 4 GPUs. ElasticFlow makes jobs wider and narrower; here they
    keep the GPUs that the trace tells, with which some deadlines cannot be met at all.
    """
    path = SHARED / "traces" / "elasticflow" / "elasticVpollux_e.csv"
    with path.open(encoding="utf-8") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: float(row["submit_time"]))
    first = float(rows[0]["submit_time"])
    jobs = sim_jobs(
        [float(row["submit_time"]) - first for row in rows],
        [float(row["duration"]) for row in rows],
        origin=0,
        num_gpus=[int(row["num_gpu"]) for row in rows],
        deadline_s=[float(row["ddl"]) - first for row in rows],
    )
    on, rules = SimCluster.uniform({"all": 16}, 4), SimRules(sample_s=3600.0)
    possible = jobs.submit_s + jobs.duration_s <= jobs.deadline_s
    told = replace(jobs, predicted_duration_s=jobs.duration_s)
    knobs = {"resume_s": 0.0, "margin_s": 0.0, "spot_lease_s": 60.0, "lease_s": 60.0}
    found = {name: baseline(jobs, on, name, rules) for name in BASELINES}
    found["chronus"] = chronus(told, on, rules, **knobs)
    for each in found.values():
        met = each["targets"] - each["missed"]
        each["met_of_all_percent"] = _percent(met, len(jobs))
        each["met_of_possible_percent"] = _percent(met, int(possible.sum()))
    return {
        "jobs": len(jobs),
        "possible_with_the_gpus_told": int(possible.sum()),
        "peer_met_of_all_percent": {
            "edf": 11.8, "gandiva": 9.2, "tiresias": 28.7, "elasticflow, 145 admitted": 72.8
        },
        "policies": found,
    }  # fmt: skip


def development() -> dict[str, Any]:
    """Where the rules were chosen; see `drawn`."""
    found: dict[str, Any] = {}
    for name, (trace, first_day, days, load_wanted) in DEVELOPMENT.items():
        jobs, on = drawn(trace(), first_day, days, load_wanted)
        found[name] = {
            "jobs": len(jobs),
            "gpus": on.num_gpus,
            "srtf": baseline(jobs, on, "srtf"),
            "chronus": chronus(told_all(jobs), on),
        }
    return found


def drawn(trace: Whole, first_day: float, days: float, load: float) -> tuple[SimJobs, SimCluster]:
    """Seven of ten jobs have a deadline: U[1.2, 2] times the run time and 5 to 60 min after it."""
    minute = (trace.submit_s - trace.submit_s.min()) / 60
    inside = (minute >= first_day * 1440) & (minute < (first_day + days) * 1440)
    inside &= (trace.num_gpus > 0) & (trace.duration_s > 0)
    submit = np.floor(minute[inside] - first_day * 1440)
    run, gpus = np.ceil(trace.duration_s[inside] / 60), trace.num_gpus[inside]
    for _ in range(2):
        nodes = int(np.ceil((run * gpus).sum() / (days * 1440 * load) / 8))
        fits = gpus <= nodes * 2
        submit, run, gpus = submit[fits], run[fits], gpus[fits]
    draw = np.random.default_rng(1)
    has_one = draw.random(len(run)) > 0.3
    due = submit + run * draw.uniform(1.2, 2, len(run)) + np.floor(draw.uniform(5, 60, len(run)))
    order = np.argsort(submit, kind="stable")
    jobs = sim_jobs(
        (submit[order] * 60).tolist(),
        (run[order] * 60).tolist(),
        origin=0,
        num_gpus=gpus[order],
        deadline_s=np.where(has_one, due * 60, np.nan)[order],
    )
    return jobs, SimCluster.uniform({"all": nodes}, 8)


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "MIX1s": lambda: window("MIX1s"),
    "MIX1w": lambda: window("MIX1w"),
    "elasticflow": elasticflow,
    "soft": soft,
    "controls": controls,
    "errors, MIX1s": lambda: errors("MIX1s", SIGMAS),
    "errors, MIX1w": lambda: errors("MIX1w", SIGMAS[:1]),
    "development": development,
    "MIX1": lambda: window("MIX1"),
    "SLO": lambda: window("SLO"),
}


def main() -> None:
    """Measure, print and record; other sections of the file stay."""
    for name in sys.argv[1:] or SECTIONS:
        found = SECTIONS[name]()
        print(name, json.dumps(found, indent=1), flush=True)
        document = json.loads(RESULT.read_text()) if RESULT.exists() else {}
        document["what"] = "deadlines missed and JCT in minutes, by the peer's accounting"
        document["knobs"] = KNOBS
        document[name] = found
        RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
