"""Deadlines on a real Slurm with real trainings: results/deadlines_live.json.

    python tests/bench/bench_deadlines_live.py [--seeds 1 2 …] [--out FILE]

The same seeded arrivals, side by side, on three private clusters of four GPUs that train on CPU: a
backlog of best effort, then trainings with deadlines. `plain`: sbatch, Slurm's backfill and fair
share as the testbed ships them. `chronus`: gsched submit --gs-deadline --gs-checkpoint --gs-wait,
and gsched daemon run --act. `without`: the same daemon, and nobody says a deadline: what the order
of best effort does by itself. On the second also: a deadline that is impossible, and the time that
is offered in its place; a training that overruns what the site knows of it; SIGKILL to the daemon
and a new start of slurmctld while promises stand; and in the end the loss of half of the GPUs.
Where the GPU-seconds went is told for the same time of each, of best effort and of those with
deadlines. Leases last two hand-overs, so that all of it takes minutes. About six minutes a seed;
other seeds' figures are kept. ``trial_deadlines_live.py`` is a small trial of the same.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.deadline_site import DeadlineSite, Outcome, Wish, deadline_site
from support.deadline_trials import (
    KNOBS,
    arrive,
    backlog,
    earliest,
    extras,
    fill,
    lose_nodes,
    missing_steps,
    targets,
    with_targets,
)
from support.deadline_use import BEST, TARGETS, use_of

from gsched.testbed.wait import wait_for

RESULT = Path(__file__).parents[1] / "results" / "deadlines_live.json"
NODES, GPUS_EACH, HAND_OVERS = 2, 2, 2
NUM_BEST, NUM_TARGETS = 28, 6
BEST_RUN_S, TARGET_RUN_S = (25.0, 35.0), (25.0, 40.0)
WITHIN_S, SLACK = 40.0, (2.2, 3.0)
COUNTED_S = 150.0
"""What the GPUs did is compared within so many seconds after the first target."""

WHAT = (
    "real Slurm, real trainings on CPU, two shared cores; 2 nodes x 2 GPUs; leases of two"
    " hand-overs (a site's are of twenty); soft deadlines at 1, 1.1, 1.2, 1.5 times the first are"
    " synthesised;"
    " kept = completed by the last deadline, by slurmdbd"
)


def workload(seed: int) -> tuple[list[Wish], list[Wish]]:
    """Best effort, and those with deadlines."""
    best = backlog(seed, NUM_BEST, BEST_RUN_S)
    return best, targets(seed, NUM_TARGETS, TARGET_RUN_S, WITHIN_S, SLACK)


def plain(seed: int) -> dict[str, Any]:
    """Slurm alone."""
    best, wishes = workload(seed)
    with deadline_site(NODES, GPUS_EACH) as site:
        fill(site, best, asks=False)
        began = time.time()
        arrive(site, wishes, asks=False)
        return arm(site, site.wait_for_targets(beyond_s=60.0, limit_s=400.0), began)


def without(seed: int) -> dict[str, Any]:
    """The daemon by chronus; all jobs save and give way, none says its deadline."""
    best, wishes = workload(seed)
    with deadline_site(NODES, GPUS_EACH) as site:
        begin(site, [*best, *wishes])
        fill(site, best)
        began = time.time()
        arrive(site, wishes, tells=False)
        return arm(site, site.wait_for_targets(beyond_s=60.0, limit_s=400.0), began)


def chronus(seed: int) -> dict[str, Any]:
    """With deadlines, and all that is done to them."""
    best, wishes = workload(seed)
    with deadline_site(NODES, GPUS_EACH) as site:
        begin(site, [*best, *wishes, *extras()])
        fill(site, best)
        began = time.time()
        course = with_targets(site, wishes)
        names = [wish.name for wish in wishes]
        found = arm(site, {name: course.outcomes[name] for name in names}, began)
        moments = {moment: set(told) for moment, told in course.promised.items()}
        stands = all(
            told == {name: course.promised["before"][name] for name in told}
            for told in course.promised.values()
        )
        offered, over = course.outcomes["offered"], course.outcomes["overrun"]
        found |= {
            "impossible": {
                "exit code": course.impossible.code,
                "deadline after s": round(course.impossible.deadlines[-1] - course.impossible.at),
                "why": course.refusal["reason"]["code"],
                "offered after s": round(earliest(course.refusal) - course.impossible.at),
                "submitted again for the offered time": offered.row(),
            },
            "promises after kills": {
                "standing": {moment: len(told) for moment, told in moments.items()},
                "all as before": stands,
                "counted": dict(site.counted),
            },
            "overrun": {**over.row(), "warned": site.warnings("overrun")},
            "warned, of the others": {
                name: told for name in [*names, "offered"] if (told := site.warnings(name))
            },
        }
        loss = lose_nodes(site)
        found["nodes lost"] = {
            **loss.outcome.row(),
            "probability before, without nodes, with one again": [
                target.get("probability") for target in (loss.before, loss.lost, loss.again)
            ],
            "warned": site.warnings("struck"),
            "starts": len(site.starts("struck")),
        }
        found["steps left out"] = missing_steps(site)
        return found


def begin(site: DeadlineSite, wishes: Sequence[Wish]) -> None:
    """The daemon, and what it knows of run times."""
    site.know(wishes)
    site.lease_by("chronus", **KNOBS)
    site.begin(hand_overs=HAND_OVERS)


def arm(site: DeadlineSite, outcomes: Mapping[str, Outcome], began: float) -> dict[str, Any]:
    """What became of the trainings with deadlines, and what the GPUs did meanwhile."""
    wait_for(lambda: time.time() > began + COUNTED_S, "the time that is counted", COUNTED_S)
    answered = [outcome.handed.answered_s for outcome in outcomes.values()]
    admitted = [o for o in outcomes.values() if o.handed.code == 0]
    return {
        "deadlines": len(outcomes),
        "admitted": len(admitted),
        "kept": sum(outcome.kept for outcome in outcomes.values()),
        "admitted and kept": sum(outcome.kept for outcome in admitted),
        "longest answer s": round(max(answered), 1),
        f"within {COUNTED_S:g} s": use_of(site, began, COUNTED_S),
        "trainings": [outcome.row() for outcome in outcomes.values()],
    }


ARMS: dict[str, Callable[[int], dict[str, Any]]] = {
    "plain": plain,
    "chronus": chronus,
    "without": without,
}


def main() -> None:
    """Run the seeds one after the other, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    known: dict[str, Any] = {"what": WHAT, "knobs": KNOBS, "seeds": before.get("seeds", {})}
    for seed in options.seeds:
        began, load = time.time(), os.getloadavg()[1]
        with ThreadPoolExecutor(len(ARMS)) as side_by_side:
            running = {name: side_by_side.submit(run, seed) for name, run in ARMS.items()}
            found = {name: each.result() for name, each in running.items()}
        found["commit"] = commit()
        found["took s"] = round(time.time() - began)
        found["load of the machine before and after"] = [load, os.getloadavg()[1]]
        known["seeds"][str(seed)] = found
        known["all seeds"] = summary(known["seeds"].values())
        options.out.write_text(json.dumps(known, indent=1) + "\n")
        print(json.dumps({str(seed): found}, indent=1), flush=True)


def summary(seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of all seeds together."""
    seeds = list(seeds)
    total: dict[str, dict[str, int]] = {
        name: {key: sum(s[name][key] for s in seeds) for key in ("deadlines", "kept")}
        for name in ARMS
    }
    for name in ARMS:
        within = [s[name][f"within {COUNTED_S:g} s"] for s in seeds]
        total[name]["steps of best effort"] = sum(each[BEST]["steps"] for each in within)
        total[name]["steps of all"] = sum(
            each[kind]["steps"] for each in within for kind in (BEST, TARGETS)
        )
        total[name]["GPU-seconds idle"] = sum(each["GPU-seconds idle"] for each in within)
    total["chronus"]["admitted"] = sum(s["chronus"]["admitted"] for s in seeds)
    total["chronus"]["admitted and kept"] = sum(s["chronus"]["admitted and kept"] for s in seeds)
    return total


def commit() -> str:
    """Of the tree that was measured."""
    words = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


if __name__ == "__main__":
    main()
