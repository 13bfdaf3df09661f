"""CHRONUS' public inputs and what the peer's own simulator made of them: the judged windows.

The inputs count minutes. The peer decides every 5 minutes; each start of a job, the first as those
after a suspension, costs it 0.5 min without progress and a suspension nothing: of its 28,369 jobs
of one GPU on MIX1 each ended at submission + waiting + duration + 0.5 min × starts, to the half
minute. Its jobs over several GPUs are slower where they are spread; ours are never spread. A
deadline counts from the submission and is missed where the job ends after it; a refused job that
ends in time all the same has met it (`missed`).
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import Floats, SimJobs
from gsched.sim.rules import Costs, SimRules
from support.shared import SHARED
from support.sim_jobs import sim_jobs

MINUTE_S = 60.0
ROUND_S = 300.0
NODES, GPUS_A_NODE = 120, 8
RULES = SimRules(costs=Costs(launch_s=30.0), round_s=ROUND_S, sample_s=3600.0)
"""The peer's accounting."""


@dataclass(frozen=True, slots=True)
class Window:
    """Jobs of `trace` submitted in [first, last] minutes; `peers` are files of answers by name."""

    trace: str
    first: int
    last: int
    peers: Mapping[str, str]


WINDOWS = {
    "MIX1s": Window(
        "MIX1", 0, 1440, {"heuristic": "MIX1s_noMILP", "MILP (CBC)": "MIX1s_CBC"}
    ),
    "MIX1w": Window("MIX1", 10_080, 14_399, {"heuristic": "MIX1w", "MILP (CBC)": "cbc_MIX1w"}),
    "MIX1": Window("MIX1", 0, 10**9, {"heuristic": "MIX1_noMILP"}),
    "SLO": Window("SLO", 0, 10**9, {"heuristic": "SLO_noMILP"}),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Answer:
    """Of one run of the peer. `refused`: its admission put them behind (priority 1) or gave them up
    (−1).
    """

    jobs: int
    targets: int
    missed: int
    refused: int
    refused_and_met: int
    jct_min: float
    target_jct_min: float
    best_effort_jct_min: float | None


def jobs_of(window: Window) -> SimJobs:
    """The window's jobs with GPUs, whose clock begins with the first minute, as the peer's."""
    rows = [
        row
        for row in _rows("chronus/trace_job_Philly_" + window.trace)
        if int(row["num_gpu"]) > 0 and window.first <= int(row["submit_time"]) <= window.last
    ]
    rows.sort(key=lambda row: int(row["submit_time"]))  # stable: as in the file
    submit_min = np.array([float(row["submit_time"]) for row in rows])
    submit_min -= window.first - 1 if window.first else 0
    deadline_min = submit_min + [_deadline_min(row) for row in rows]
    users = tuple(sorted({row["user"] for row in rows}))
    codes = [users.index(row["user"]) for row in rows]
    jobs = sim_jobs(
        (submit_min * MINUTE_S).tolist(),
        [float(row["duration"]) * MINUTE_S for row in rows],
        origin=0,
        num_gpus=[int(row["num_gpu"]) for row in rows],
        deadline_s=deadline_min * MINUTE_S,
        tenant=codes,
        user=codes,
    )
    ids = [row["job_id"] for row in rows]
    return replace(jobs, ids=ids, tenants=users, users=users)


def cluster() -> SimCluster:
    """120 nodes of 8 GPUs that all share."""
    return SimCluster.uniform({"all": NODES}, GPUS_A_NODE)


@cache
def answer(name: str) -> Answer:
    """The peer's figures, reckoned from its answer job by job."""
    rows = _rows(f"validation/chronus_{name}_perjob")
    is_target = np.array([row["best_effort"] == "0" for row in rows])
    jct = np.array([float(row["jct"]) for row in rows])
    late = np.array(
        [jct_ > float(row["gt_expect_time"]) for jct_, row in zip(jct, rows, strict=True)]
    )
    refused = is_target & np.array([row["queue_priority"] != "0" for row in rows])
    others = jct[~is_target]
    return Answer(
        jobs=len(rows),
        targets=int(is_target.sum()),
        missed=int((late & is_target).sum()),
        refused=int(refused.sum()),
        refused_and_met=int((refused & ~late).sum()),
        jct_min=float(jct.mean()),
        target_jct_min=float(jct[is_target].mean()),
        best_effort_jct_min=float(others.mean()) if len(others) else None,
    )


def _deadline_min(row: Mapping[str, str]) -> float:
    return float(row["expect_time_list"]) if row["best_effort"] == "0" else np.nan


def _rows(name: str) -> list[dict[str, str]]:
    with gzip.open(SHARED / "traces" / f"{name}.csv.gz", "rt", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def missed(jobs: SimJobs, end_s: Floats) -> np.ndarray:
    """Targets that ended after their deadline, or never."""
    has_one = ~np.isnan(jobs.deadline_s)
    met: np.ndarray = end_s <= jobs.deadline_s
    return has_one & ~met
