"""Wall and CPU time of the daemon's rounds on a large cluster: tests/results/round.json.

Two clusters: 10,000 waiting jobs and 2,000 nodes that are written down (support.recorded_cluster)
and played back by programs in Slurm's place, and a real Slurm with as many jobs as it bears. On
both the whole daemon runs in this process: history, journal, QSSF, status file. CPU is the
daemon's own; that of the commands that it starts stands beside it. Phases are those of the round.

First rounds are full: every job is new. Then the daemon acts until nothing is left to write; then
come rounds in which nothing changed (steady), in which one job in a hundred was replaced (churn),
and in which every job has aged. Then thousands of rounds with churn on a smaller queue, without
processes, for the memory.

    python tests/bench/bench_round.py [--jobs N] [--nodes N] [--rounds N] [--real-jobs N]
                                      [--memory-rounds N]
"""

from __future__ import annotations

import argparse
import ctypes
import ctypes.util
import gc
import itertools
import json
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.recorded_cluster import NOW, RecordedCluster

from gsched.app.run_daemon import open_daemon
from gsched.config.settings import DaemonSettings, PredictSettings, Settings
from gsched.daemon.loop import DaemonLoop
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import scale_for
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.round import RoundRunner
from gsched.model.journal import ChangeState
from gsched.policy.qssf import Qssf
from gsched.predict.table import TableEstimator
from gsched.slurm.client import CommandClient
from gsched.slurm.patience import Pace, Patience
from gsched.testbed.cluster import Testbed
from gsched_sql import History

RESULT = Path(__file__).parents[1] / "results" / "round.json"
BUDGETS = {
    "full round, wall_s": 2.0,
    "steady round, cpu_s of the daemon": 0.3,
    "QSSF decided and validated, wall_s": 0.05,
    "Slurm writes in a steady round": 0,
    "listings in a round": 1,
}
MOST_ROUNDS_TO_SETTLE = 60


@dataclass
class Round:
    """What one round took, in seconds, and what it did."""

    wall_s: float
    cpu_s: float
    children_cpu_s: float
    phases: Mapping[str, float]
    writes: int
    left: int
    commands: Mapping[str, int]


STARTED: Counter[str] = Counter()
"""How often each of Slurm's programs was started, by name and verb."""


def count_started(event: str, args: tuple[Any, ...]) -> None:
    """Audit hook of the interpreter: told of every process that is started."""
    if event == "subprocess.Popen":
        words = [w for w in args[1] if not w.startswith("-")]
        STARTED[" ".join(words[:3] if words[0] == "scontrol" else words[:1])] += 1


def children_cpu_s() -> float:
    """User and system time of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(loop: DaemonLoop) -> Round:
    """One round with all that belongs to it."""
    gc.collect()
    STARTED.clear()
    wall, cpu, children = time.perf_counter(), time.process_time(), children_cpu_s()
    result = loop.once()
    return Round(
        wall_s=time.perf_counter() - wall,
        cpu_s=time.process_time() - cpu,
        children_cpu_s=children_cpu_s() - children,
        phases=result.timings_s,
        writes=result.count(ChangeState.CONFIRMED) + result.count(ChangeState.SENT),
        left=result.postponed,
        commands=dict(STARTED),
    )


def figures(rounds: list[Round]) -> dict[str, Any]:
    """Medians and worst cases over some rounds of one kind."""

    def spread(values: list[float]) -> dict[str, float]:
        return {"median": round(statistics.median(values), 4), "max": round(max(values), 4)}

    phases = {name for one in rounds for name in one.phases}
    return {
        "rounds": len(rounds),
        "wall_s": spread([one.wall_s for one in rounds]),
        "cpu_s": spread([one.cpu_s for one in rounds]),
        "children_cpu_s": spread([one.children_cpu_s for one in rounds]),
        "phases_wall_s": {
            name: spread([one.phases.get(name, 0.0) for one in rounds]) for name in sorted(phases)
        },
        "decide_and_validate_wall_s": spread(
            [one.phases.get("decide", 0.0) + one.phases.get("validate", 0.0) for one in rounds]
        ),
        "writes": [one.writes for one in rounds],
        "commands_a_round": {
            name: max(one.commands.get(name, 0) for one in rounds)
            for name in sorted({name for one in rounds for name in one.commands})
        },
    }


def settings_in(folder: Path, write_budget: int) -> Settings:
    """A site of its own: an empty history, run times from a table, bursts as often as rounds."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / "durations.csv"
    rows = (f"{user},train-{n}-llama,{60 * n + 30}" for user in users() for n in range(500))
    table.write_text("\n".join(["user,name,duration_s", *rows, ""]))
    History.create(f"sqlite:///{folder}/history.db")
    return Settings(
        state_dir=folder,
        daemon=DaemonSettings(burst_interval_s=0.001, write_budget=write_budget),
        predict=PredictSettings(estimator="table", table=str(table)),
    )


