"""The main job in two minutes on a private real Slurm: history, model, order, before and after.

Two testbeds get the same jobs at the same moment; on one of them gsched's daemon orders the queue.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from gsched.errors import UnavailableError
from gsched.testbed.background import Background
from gsched.testbed.cluster import Testbed
from gsched.testbed.trial import Arm, JobResult, figures, queue_up
from gsched.testbed.wait import wait_for
from gsched.testbed.workload import Workload, make_workload

NUM_NODES = 8
NUM_SCRIPTS = 12
RUNS_EACH = 2
LONGEST_S = 16.0
SEED = 2021
_SHOWN = 12


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """How many jobs compete, and the seed of the workload."""

    num_jobs: int = 80
    seed: int = SEED


class Demo:
    """Runs the steps one after the other and prints what a person would have typed."""

    def __init__(self, options: DemoOptions) -> None:
        self.workload: Workload = make_workload(
            options.seed, NUM_SCRIPTS, RUNS_EACH, options.num_jobs, LONGEST_S
        )
        self.gsched = _own_command()
        self._began = time.monotonic()

    def run(self) -> None:
        """All steps. Raises UnavailableError when Slurm does not do its part."""
        with ExitStack() as beds:
            self._title("Two private Slurm clusters, each 8 nodes × 8 GPUs, on this machine")
            plain = Arm("plain Slurm", self._start(beds, "plain"), (self.gsched, "submit"))
            ours = Arm("with gsched", self._start(beds, "gsched"), (self.gsched, "submit"))
            self._print(ours.bed.run(["sinfo"]).stdout)
            self._make_history(ours)
            log = ours.bed.spec.root / "daemon.log"
            argv = [self.gsched, "daemon", "run", "--act", "--interval", "1"]
            self._title("The daemon acts on the second cluster; the same jobs come to both")
            self._typed("daemon", "run", "--act", "--interval", "1", after=" &")
            with Background(ours.bed, argv, log) as daemon:
                self._compete(plain, ours, daemon)
            self._audit(ours)
        self._title(f"Done in {time.monotonic() - self._began:.0f} s; both clusters are gone again")

    def _start(self, beds: ExitStack, cluster: str) -> Testbed:
        return beds.enter_context(Testbed.temporary(num_nodes=NUM_NODES, cluster=cluster))

    def _make_history(self, arm: Arm) -> None:
        jobs = self.workload.history
        self._title(
            f"History: {len(jobs)} jobs of 4 users, {RUNS_EACH} runs of each of {NUM_SCRIPTS} "
            "scripts (how long they run is written nowhere but in the scripts)"
        )
        self._typed("submit", "--gres=gpu:1", "-A", "lab1", "bert-ft.sh", after="   … and so on")
        arm.submit(jobs)
        wait_for(arm.is_done, "the history's jobs to end", timeout_s=120)
        for words in (("db", "init"), ("db", "ingest"), ("predict", "train")):
            self._show(arm, *words)

    def _compete(self, plain: Arm, ours: Arm, daemon: Background) -> None:
        queue_up([plain, ours], self.workload.queue)
        self._settle(ours, daemon)
        self._title(f"{len(self.workload.queue)} jobs wait on full nodes; gsched's order, and why")
        self._show(ours, "queue", "--pending", lines=_SHOWN)
        self._show(ours, "why", str(ours.job_ids[len(ours.job_ids) // 2]))
        self._title("The nodes become free on both clusters at the same moment")
        for arm in (plain, ours):
            arm.open_gate()
        self._watch([plain, ours])
        self._compare(plain, ours)

    def _settle(self, arm: Arm, daemon: Background) -> None:
        """Wait until every job of the queue has its rank and no write is due any more."""

        def ordered() -> bool:
            if not daemon.is_running():
                raise UnavailableError(f"the daemon ended: {daemon.output()[-500:]}")
            answer = arm.bed.run([self.gsched, "daemon", "status", "--json"])
            summary = json.loads(answer.stdout)["summary"] or {}
            return summary.get("ranked") == len(self.workload.queue) and not summary["changes"]

        wait_for(ordered, "the daemon to order the queue")

    def _watch(self, arms: Sequence[Arm]) -> None:
        began = time.monotonic()
        while not all(arm.is_done() for arm in arms):
            if sys.stdout.isatty():
                left = "   ".join(f"{arm.name}: {arm.waiting():3d} waiting" for arm in arms)
                print(f"\r  {time.monotonic() - began:3.0f} s   {left}", end="", flush=True)
            time.sleep(0.5)
        if sys.stdout.isatty():
            print()

    def _compare(self, plain: Arm, ours: Arm) -> None:
        queue = self.workload.queue
        rows = [(arm.name, arm.results(queue)) for arm in (plain, ours)]
        self._title(f"Before and after: seconds waited by {len(queue)} jobs, from then on")
        print(f"  {'':<14}{'mean':>7}{'median':>9}{'p90':>7}   completed   order ~ true GPU-time")
        for name, results in rows:
            f = figures(results)
            print(
                f"  {name:<14}{f.mean_s:>7.1f}{f.median_s:>9.1f}{f.p90_s:>7.1f}"
                f"{f.completed:>7} of {f.num_jobs}{f.order_correlation:>18.2f}"
            )
        before, after = (figures(results) for _, results in rows)
        sooner = _sooner(rows[0][1], rows[1][1])
        print(
            f"\n  mean wait {before.mean_s:.1f} → {after.mean_s:.1f} s "
            f"({100 * (1 - after.mean_s / before.mean_s):.0f} % less); "
            f"{sooner} of {len(queue)} jobs started sooner; none was held, cancelled or lost"
            if before.completed == after.completed == len(queue)
            else "\n  some jobs did not complete: see above"
        )

    def _audit(self, arm: Arm) -> None:
        self._title("Every step is in the audit; `gsched daemon clear` takes all of them back")
        self._show(arm, "daemon", "audit", "-n", "5")

    # -- printing ---------------------------------------------------------------------------

    def _title(self, text: str) -> None:
        print(f"\n── {text}", flush=True)

    def _typed(self, *words: str, after: str = "") -> None:
        print(f"$ gsched {' '.join(words)}{after}", flush=True)

    def _show(self, arm: Arm, *words: str, lines: int | None = None) -> None:
        self._typed(*words)
        answer = arm.bed.run([self.gsched, *words])
        if answer.returncode != 0:
            raise UnavailableError(f"gsched {' '.join(words)} failed: {answer.stderr.strip()}")
        shown = answer.stdout.rstrip().splitlines()
        self._print("\n".join(shown[:lines]))
        if lines is not None and len(shown) > lines:
            print(f"  … {len(shown) - lines} more")

    def _print(self, text: str) -> None:
        print(text.rstrip(), flush=True)


def _sooner(before: Sequence[JobResult], after: Sequence[JobResult]) -> int:
    pairs = zip(before, after, strict=True)
    return sum(1 for b, a in pairs if a.wait_s < b.wait_s)


def _own_command() -> str:
    """The `gsched` that belongs to this interpreter, not another one on PATH."""
    beside = Path(sys.executable).parent / "gsched"
    found = str(beside) if beside.exists() else shutil.which("gsched")
    if not found:
        raise UnavailableError("the command gsched is not installed", "pip install -e .")
    return found
