"""What the history costs: ingest of 5,000 new attempts, a round without news, 100,000 changes.

Writes tests/results/history.json: wall-clock milliseconds on a fresh SQLite file on this machine's
disk, the median of the runs. Recorded, not asserted.

    python tests/bench/bench_history.py [RUNS]
"""

from __future__ import annotations

import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.history import CLUSTER, attempt, batch, pending  # noqa: E402

from gsched.model.decision import Reason  # noqa: E402
from gsched.model.history import AttemptRecord  # noqa: E402
from gsched.model.job import JobKey  # noqa: E402
from gsched.model.journal import Change, ChangeState, RoundInfo  # noqa: E402
from gsched_sql import History  # noqa: E402

RESULT = ROOT / "tests" / "results" / "history.json"
NUM_JOBS = 5_000
NUM_CHANGES = 100_000
CHANGES_A_ROUND = 1_000


def timed_ms(work: Callable[[], object]) -> float:
    """Milliseconds that `work` takes."""
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def ended(count: int) -> list[AttemptRecord]:
    """Finished jobs of 40 users and 200 names."""
    return [
        attempt(n, 1000 + n, user=f"user{n % 40}", tenant=f"lab{n % 8}", name=f"train-{n % 200}")
        for n in range(1, count + 1)
    ]


def measure_ingest(url: str) -> dict[str, float]:
    """One fresh database: first ingest, the same by another process, and rounds without news."""
    records = ended(NUM_JOBS)
    waiting = [pending(n, 1000 + n) for n in range(NUM_JOBS + 1, 2 * NUM_JOBS + 1)]
    figures = {}
    with History.open(url) as history:
        new = batch(*records, cursor="1")
        figures["ingest of 5,000 new attempts"] = timed_ms(
            lambda: history.ingest(new, source_key="a")
        )
        history.ingest(batch(*waiting), source_key=None)
        figures["round without news: jobcomp, nothing new"] = timed_ms(
            lambda: history.ingest(batch(cursor="1"), source_key="a")
        )
        figures["round without news: squeue lists 5,000 known jobs"] = timed_ms(
            lambda: history.ingest(batch(*waiting), source_key=None)
        )
        figures["first submits of 5,000 live attempts"] = timed_ms(
            lambda: history.epochs(CLUSTER, waiting)
        )
        figures["past jobs, 5,000"] = timed_ms(lambda: history.past_jobs(CLUSTER, 0, 10**10))
    with History.open(url) as history:
        figures["the same 5,000 attempts read again by another process"] = timed_ms(
            lambda: history.ingest(new, source_key="a")
        )
    return figures


def changes(number: int) -> Sequence[Change]:
    """The changes of one round."""
    found = []
    for n in range(CHANGES_A_ROUND):
        job = (number * CHANGES_A_ROUND + n) % (NUM_CHANGES // 10)
        key = JobKey(CLUSTER, job + 1, epoch=1000 + job)
        reason = Reason("predicted", {"gpu_time_s": 1.5 * n, "rank": n})
        found.append(
            Change(f"r{number}/{n}", key, key.epoch, "site-factor", number, number + 1, reason)
        )
    return found


def measure_journal(url: str) -> dict[str, float]:
    """A journal of 100,000 confirmed changes on 10,000 jobs."""
    last = NUM_CHANGES // CHANGES_A_ROUND - 1
    with History.open(url) as history:
        journal = history.journal()

        def carry_out(number: int) -> None:
            made = changes(number)
            info = RoundInfo(f"r{number}", CLUSTER, number, "qssf", True, number, "m")
            journal.begin_round(info)
            journal.record(info.round_id, made, ChangeState.INTENT, number)
            for state in (ChangeState.SENT, ChangeState.CONFIRMED):
                journal.settle([(c.change_id, state, "") for c in made], number)
            journal.end_round(info.round_id, number, {}, {})

        for number in range(last):
            carry_out(number)
        return {
            "round of 1,000 changes, the journal has 99,000": timed_ms(lambda: carry_out(last)),
            "standings of 10,000 jobs after 100,000 changes": timed_ms(
                lambda: journal.standing(CLUSTER)
            ),
            "unsettled changes among 100,000": timed_ms(lambda: journal.unsettled(CLUSTER)),
            "newest 50 audit rows of 100,000": timed_ms(lambda: history.audit(CLUSTER, limit=50)),
        }


def main() -> None:
    """Measure, print and record."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for run in range(runs):
            url = f"sqlite:///{Path(folder) / f'ingest-{run}.db'}"
            History.create(url)
            for name, value in measure_ingest(url).items():
                samples.setdefault(name, []).append(value)
        url = f"sqlite:///{Path(folder) / 'journal.db'}"
        History.create(url)
        samples |= {name: [value] for name, value in measure_journal(url).items()}
    figures = {name: round(statistics.median(values), 1) for name, values in samples.items()}
    for name, value in figures.items():
        print(f"{value:8.1f} ms  {name}")
    document = {
        "what": "wall-clock milliseconds on a fresh SQLite file, synchronous=FULL",
        "runs": runs,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures_ms": figures,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
