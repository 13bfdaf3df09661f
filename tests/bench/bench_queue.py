"""CPU time of `gsched queue` on a real Slurm with thousands of waiting jobs, beside squeue's own.

Writes tests/results/queue.json: user + system time of the command and of all that it starts, median
and spread of N runs, each command in turn. `gsched queue` shall take at most half a second more
than squeue does; that is recorded here and not asserted, for machines differ.

    python tests/bench/bench_queue.py [RUNS [JOBS]]
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gsched.slurm.parse_queue import QUEUE_FIELDS, TEXT_FIELDS
from gsched.testbed.cluster import Testbed

ROOT = Path(__file__).parents[2]
PROGRAM = str(Path(sys.executable).with_name("gsched"))
RESULT = ROOT / "tests" / "results" / "queue.json"
BUDGET_S = 0.5

USERS = ("games", "news", "backup")
NAMES = 97
ALL_FIELDS = ",".join(f"{field}:|" for field in QUEUE_FIELDS + TEXT_FIELDS)
COMMANDS = {
    "squeue": ["squeue"],
    "squeue -O, all fields that gsched reads": ["squeue", "-O", ALL_FIELDS],
    "gsched queue": [PROGRAM, "queue"],
    "gsched queue --json": [PROGRAM, "queue", "--json"],
    "gsched queue -P": [PROGRAM, "queue", "-P"],
}


def cpu_s(argv: list[str], environ: dict[str, str]) -> float:
    """User and system CPU time of one run with its children, in seconds."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)]
    pid = os.posix_spawnp(argv[0], argv, environ, file_actions=quiet)
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(argv)} ended with status {status}")
    return usage.ru_utime + usage.ru_stime


def fill(bed: Testbed, jobs: int) -> None:
    """Let `jobs` jobs wait: many users' kinds of names, GPUs and limits, all held back by two."""
    for _ in range(bed.spec.num_nodes):
        bed.run(["sbatch", "--gres=gpu:8", "-o", "/dev/null", "--wrap", "sleep 3600"])

    def submit(number: int) -> None:
        words = [
            *("sbatch", "-J", f"train-{number % NAMES}-llama", f"--gres=gpu:{number % 8 + 1}"),
            *("-t", str(number % 2000 + 5), "-c", str(number % 4 + 1), "-o", "/dev/null"),
        ]
        answer = bed.run([*words, "--wrap", "true"], USERS[number % len(USERS)])
        if answer.returncode != 0:
            raise SystemExit(answer.stderr)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(submit, range(jobs)))


def let_daemon_answer(bed: Testbed) -> None:
    """A round of the daemon that ranks every job, its run times taken from a table."""
    table = bed.spec.root / "etc" / "durations.csv"
    rows = (f"{user},train-{n}-llama,{60 * n + 30}" for user in USERS for n in range(NAMES))
    table.write_text("\n".join(["user,name,duration_s", *rows, ""]))
    config = bed.spec.root / "etc" / "gsched.toml"
    predict = f'\n[predict]\nestimator = "table"\ntable = "{table}"\n'
    config.write_text(config.read_text() + predict)
    for words in (("db", "init"), ("daemon", "once")):
        answer = bed.run([PROGRAM, *words])
        if answer.returncode != 0:
            raise SystemExit(answer.stderr)
    document = json.loads(bed.run([PROGRAM, "queue", "--json", "--pending"]).stdout)
    if not all(job["rank"] for job in document["jobs"]):
        raise SystemExit("the daemon has not ranked every job")


def measure(runs: int, environ: dict[str, str]) -> dict[str, dict[str, float]]:
    """Each command in turn, `runs` times, after one run that warms the caches up."""
    samples: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for turn in range(runs + 1):
        for name, argv in COMMANDS.items():
            used = cpu_s(argv, environ)
            if turn:
                samples[name].append(used)
    base = samples["squeue"]
    return {name: figures(found, base) for name, found in samples.items()}


def figures(samples: list[float], base: list[float]) -> dict[str, float]:
    """Median, extremes, and the median of what each run took above squeue's in the same turn."""
    rounded: Callable[[float], float] = lambda value: round(value, 3)  # noqa: E731
    above = [mine - theirs for mine, theirs in zip(samples, base, strict=True)]
    return {
        "cpu_s_median": rounded(statistics.median(samples)),
        "cpu_s_min": rounded(min(samples)),
        "cpu_s_max": rounded(max(samples)),
        "above_squeue_s_median": rounded(statistics.median(above)),
        "above_squeue_s_max": rounded(max(above)),
    }


def main() -> None:
    """Fill a private Slurm, measure without and with the daemon's answer, print and record."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    jobs = int(sys.argv[2]) if len(sys.argv) > 2 else 5000
    results = {}
    with Testbed.temporary(num_nodes=2) as bed:
        fill(bed, jobs)
        environ = bed.env()
        waiting = len(bed.run(["squeue", "-h", "-t", "PD"]).stdout.splitlines())
        results["without a daemon"] = measure(runs, environ)
        let_daemon_answer(bed)
        results["with a daemon's answer for every job"] = measure(runs, environ)
    for what, found in results.items():
        print(what)
        for name, figure in found.items():
            above = f"(+{figure['above_squeue_s_median']:.3f})"
            print(f"  {figure['cpu_s_median']:6.3f} s  {above}  {name}")
    document = {
        "what": "CPU time (user + system, children included) of a whole command, seconds",
        "budget_above_squeue_s": BUDGET_S,
        "waiting_jobs": waiting,
        "runs": runs,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": results,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
