"""Parts of tests/bench/bench_database.py: what is timed."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from sqlalchemy import event, text

from gsched.app.import_files import ImportOrder, Progress, import_files
from gsched.app.trace_formats import TraceOptions
from gsched.model.past import HistoryFilter
from gsched_sql import History
from support.servers import PostgresServer, postgres_programs
from support.synthetic import live_sacct

MARK_ROWS = 1_000_000
DAY_S = 86_400
_LOOK_S = 0.02


class DurablePostgres(PostgresServer):
    """As Debian sets it up: a commit is on the disk."""

    settings: ClassVar[dict[str, str]] = {"fsync": "on"}

    @staticmethod
    def version() -> str:
        """Of the server."""
        return run_timed([str(postgres_programs() / "postgres"), "--version"]).stdout


@dataclass(frozen=True)
class Timed:
    """What one process took. `answer` is the JSON that it printed, if it was JSON."""

    seconds: float
    cpu_s: float
    max_rss_mib: float
    stdout: str
    answer: dict[str, Any] = field(default_factory=dict)


def run_timed(argv: list[str]) -> Timed:
    """Run a program to its end; SystemExit when it fails."""
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(argv, stdout=output)
        ended, peak = 0, 0.0
        while not ended:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            peak = max(peak, _peak_mib(process.pid))
            time.sleep(0 if ended else _LOOK_S)
        seconds = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        stdout = output.read().decode().strip()
    if process.returncode:
        raise SystemExit(f"{' '.join(argv)} ended with {process.returncode}")
    answer = json.loads(stdout) if stdout.startswith("{") else {}
    return Timed(seconds, usage.ru_utime + usage.ru_stime, peak, stdout, answer)


def _peak_mib(pid: int) -> float:
    """The most memory that a process has had; what wait4 tells counts that of its parent, too."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


# -- in a process of their own ---------------------------------------------------------------------


def timed_import(database: str, kind: str, path: str) -> dict[str, Any]:
    """One import, with the time and the size at each million rows."""
    began = time.perf_counter()
    marks: list[dict[str, Any]] = []
    with History.open(database) as history:

        def look(progress: Progress) -> None:
            if progress.rows >= MARK_ROWS * (len(marks) + 1):
                seconds = round(time.perf_counter() - began, 2)
                size = size_bytes(database)
                marks.append({"rows": progress.rows, "seconds": seconds, "size_bytes": size})

        report = import_files(ImportOrder((path,), TraceOptions(kind)), history, look)
    total = report.total
    names = ("attempts_new", "attempts_updated", "unchanged", "rejected", "conflicts")
    return {
        "rows": total.rows,
        "counts": {name: getattr(total, name) for name in names},
        "size_bytes": size_bytes(database),
        "marks": marks,
    }


def to_sql(csv: str, target: str) -> None:
    """What one would write with pandas: chunks, so that memory is bounded."""
    import sqlite3

    import pandas as pd

    conn = sqlite3.connect(target)
    for chunk in pd.read_csv(csv, chunksize=20_000, parse_dates=["timestamp"]):
        chunk.to_sql("t", conn, if_exists="append", index=False)
    conn.commit()
    conn.close()


# -- a database that is there ----------------------------------------------------------------------


def size_bytes(database: str) -> int:
    """The whole database on disk."""
    if database.startswith("sqlite"):
        path = Path(database.removeprefix("sqlite:///"))
        return sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
    with History.open(database) as history, history._engine.connect() as conn:
        return int(conn.execute(text("SELECT pg_database_size(current_database())")).scalar_one())


def query_times(database: str, repeats: int = 20) -> dict[str, Any]:
    """`History.jobs` as `gsched history -u USER -S 30d` calls it; of several kinds of users."""
    kinds = {
        "the busiest user": "user001",
        "a user in the middle": "user151",
        "a busy user who left two years ago": "user000",
    }
    found: dict[str, Any] = {}
    with History.open(database) as history:
        since = history.jobs(HistoryFilter(limit=1))[0].key.epoch - 30 * DAY_S
        for what, user in kinds.items():
            for limit in (51, None):
                wanted = HistoryFilter(users=(user,), since=since, limit=limit)
                taken, jobs = [], 0
                for _ in range(repeats if limit else 3):
                    began = time.perf_counter()
                    jobs = len(history.jobs(wanted))
                    taken.append((time.perf_counter() - began) * 1000)
                found[f"{what}, {'the newest 50' if limit else 'all'}"] = {
                    "jobs": jobs,
                    "ms_first": round(taken[0], 1),
                    "ms_median": round(statistics.median(taken), 1),
                    "ms_max": round(max(taken), 1),
                }
        wanted = HistoryFilter(users=("user001",), since=since, limit=51)
        found["plan"] = plans(history, wanted)
    return found


def plans(history: History, wanted: HistoryFilter) -> list[list[str]]:
    """How the engine carries out each statement of one call."""
    engine = history._engine
    asked: list[tuple[str, Any]] = []
    is_sqlite = engine.dialect.name == "sqlite"

    def note(_conn: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            asked.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    history.jobs(wanted)
    event.remove(engine, "before_cursor_execute", note)
    explain = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN (ANALYZE, COSTS OFF) "
    lines = []
    with engine.connect() as conn:
        for statement, values in asked:
            rows = conn.exec_driver_sql(explain + statement, values).all()
            lines.append([str(row[-1]) for row in rows])
    return lines


def indexes(database: str) -> dict[str, list[str]]:
    """The indexes of jobs and attempts, by table."""
    from sqlalchemy import inspect

    with History.open(database) as history:
        seen = inspect(history._engine)
        return {
            table: sorted(
                {
                    f"{index['name']} ({', '.join(str(name) for name in index['column_names'])})"
                    for index in (*seen.get_indexes(table), *seen.get_unique_constraints(table))
                }
            )
            for table in ("jobs", "attempts")
        }


def ingest_new(database: str, rows: int, first: int, repeats: int = 3) -> dict[str, Any]:
    """New rows of sacct, parsed and merged as `gsched db ingest` does; each time other rows."""
    from gsched.slurm.parse_sacct import parse_sacct

    taken = []
    with History.open(database) as history:
        for turn in range(repeats):
            answer = live_sacct(rows, first + turn * rows)
            began = time.perf_counter()
            batch = parse_sacct(answer, "|", counts_gpus=True)
            summary = history.ingest(batch, source_key="sacct:big")
            taken.append(time.perf_counter() - began)
            assert summary.attempts_new == rows, summary
    return {
        "seconds_median": round(statistics.median(taken), 2),
        "seconds_max": round(max(taken), 2),
        "repeats": repeats,
    }
