"""One stream of jobs on several private Slurms side by side, whose nodes sleep by different rules.

Each job is an srun that writes down when its own first line runs: a batch job on a woken node
would wait for Slurm's tick of 30 s, which is hours on a compressed day.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gsched.model.hostlist import expand
from gsched.testbed.wait import wait_for
from support.compressed_day import CompressedClock, DayJob
from support.power_site import PowerSite

NOTICED_S = 0.5
"""A job is delayed when it begins so many real seconds later than where no node sleeps."""


@dataclass
class NodeArm:
    """One private Slurm and the jobs that were submitted to it."""

    name: str
    site: PowerSite
    jobs: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    submitted: dict[int, float] = field(default_factory=dict)

    def output(self, number: int) -> Path:
        return self.site.folder / f"job{number}"

    def submit(self, job: DayJob, run_s: float) -> None:
        words = [
            *("srun", "--quiet", "--input=none", "--exclusive", "-J", f"job{job.number}"),
            *(f"-N{job.nodes}", f"-n{job.nodes}"),
            *("sh", "-c", f"date +%s.%N; exec sleep {run_s:.2f}"),
        ]
        self.submitted[job.number] = time.time()
        with self.output(job.number).open("wb") as out, suppress(OSError):
            self.jobs[job.number] = subprocess.Popen(
                words, env=self.site.bed.env(), stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def began(self, job: DayJob) -> float | None:
        """When its first line ran on the last of its nodes (epoch); None: not yet on all."""
        lines = self.output(job.number).read_text().split()
        return max(map(float, lines)) if len(lines) == job.nodes else None

    def failed(self) -> list[int]:
        """Jobs that have ended with an error."""
        return [number for number, process in self.jobs.items() if process.poll()]

    def end_jobs(self) -> None:
        """End the sruns that still run, and with them their jobs."""
        for process in self.jobs.values():
            if process.poll() is None:
                process.terminate()
        for process in self.jobs.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)

    # -- what Slurm has asked of the power programs -------------------------------------------

    def power_calls(self) -> list[tuple[float, str, list[str]]]:
        """Time, `suspend` or `resume`, and nodes of each call of Slurm's."""
        path = self.site.folder / "programs"
        lines = path.read_text().splitlines() if path.exists() else []
        calls = [line.split() for line in lines]
        verbs = {"gsched-suspend": "suspend", "gsched-resume": "resume"}
        return [(float(at), verbs[p], expand(nodes)) for at, p, nodes in calls if p in verbs]

    def asleep_s(self, since: float, until: float) -> float:
        """Real node-seconds from a node's suspend call to its resume call, within this time."""
        off: dict[str, float] = {}
        total = 0.0
        for at, verb, nodes in self.power_calls():
            for node in nodes:
                if verb == "suspend":
                    off.setdefault(node, at)
                elif node in off:
                    total += _overlap(off.pop(node), at, since, until)
        return total + sum(_overlap(began, until, since, until) for began in off.values())

    def wakes(self, since: float, until: float) -> tuple[int, int]:
        """Nodes that were woken within this time, and at how many moments."""
        woken = [
            n for at, verb, n in self.power_calls() if verb == "resume" and since <= at < until
        ]
        return sum(map(len, woken)), len(woken)


def _overlap(began: float, ended: float, since: float, until: float) -> float:
    return max(0.0, min(ended, until) - max(began, since))


def play(arms: Sequence[NodeArm], jobs: Iterable[DayJob], clock: CompressedClock) -> None:
    """Submit each job to all arms at its time; they take turns in being the first."""
    for turn, job in enumerate(jobs):
        time.sleep(max(0.0, clock.real(job.submit) - time.time()))
        for place in range(len(arms)):
            arms[(turn + place) % len(arms)].submit(job, job.duration_s / clock.scale)


def all_begin(arms: Sequence[NodeArm], jobs: Sequence[DayJob], timeout_s: float) -> None:
    """Wait until every job has begun everywhere. Raises UnavailableError where one does not."""
    for arm in arms:
        for job in jobs:
            wait_for(
                lambda a=arm, j=job: a.began(j),
                f"{job} to begin ({arm.name})",
                timeout_s,
                poll_s=0.2,
            )


def figures(
    arm: NodeArm,
    awake: NodeArm,
    jobs: Sequence[DayJob],
    clock: CompressedClock,
    since: int,
    until: int,
) -> dict[str, Any]:
    """What sleeping saved and cost between two virtual times; delays against the arm `awake`.

    Hours and minutes are virtual.
    """
    window = (clock.real(since), clock.real(until))
    delays = delays_s(arm, awake, [job for job in jobs if since <= job.submit < until])
    noticed = [each for each in delays.values() if each > NOTICED_S]
    woken, moments = arm.wakes(*window)
    total_h = arm.site.bed.spec.num_nodes * (until - since) / 3600
    asleep_h = arm.asleep_s(*window) * clock.scale / 3600

    def minutes(seconds: float) -> float:
        return round(seconds * clock.scale / 60, 2)

    ordered = sorted(delays.values())
    return {
        "node-hours asleep": round(asleep_h, 1),
        "share of all node-hours": round(asleep_h / total_h, 4),
        "nodes woken": woken,
        "moments of waking": moments,
        "jobs": len(delays),
        "jobs delayed": len(noticed),
        "delay of all jobs together min": minutes(sum(noticed)),
        "delay of the delayed median min": minutes(statistics.median(noticed)) if noticed else 0.0,
        "delay of all p99 min": minutes(ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]),
        "delay max min": minutes(ordered[-1]),
    }


def delays_s(arm: NodeArm, awake: NodeArm, jobs: Sequence[DayJob]) -> Mapping[int, float]:
    """By how many real seconds each job waited longer than on nodes that never sleep."""
    waits = []
    for each in (arm, awake):
        began = {job.number: each.began(job) for job in jobs}
        waits.append({n: at - each.submitted[n] for n, at in began.items() if at is not None})
    return {
        number: waits[0][number] - waits[1][number] for number in waits[0].keys() & waits[1].keys()
    }