def users() -> list[str]:
    """Of the recorded cluster and of the real one."""
    return [*(f"user{n:03}" for n in range(300)), "games", "news", "backup", "root"]


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """This process's environment with `values` in it."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def trial(
    folder: Path, rounds: int, churn: Callable[[], None], age: Callable[[], None]
) -> dict[str, Any]:
    """Full rounds, those until all is written, and those of each kind afterwards."""
    found: dict[str, Any] = {}
    fulls = []
    for number in range(3):
        with open_daemon(settings_in(folder / f"observe{number}", 1000), False) as loop:
            fulls.append(measure(loop))
    found["full, observing"] = figures(fulls)
    with open_daemon(settings_in(folder / "act", 1000), True) as loop:
        found["full, acting (1,000 writes)"] = figures([measure(loop)])
        settling = []
        for _ in range(MOST_ROUNDS_TO_SETTLE):
            settling.append(measure(loop))
            if not settling[-1].writes:
                break
        found["until nothing is left to write"] = figures(settling)
        found["steady"] = figures([measure(loop) for _ in range(rounds)])
        for name, change in (("churn of 1 % of the jobs", churn), ("every job aged", age)):
            changed = []
            for _ in range(max(3, rounds // 3)):
                change()
                changed.append(measure(loop))
            found[name] = figures(changed)
    return found


def recorded(folder: Path, jobs: int, nodes: int, rounds: int) -> dict[str, Any]:
    """The cluster that is written down."""
    cluster = RecordedCluster(folder / "cluster", 1, jobs, nodes)
    cluster.install(folder / "bin")
    with environment({"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}):
        found = trial(folder, rounds, lambda: cluster.churn(max(1, jobs // 100)), cluster.age)
    return {"waiting_jobs": jobs, "running_jobs": nodes, "nodes": nodes, **found}


def real(folder: Path, jobs: int, rounds: int) -> dict[str, Any]:
    """A private Slurm full of jobs that wait."""
    with Testbed.temporary(num_nodes=2) as bed:
        for _ in range(2):
            bed.run(["sbatch", "--gres=gpu:8", "-o", "/dev/null", "--wrap", "sleep 7200"])
        numbers = itertools.count()

        def submit(count: int) -> None:
            for number in itertools.islice(numbers, count):
                words = ["sbatch", "-J", f"train-{number % 500}-llama", "-o", "/dev/null"]
                words += [f"--gres=gpu:{number % 8 + 1}", "-t", str(number % 2000 + 5)]
                if bed.run([*words, "--wrap", "true"], "games").returncode != 0:
                    raise SystemExit("sbatch failed")

        def churn() -> None:
            waiting = bed.run(["squeue", "-h", "-t", "PD", "-o", "%A"]).stdout.split()
            some = max(1, jobs // 100)
            bed.run(["scancel", *waiting[:some]])
            submit(some)

        submit(jobs)
        with environment(bed.env()):
            found = trial(folder, rounds, churn, lambda: time.sleep(1.1))
        return {"waiting_jobs": jobs, "PriorityCalcPeriod_s": 1, **found}


class Hurried(CommandClient):
    """Asks a cluster that is written down as often as it likes; no process is started."""

    def __init__(self, cluster: RecordedCluster) -> None:
        super().__init__()
        pace = Pace(per_s=1e9)
        self._patience = Patience(60.0, lambda _text: None, runner=cluster.run, pace=pace)


def memory(folder: Path, jobs: int, rounds: int) -> dict[str, Any]:
    """Resident memory over many rounds in which jobs come and go, history and journal included.

    Standings of ended jobs are kept for a day, 2,880 rounds here: it cannot be flat before.
    """
    cluster = RecordedCluster(folder / "cluster", 2, jobs, jobs // 10)
    client = Hurried(cluster)
    config, site = client.config(), settings_in(folder / "site", 1000)
    ids = itertools.count()
    at = NOW + 10**6  # a simulated clock, half a minute a round
    replaced = max(1, jobs // 100)
    samples: list[tuple[int, float, float]] = []
    began = time.perf_counter()
    with History.open(site.database_url) as history:
        backend = SlurmBackend(
            client, config.cluster, scale_for(config, site.daemon), site.daemon,
            lambda rows: history.epochs(config.cluster, rows), lambda: at,
            RequestBook(history.request_store()), monotonic=lambda: float(at),
        )  # fmt: skip
        runner = RoundRunner(
            backend, Qssf(), history.journal(), TableEstimator.read(Path(site.predict.table)),
            lambda: at, lambda: f"r{next(ids)}",
        )  # fmt: skip
        for number in range(1, rounds + 1):
            at += 30
            cluster.churn(replaced, at)
            runner.run(acting=True)
            backend.inversions()
            history.ingest(backend.sightings(), source_key=None)
            backend.sightings_kept()
            if number % max(1, rounds // 20) == 0:
                gc.collect()
                samples.append((number, round(rss_mib(), 1), round(sqlite_mib(), 1)))
    half = len(samples) // 2
    return {
        "waiting_jobs": jobs,
        "rounds": rounds,
        "jobs_replaced_a_round": replaced,
        "round, rss_mib, of which SQLite's own": samples,
        "growth_in_the_second_half_mib": round(samples[-1][1] - samples[half][1], 1),
        "of which SQLite's own": round(samples[-1][2] - samples[half][2], 1),
        "wall_s_a_round": round((time.perf_counter() - began) / rounds, 4),
    }


def sqlite_mib() -> float:
    """What SQLite holds in this process: mostly its page cache, which has a bound (64 MiB)."""
    library = ctypes.util.find_library("sqlite3")
    if library is None:
        raise SystemExit("libsqlite3 is not found: its page cache cannot be told from a leak")
    used = ctypes.CDLL(library).sqlite3_memory_used
    used.restype = ctypes.c_int64
    return float(used()) / 2**20


def rss_mib() -> float:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--real-jobs", type=int, default=5000)
    parser.add_argument("--memory-rounds", type=int, default=10_000)
    parser.add_argument("--memory-jobs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    sys.addaudithook(count_started)
    document: dict[str, Any] = {
        "what": "one round of the whole daemon; seconds; cpu_s is the daemon's own process",
        "budgets": BUDGETS,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.jobs:
            document["recorded"] = recorded(
                folder / "recorded", chosen.jobs, chosen.nodes, chosen.rounds
            )
        if chosen.real_jobs:
            document["real"] = real(folder / "real", chosen.real_jobs, chosen.rounds)
        if chosen.memory_rounds:
            document["memory"] = memory(folder / "memory", chosen.memory_jobs, chosen.memory_rounds)
    chosen.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
