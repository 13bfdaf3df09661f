"""What gsched costs slurmctld, told by sdiag on a real Slurm: tests/results/rpc.json.

Four arms in turn on one cluster full of waiting jobs, each for some seconds after `sdiag --reset`:
no daemon; a daemon that observes; one that writes some SiteFactors every round with one scontrol
that is fed on stdin, as gsched does; and the same with one scontrol a job. All that with and
without bf_continue, for Slurm's backfill begins anew without it when jobs changed while it let go
of its locks (bf_yield_interval, made short here, so that it does so often).

    python tests/bench/bench_rpc.py [--jobs N] [--turns N] [--seconds S] [--writes N]
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import random
import re
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.requests import MemoryRequests

from gsched.app.daemon_model import NoPredictor
from gsched.config.settings import DaemonSettings
from gsched.daemon.requests import RequestBook
from gsched.daemon.site_factor import scale_for
from gsched.daemon.slurm_backend import SlurmBackend
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.round import RoundRunner
from gsched.model.cluster import ClusterState
from gsched.model.decision import Decision, JsonValue, Rank, Reason
from gsched.model.job import Capability
from gsched.model.jobtable import FloatColumn, JobTable
from gsched.policy.base import OrderKind, Policy
from gsched.slurm.client import CommandClient
from gsched.slurm.records import UpdateOutcome
from gsched.testbed.cluster import Testbed

RESULT = Path(__file__).parents[1] / "results" / "rpc.json"
ARMS = ("no daemon", "observing", "acting, one scontrol", "acting, one scontrol a job")
ROUND_S = 2.0
PARAMETERS = "batch_sched_delay=0,sched_interval=1,bf_interval=2,bf_yield_interval=20000"

_RPC = re.compile(r"^\t(\S+)\s*\(\s*\d+\) count:(\d+)\s+ave_time:\d+\s+total_time:(\d+)", re.M)
_BACKFILL = {
    "Total cycles": "cycles",
    "Last cycle": "last_cycle_us",
    "Mean cycle": "mean_cycle_us",
    "Last depth cycle": "last_depth",
    "Depth Mean": "mean_depth",
    "Last queue length": "last_queue_length",
}


class Restless(Policy):
    """Moves some other jobs every round: so many writes each time."""

    name = "restless"
    summary = "moves other jobs every round (for the bench)"
    requires = frozenset({Capability.REORDER})
    order_kind = OrderKind.STATE

    def __init__(self, writes: int) -> None:
        super().__init__()
        self._writes = writes
        self._draw = random.Random(3)
        self._levels: dict[int, float] = {}

    def static_key(self, jobs: JobTable) -> FloatColumn:
        """It has none."""
        raise NotImplementedError

    def decide(self, state: ClusterState, memory: Mapping[str, JsonValue], now: int) -> Decision:
        """Every waiting job's last level, and new ones for some."""
        views = [v for v in state.jobs.views if not v.exclusions]
        for view in self._draw.sample(views, min(self._writes, len(views))):
            number = view.key.job_id
            self._levels[number] = -self._levels.get(number, 0.0) or self._draw.uniform(0.3, 0.9)
        order = {
            v.key: Rank("gpu", 1, len(views), 1.0, self._levels.get(v.key.job_id, 0.0))
            for v in views
        }
        return Decision(order, (), dict.fromkeys(order, Reason("restless")), {})


class OneByOne(CommandClient):
    """A scontrol for each job, as many tools do it."""

    def set_site_factors(self, values: Sequence[tuple[str, int]]) -> tuple[UpdateOutcome, ...]:
        """One process a job."""
        return tuple(itertools.chain.from_iterable(
            super(OneByOne, self).set_site_factors([value]) for value in values
        ))  # fmt: skip


def runner_of(client: CommandClient, writes: int) -> RoundRunner:
    """Rounds on the cluster of this process's environment."""
    config, settings = client.config(), DaemonSettings(burst_interval_s=0.001)
    numbers = itertools.count()

    def now() -> int:
        return int(time.time())

    backend = SlurmBackend(
        client, config.cluster, scale_for(config, settings), settings,
        lambda rows: [r.submit_time for r in rows], now, RequestBook(MemoryRequests()),
    )  # fmt: skip
    ids = f"{time.monotonic_ns()}"
    return RoundRunner(
        backend, Restless(writes), MemoryJournal(), NoPredictor(), now,
        lambda: f"{ids}-{next(numbers)}",
    )  # fmt: skip


def sdiag(bed: Testbed) -> dict[str, Any]:
    """RPC counts and times (µs in slurmctld) by type and by user, and backfill's figures."""
    text = bed.run(["sdiag"]).stdout
    by_type, _, by_user = text.partition("Remote Procedure Call statistics by user")
    backfill = by_type.partition("Backfilling stats")[2].partition("Latency")[0]
    shown = dict(re.findall(r"^\t([A-Z][^:(]*?)\s*:\s*(-?\d+)\s*$", backfill, re.M))
    return {
        "rpc_by_type": {n: {"count": int(c), "us": int(t)} for n, c, t in _RPC.findall(by_type)},
        "rpc_by_user": {n: {"count": int(c), "us": int(t)} for n, c, t in _RPC.findall(by_user)},
        "backfill": {ours: int(shown[name]) for name, ours in _BACKFILL.items() if name in shown},
    }


