"""Jobs that arrive over time on a testbed, and when each of them really started and ended.

For comparisons of a simulation with a real Slurm: the same jobs go into both.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gsched.errors import UnavailableError
from gsched.testbed.cluster import Testbed
from gsched.testbed.wait import wait_for
from gsched.testbed.workload import USERS

GPU_COUNTS = (1, 2, 4, 8)
GPU_SHARES = (0.45, 0.25, 0.2, 0.1)
"""As on public deep-learning clusters: most jobs are small, and all fit on one node."""

SCHEDULER_PARAMETERS = "batch_sched_delay=0,sched_interval=1,bf_interval=1,bf_resolution=1"
"""Scaled as the jobs are: Slurm's own steps of time would be hours beside real run times."""

_SECONDS_A_LIMIT = 60  # Slurm's time limits are whole minutes
_SPREAD_OF_PREDICTIONS = 0.3  # standard deviation of ln(predicted / true)
_SCRIPT = "#!/bin/bash\nexec sleep $1\n"


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job that is submitted `submit_s` seconds after the first and runs for `duration_s`."""

    submit_s: float
    name: str
    user: str
    account: str
    num_gpus: int
    duration_s: float
    predicted_s: float
    time_limit_s: int


@dataclass(frozen=True, slots=True)
class Played:
    """What became of an arrival: epoch seconds as Slurm tells them, whole."""

    submit_time: int
    start_time: int
    end_time: int


def make_arrivals(
    seed: int,
    num_jobs: int,
    num_gpus: int,
    *,
    shortest_s: float,
    longest_s: float,
    load: float = 1.2,
) -> list[Arrival]:
    """Jobs that ask for `load` times the GPU-seconds of `num_gpus` GPUs while they arrive.

    Durations are log-uniform between `shortest_s` and `longest_s`, arrivals uniform in time,
    predictions the durations with log-normal noise, time limits one to four times the duration.
    All depends on `seed` alone.
    """
    rng = random.Random(seed)  # noqa: S311  (a workload, not a secret)
    span = math.log(longest_s / shortest_s)
    durations = [round(shortest_s * math.exp(span * rng.random()), 1) for _ in range(num_jobs)]
    gpus = rng.choices(GPU_COUNTS, GPU_SHARES, k=num_jobs)
    wanted_gpu_s = sum(d * g for d, g in zip(durations, gpus, strict=True))
    until_s = wanted_gpu_s / (load * num_gpus)
    times = sorted(round(rng.uniform(0.0, until_s), 2) for _ in range(num_jobs))
    first_s = times[0]
    arrivals = []
    for number, (at_s, duration_s, count) in enumerate(zip(times, durations, gpus, strict=True)):
        user, account = USERS[number % len(USERS)]
        limit_s = duration_s * rng.uniform(1.0, 4.0)
        arrivals.append(
            Arrival(
                submit_s=round(at_s - first_s, 2),
                name=f"job{number:04}",
                user=user,
                account=account,
                num_gpus=count,
                duration_s=duration_s,
                predicted_s=round(duration_s * math.exp(rng.gauss(0, _SPREAD_OF_PREDICTIONS)), 1),
                time_limit_s=(math.ceil(limit_s / _SECONDS_A_LIMIT) + 1) * _SECONDS_A_LIMIT,
            )
        )
    return arrivals


def write_predictions(arrivals: Sequence[Arrival], path: Path) -> None:
    """The table from which the estimator ``table`` predicts their run times."""
    rows = [f"{a.user},{a.name},{a.predicted_s}" for a in arrivals]
    path.write_text("\n".join(["user,name,duration_s", *rows, ""]))


def play(bed: Testbed, arrivals: Sequence[Arrival], timeout_s: float) -> list[Played]:
    """Submit each job at its time, wait for the end of all, tell what Slurm made of them.

    The testbed has to remember its jobs for so long (MinJobAge). Raises UnavailableError for a job
    that is refused, does not complete, or does not end within `timeout_s` of the last submission.
    """
    script = bed.spec.root / "work" / "arrival.sh"
    script.parent.mkdir(exist_ok=True)
    script.parent.chmod(0o755)
    script.write_text(_SCRIPT)
    script.chmod(0o755)
    began = time.monotonic()
    ids = []
    for arrival in arrivals:
        time.sleep(max(0.0, began + arrival.submit_s - time.monotonic()))
        ids.append(_submit(bed, arrival, script))
    wait_for(
        lambda: not bed.run(["squeue", "-h", "-t", "PD,R,CG", "-o", "%A"]).stdout.split(),
        "all arrivals to end",
        timeout_s,
        poll_s=0.5,
    )
    return _outcomes(bed, ids)


def _submit(bed: Testbed, arrival: Arrival, script: Path) -> int:
    options = [
        *("--parsable", "-J", arrival.name, "-A", arrival.account, "-o", "/dev/null"),
        *("-N", "1", f"--gres=gpu:{arrival.num_gpus}", f"-t{arrival.time_limit_s // 60}"),
    ]
    argv = ["sbatch", *options, str(script), str(arrival.duration_s)]
    answer = bed.run_as(arrival.user, argv)
    if answer.returncode != 0:
        raise UnavailableError(f"{arrival.name} was not submitted: {answer.stderr.strip()}")
    return int(answer.stdout)


def _outcomes(bed: Testbed, ids: Sequence[int]) -> list[Played]:
    shown = bed.run(
        ["squeue", "-h", "-t", "all", "-o", "%A %V %S %e %T"],
        extra_env={"SLURM_TIME_FORMAT": "%s"},
    )
    told = {int(words[0]): words[1:] for words in map(str.split, shown.stdout.splitlines())}
    outcomes = []
    for job_id in ids:
        if job_id not in told:
            raise UnavailableError(f"Slurm has forgotten job {job_id}", "raise MinJobAge")
        *times, state = told[job_id]
        if state != "COMPLETED":
            raise UnavailableError(f"job {job_id} ended as {state}")
        outcomes.append(Played(*map(int, times)))
    return outcomes
