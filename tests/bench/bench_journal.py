"""The journal's cost: a burst of changes, a steady round, a look at one job, the room of a day.

Writes tests/results/journal.json. SQLite on this machine's disk, every commit synced.

    python tests/bench/bench_journal.py [CHANGES_IN_THE_AUDIT]
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from gsched.model.decision import Reason
from gsched.model.job import JobKey
from gsched.model.jobid import parse_job_id
from gsched.model.journal import Change, ChangeState, RoundInfo
from gsched_sql import History, SqlJournal, maintenance

RESULT = Path(__file__).parents[1] / "results" / "journal.json"
BURST = 1000
STANDING = 10_000
ROUNDS_A_DAY = 2880
CHANGES_A_ROUND = 5
RUNS = 7


def changes(name: str, count: int, before: int = 0) -> list[Change]:
    """A change of each of `count` jobs."""
    reason = Reason("qssf.predicted-gpu-time", {"num_gpus": 2, "duration_s": 1234.5})
    return [
        Change(f"{name}/{n}", JobKey("c", n, epoch=1000), 1000, "site-factor", before, n % 500,
               reason)
        for n in range(1, count + 1)
    ]  # fmt: skip


def begin(journal: SqlJournal, name: str) -> None:
    """A round."""
    journal.begin_round(RoundInfo(name, "c", 1000, "qssf", True, 1, "m"))


class Cost:
    """CPU and wall time of some work, milliseconds."""

    def __init__(self) -> None:
        self._cpu: list[float] = []
        self._wall: list[float] = []

    def of(self, work: Callable[[], object]) -> None:
        """Do it once more."""
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        self._cpu.append(1000 * (time.process_time() - cpu))
        self._wall.append(1000 * (time.perf_counter() - wall))

    def told(self) -> dict[str, float]:
        """The figures."""
        return {
            "cpu_ms_median": round(statistics.median(self._cpu), 2),
            "cpu_ms_min": round(min(self._cpu), 2),
            "wall_ms_median": round(statistics.median(self._wall), 2),
        }


def cost(work: Callable[[], object]) -> dict[str, float]:
    """What some work costs."""
    found = Cost()
    for _ in range(RUNS):
        found.of(work)
    return found.told()


def settle(journal: SqlJournal, made: list[Change], *states: ChangeState) -> None:
    """Move changes on."""
    for state in states:
        journal.settle([(c.change_id, state, "") for c in made], 1002)


def burst(journal: SqlJournal) -> dict[str, dict[str, float]]:
    """Recording and settling many changes at once, round after round."""
    recorded, sent, confirmed = Cost(), Cost(), Cost()
    for number in range(RUNS):
        name = f"b{number}"
        begin(journal, name)
        made = changes(name, BURST)
        recorded.of(partial(journal.record, name, made, ChangeState.INTENT, 1001))
        sent.of(partial(settle, journal, made, ChangeState.SENT))
        confirmed.of(partial(settle, journal, made, ChangeState.CONFIRMED))
    return {
        "record": recorded.told(),
        "settle_sent": sent.told(),
        "settle_confirmed": confirmed.told(),
    }


def standing(history: History) -> dict[str, dict[str, float]]:
    """What every round reads, anew and when nothing has happened."""
    journal = history.journal()
    begin(journal, "s")
    made = changes("s", STANDING)
    journal.record("s", made, ChangeState.INTENT, 1001)
    settle(journal, made, ChangeState.SENT, ChangeState.CONFIRMED)
    anew = cost(lambda: history.journal().standing("c"))
    journal.standing("c")
    return {"read_anew": anew, "nothing_new": cost(lambda: journal.standing("c"))}


def audit(history: History, count: int) -> dict[str, dict[str, float]]:
    """`gsched daemon audit -j JOB` in a journal of `count` changes."""
    journal = history.journal()
    for part in range(count // STANDING):
        begin(journal, f"a{part}")
        journal.record(f"a{part}", changes(f"a{part}", STANDING), ChangeState.OBSERVED, 2000 + part)
    job = parse_job_id("77")
    return {
        "of_one_job": cost(lambda: history.audit("c", job)),
        "newest_100": cost(lambda: history.audit("c")),
    }


def room(folder: Path, rounds: int = 500) -> dict[str, float]:
    """Bytes of a day in which every round writes, and what a prune makes of it."""
    url, path = f"sqlite:///{folder / 'day.db'}", folder / "day.db"
    History.create(url)
    before = path.stat().st_size
    with History.open(url) as history:
        journal = history.journal()
        for number in range(rounds):
            begin(journal, f"d{number}")
            made = changes(f"d{number}", CHANGES_A_ROUND)
            journal.record(f"d{number}", made, ChangeState.INTENT, 1001)
            settle(journal, made, ChangeState.SENT, ChangeState.CONFIRMED)
            journal.end_round(f"d{number}", 1003, {"jobs": 900, "changes": CHANGES_A_ROUND}, {})
    with closing(sqlite3.connect(path)) as conn:
        conn.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    a_round = (path.stat().st_size - before) / rounds
    with closing(sqlite3.connect(path)) as conn, conn:
        conn.execute("DELETE FROM standings")  # the jobs have ended
    started = time.perf_counter()
    maintenance.prune(url, 10**6)
    return {
        "bytes_a_round": round(a_round),
        "mib_a_day_if_every_round_writes": round(a_round * ROUNDS_A_DAY / 2**20, 1),
        "prune_s_of_that_many_rounds": round(time.perf_counter() - started, 2),
        "rounds": rounds,
    }


def main() -> None:
    """Measure, print and record."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        url = f"sqlite:///{name}/history.db"
        History.create(url)
        with History.open(url) as history:
            figures = {
                f"burst_of_{BURST}": burst(history.journal()),
                f"standing_of_{STANDING}": standing(history),
                f"audit_of_{count}": audit(history, count),
            }
        figures["room"] = room(Path(name))
    document = {
        "what": "cost of the journal in SQLite; a round without changes writes nothing to it",
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "figures": figures,
    }
    print(json.dumps(figures, indent=2))
    RESULT.write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