def turn(bed: Testbed, arm: str, seconds: float, writes: int) -> dict[str, Any]:
    """One arm for some seconds."""
    client = OneByOne() if arm.endswith("a job") else CommandClient()
    runner = runner_of(client, writes) if arm != "no daemon" else None
    if runner is not None:
        runner.run(acting=False)  # what a new process asks once belongs to no arm
    bed.run(["sdiag", "--reset"])
    began, rounds, written, round_s = time.monotonic(), 0, 0, []
    while time.monotonic() - began < seconds:
        next_at = time.monotonic() + ROUND_S
        if runner is not None:
            at = time.monotonic()
            result = runner.run(acting=arm.startswith("acting"))
            round_s.append(time.monotonic() - at)
            written += len(result.settled) if arm.startswith("acting") else 0
            rounds += 1
        time.sleep(max(0.0, next_at - time.monotonic()))
    took_s = time.monotonic() - began
    return {
        **sdiag(bed),
        "rounds": rounds,
        "writes": written,
        "seconds": round(took_s, 1),
        "median_round_s": round(statistics.median(round_s), 3) if round_s else None,
    }


def summed(turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """All turns of one arm: RPCs added up, backfill by the median turn."""

    def added(kind: str) -> dict[str, dict[str, int]]:
        total: dict[str, dict[str, int]] = {}
        for one in turns:
            for name, rpc in one[kind].items():
                known = total.setdefault(name, {"count": 0, "us": 0})
                known["count"] += rpc["count"]
                known["us"] += rpc["us"]
        return dict(sorted(total.items()))

    names = sorted({name for one in turns for name in one["backfill"]})
    seconds = sum(one["seconds"] for one in turns)
    rpc_us = sum(rpc["us"] for one in turns for rpc in one["rpc_by_user"].values())
    return {
        "seconds": round(seconds, 1),
        "rounds": sum(one["rounds"] for one in turns),
        "writes": sum(one["writes"] for one in turns),
        "median_round_s": [one["median_round_s"] for one in turns],
        "rpc_ms_a_second": round(rpc_us / 1000 / seconds, 2),
        "rpc_by_type": added("rpc_by_type"),
        "rpc_by_user": added("rpc_by_user"),
        "backfill_median": {
            name: statistics.median([one["backfill"].get(name, 0) for one in turns])
            for name in names
        },
        "backfill_of_each_turn": [one["backfill"] for one in turns],
    }


def fill(bed: Testbed, jobs: int) -> None:
    """Let `jobs` jobs wait behind two that hold both nodes."""
    for _ in range(bed.spec.num_nodes):
        bed.run(["sbatch", "--gres=gpu:8", "-t", "600", "-o", "/dev/null", "--wrap", "sleep 7200"])

    def submit(number: int) -> None:
        words = ["sbatch", "-o", "/dev/null", f"--gres=gpu:{number % 8 + 1}"]
        words += ["-t", str(number % 900 + 5), "--wrap", "true"]
        if bed.run(words, "games").returncode != 0:
            raise SystemExit("sbatch failed")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(submit, range(jobs)))


@contextmanager
def cluster(jobs: int, parameters: str) -> Iterator[Testbed]:
    """A full one; this process's commands of Slurm reach it."""
    line = f"SchedulerParameters={parameters},bf_max_job_test={jobs + 10},bf_max_job_user=0"
    before = dict(os.environ)
    with Testbed.temporary(num_nodes=2, extra_conf=(line,)) as bed:
        fill(bed, jobs)
        os.environ.update(bed.env())
        try:
            yield bed
        finally:
            os.environ.clear()
            os.environ.update(before)


def main() -> None:
    """Measure, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--writes", type=int, default=100)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    found: dict[str, Any] = {}
    for name, extra in (("without bf_continue", ""), ("with bf_continue", ",bf_continue")):
        with cluster(chosen.jobs, PARAMETERS + extra) as bed:
            turns: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
            for _ in range(chosen.turns):
                for arm in ARMS:
                    turns[arm].append(turn(bed, arm, chosen.seconds, chosen.writes))
            found[name] = {arm: summed(done) for arm, done in turns.items()}
    document = {
        "what": "sdiag of a real Slurm; RPC times are those of slurmctld, microseconds in all",
        "waiting_jobs": chosen.jobs,
        "round_s": ROUND_S,
        "writes_a_round": chosen.writes,
        "SchedulerParameters": PARAMETERS,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": found,
    }
    chosen.out.write_text(json.dumps(document, indent=1) + "\n")
    for name, arms in found.items():
        print(name)
        for arm, figures in arms.items():
            print(
                f"  {arm:28} {figures['rpc_ms_a_second']:7.2f} ms of RPCs a second,"
                f" {figures['writes']} writes, backfill {figures['backfill_median']}"
            )


if __name__ == "__main__":
    main()
