"""One workload on several testbeds at the same time, and how long its jobs waited.

Every arm gets the same jobs in the same order while its nodes are full; then all gates open within
a moment, so that the arms differ in nothing but who orders the queue.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from gsched.errors import UnavailableError
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for
from gsched.testbed.workload import Script, Submission, write_blocker, write_scripts


@dataclass(frozen=True, slots=True)
class JobResult:
    """One job of the queue: when it started after the gate opened, and how it ended."""

    submission: Submission
    job_id: int
    wait_s: float
    state: str


@dataclass
class Arm:
    """One testbed and what has been submitted to it. `command` submits (sbatch's output)."""

    name: str
    bed: Testbed
    command: tuple[str, ...] = ("sbatch",)
    job_ids: list[int] = field(default_factory=list)
    opened_at: float = 0.0

    @property
    def _gate(self) -> Path:
        return self.bed.spec.root / "work" / "gate"

    def submit(self, submissions: Sequence[Submission]) -> list[int]:
        """Submit as the scripts' users, one after the other; returns the job ids."""
        paths = self._scripts([s.script for s in submissions])
        ids = []
        for submission in submissions:
            argv = [*self.command, *submission.sbatch_options(), str(paths[submission.script])]
            ids.append(_job_id(self.bed.run_as(submission.script.user, argv)))
        return ids

    def _scripts(self, scripts: Sequence[Script]) -> dict[Script, Path]:
        return write_scripts(list(dict.fromkeys(scripts)), self.bed.spec.root / "work")

    def fill(self) -> None:
        """Occupy every GPU until the gate opens."""
        spec = self.bed.spec
        folder = spec.root / "work"
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        script = write_blocker(folder, self._gate)
        for _ in range(spec.num_nodes):
            options = [f"--gres=gpu:{spec.gpus_per_node}", "-o", "/dev/null"]
            self.bed.run(["sbatch", *options, str(script)])
        wait_for(lambda: self._count("R") == spec.num_nodes, f"the nodes of {self.name} to be full")

    def _count(self, states: str) -> int:
        return len(self.bed.run(["squeue", "-h", "-t", states, "-o", "%A"]).stdout.split())

    def waiting(self) -> int:
        """How many jobs wait now."""
        return self._count("PD")

    def open_gate(self) -> None:
        """Let the nodes go."""
        self.opened_at = time.time()
        self._gate.touch()

    def is_done(self) -> bool:
        """Whether nothing waits or runs any more."""
        return self._count("PD,R,CG") == 0

    def results(self, submissions: Sequence[Submission]) -> list[JobResult]:
        """How each job of the queue fared. Raises UnavailableError when one is missing."""
        shown = self.bed.run(
            ["squeue", "-h", "-t", "all", "-o", "%A %S %T"], extra_env={"SLURM_TIME_FORMAT": "%s"}
        )
        seen = {int(p[0]): (p[1], p[2]) for p in map(str.split, shown.stdout.splitlines())}
        results = []
        for submission, job_id in zip(submissions, self.job_ids, strict=True):
            if job_id not in seen:
                raise UnavailableError(f"job {job_id} is gone from {self.name}")
            start, state = seen[job_id]
            wait_s = float(start) - self.opened_at if start.isdigit() else float("nan")
            results.append(JobResult(submission, job_id, max(0.0, wait_s), state))
        return results


def _job_id(answer: subprocess.CompletedProcess[str]) -> int:
    words = answer.stdout.split()
    if answer.returncode != 0 or words[:3] != ["Submitted", "batch", "job"]:
        raise UnavailableError(f"{answer.args[-1]} was not submitted: {answer.stderr.strip()}")
    return int(words[3])


def queue_up(arms: Sequence[Arm], queue: Sequence[Submission]) -> None:
    """Fill every arm and submit `queue` to it, all arms side by side."""

    def one(arm: Arm) -> None:
        arm.fill()
        arm.job_ids = arm.submit(queue)

    with ThreadPoolExecutor(len(arms)) as side_by_side:
        list(side_by_side.map(one, arms))  # raises what any of them raised


@dataclass(frozen=True, slots=True)
class WaitFigures:
    """Waits in seconds over `num_jobs` jobs; `order_correlation` is Spearman's rank correlation
    of start order with true GPU-time.
    """

    num_jobs: int
    completed: int
    mean_s: float
    median_s: float
    p90_s: float
    order_correlation: float


def figures(results: Sequence[JobResult]) -> WaitFigures:
    """Summary of one arm."""
    waits = sorted(r.wait_s for r in results)
    return WaitFigures(
        num_jobs=len(results),
        completed=sum(1 for r in results if r.state == "COMPLETED"),
        mean_s=statistics.fmean(waits),
        median_s=statistics.median(waits),
        p90_s=waits[min(len(waits) - 1, int(0.9 * len(waits)))],
        order_correlation=_rank_correlation(results),
    )


def _rank_correlation(results: Sequence[JobResult]) -> float:
    from scipy.stats import spearmanr

    found = spearmanr([r.wait_s for r in results], [r.submission.gpu_time_s for r in results])
    return float(found.statistic)
