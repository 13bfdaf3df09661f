"""What ten years of history cost: import, size, `gsched history`, an ingest of new rows.

Writes tests/results/database.json, for SQLite on this machine's disk and for a PostgreSQL that is
started here (fsync on, else Debian's defaults). Recorded, not asserted. Three parts:

1. 1 M rows of a Philly-like CSV, side by side and in turn: gsched into both engines, sqlite3's own
   ``.import`` into an untyped table without an index, pandas' ``to_sql``; then the file again.
2. 10 M rows of it into SQLite: pace and size at each million, memory.
3. 10 M rows of saved sacct text, with users and names, into both engines: size of a job, what the
   usual query of `gsched history` (one user, 30 days) takes, with its plan, and an ingest of 5,000
   new rows.

    python tests/bench/bench_database.py [SMALL [LARGE [RUNS [PART…]]]]

With the defaults it takes an hour and 20 GB of /var/tmp. Rows that are generated are the same each
time (tests/support/synthetic.py).
"""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.database_bench import (  # noqa: E402
    DurablePostgres,
    Timed,
    indexes,
    ingest_new,
    query_times,
    run_timed,
    timed_import,
    to_sql,
)
from support.servers import started, url  # noqa: E402
from support.synthetic import JOBS_A_YEAR, write_philly, write_sacct  # noqa: E402

from gsched_sql import History  # noqa: E402

RESULT = ROOT / "tests" / "results" / "database.json"
DISK = "/var/tmp"  # /tmp may be memory
NEW_ROWS = 5_000


class Place:
    """Where databases are made and forgotten."""

    def __init__(self, folder: Path, server: DurablePostgres) -> None:
        self.folder = folder
        self.server = server
        self._made = 0

    @contextmanager
    def database(self, engine: str) -> Iterator[str]:
        """URL of a fresh database with gsched's tables."""
        self._made += 1
        if engine == "sqlite":
            path = self.folder / f"history-{self._made}.db"
            History.create(f"sqlite:///{path}")
            yield f"sqlite:///{path}"
            for part in self.folder.glob(f"{path.name}*"):
                part.unlink()
        else:
            name = self.server.create_database()
            where = url(self.server, name)
            History.create(where)
            yield where
            self.server.drop_database(name)


def gsched_import(database: str, kind: str, path: Path) -> Timed:
    """`gsched db import` in a process of its own, up to its report."""
    return run_timed([sys.executable, __file__, "import", database, kind, str(path)])


def side_by_side(place: Place, csv: Path, rows: int, runs: int) -> dict[str, Any]:
    """The same CSV by several ways, each in turn, `runs` times."""
    samples: dict[str, list[Timed]] = {}
    sizes: dict[str, int] = {}

    def note(name: str, found: Timed, size: int) -> None:
        samples.setdefault(name, []).append(found)
        sizes[name] = size
        print(f"{name:45} {found.seconds:8.1f} s", flush=True)

    for _ in range(runs):
        for engine in ("sqlite", "postgresql"):
            with place.database(engine) as database:
                found = gsched_import(database, "philly", csv)
                note(f"gsched db import, {engine}", found, found.answer["size_bytes"])
                again = gsched_import(database, "philly", csv)
                note(f"the same file again, {engine}", again, again.answer["size_bytes"])
        target = place.folder / "bare.db"
        script = f".import --skip 1 {csv} t"
        create = "CREATE TABLE t (timestamp, duration, num_gpus, gpu_time, cluster)"
        argv = ["sqlite3", str(target), "-cmd", ".mode csv", create, script]
        note("sqlite3 .import", run_timed(argv), target.stat().st_size)
        target.unlink()
        argv = [sys.executable, __file__, "to_sql", str(csv), str(target)]
        note("pandas read_csv and to_sql", run_timed(argv), target.stat().st_size)
        target.unlink()
    return {name: summary(found, rows, sizes[name]) for name, found in samples.items()}


def summary(found: list[Timed], rows: int, size: int) -> dict[str, Any]:
    """Median and extremes of several runs of one way."""
    seconds = [one.seconds for one in found]
    return {
        "seconds_median": round(statistics.median(seconds), 2),
        "seconds_min": round(min(seconds), 2),
        "seconds_max": round(max(seconds), 2),
        "rows_a_second": round(rows / statistics.median(seconds)),
        "cpu_s_median": round(statistics.median(one.cpu_s for one in found), 2),
        "max_rss_mib": round(max(one.max_rss_mib for one in found)),
        "size_bytes": size,
        "counts": found[-1].answer.get("counts"),
    }


def growth(found: Timed, rows: int) -> dict[str, Any]:
    """A long import: its pace at each million, what a job takes, what a year will take."""
    size = found.answer["size_bytes"]
    return {
        "rows": rows,
        "seconds": round(found.seconds, 1),
        "cpu_s": round(found.cpu_s, 1),
        "rows_a_second": round(rows / found.seconds),
        "max_rss_mib": round(found.max_rss_mib),
        "size_bytes": size,
        "bytes_a_job": round(size / rows),
        f"mib_a_year_of_{JOBS_A_YEAR:,}_jobs": round(size / rows * JOBS_A_YEAR / 2**20),
        "marks": found.answer["marks"],
        "counts": found.answer["counts"],
    }


def large_history(place: Place, engine: str, path: Path, rows: int) -> dict[str, Any]:
    """Import of sacct text, then what is asked of a database of that size every day."""
    with place.database(engine) as database:
        found = growth(gsched_import(database, "sacct", path), rows)
        print(f"{engine}: {rows:,} rows of sacct in {found['seconds']} s", flush=True)
        if engine == "postgresql":
            name = database.rpartition("/")[2]
            place.server.execute("ANALYZE", database=name)  # as autovacuum does in the end
        found["history, one user, 30 days"] = query_times(database)
        found["indexes"] = indexes(database)
        found[f"ingest of {NEW_ROWS:,} new rows"] = ingest_new(database, NEW_ROWS, rows)
        return found


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    cpu = next(
        line.partition(": ")[2]
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "machine": f"{platform.machine()}, {cpu}, {os.cpu_count()} cores, {memory >> 30} GiB",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "postgresql": DurablePostgres.version(),
        "commit": run_timed(["git", "-C", str(ROOT), "describe", "--always", "--dirty"]).stdout,
    }


def main() -> None:
    """Measure, print and record; or be one of the processes that are measured."""
    match sys.argv[1:]:
        case ["import", database, kind, source]:
            print(json.dumps(timed_import(database, kind, source)))
            return
        case ["to_sql", source, target]:
            to_sql(source, target)
            return
    numbers = [int(word.replace("_", "")) for word in sys.argv[1:4]]
    small, large, runs = [*numbers, *(1_000_000, 10_000_000, 3)[len(numbers) :]]
    chosen = sys.argv[4:]
    with (
        tempfile.TemporaryDirectory(dir=DISK) as name,
        started(DurablePostgres, below=DISK) as server,
    ):
        place = Place(Path(name), server)
        for part, measure in parts(place, small, large, runs).items():
            if not chosen or part in chosen:
                record(part, measure())


def parts(
    place: Place, small: int, large: int, runs: int
) -> dict[str, Callable[[], dict[str, Any]]]:
    """What can be measured, by the name that it has in the results."""
    csv, text = place.folder / "philly.csv", place.folder / "sacct.txt"

    def beside() -> dict[str, Any]:
        write_philly(csv, small)
        return {"rows": small, "runs": runs, "ways": side_by_side(place, csv, small, runs)}

    def philly() -> dict[str, Any]:
        write_philly(csv, large)
        with place.database("sqlite") as database:
            return growth(gsched_import(database, "philly", csv), large)

    def sacct(engine: str) -> dict[str, Any]:
        if not text.exists():
            write_sacct(text, large)
        return large_history(place, engine, text, large)

    return {
        "side-by-side": beside,
        "philly-sqlite": philly,
        "sacct-sqlite": lambda: sacct("sqlite"),
        "sacct-postgresql": lambda: sacct("postgresql"),
    }


def record(part: str, found: dict[str, Any]) -> None:
    """Keep one part's figures at once, with the machine and commit that they are of."""
    known = json.loads(RESULT.read_text("utf-8")) if RESULT.exists() else {"figures": {}}
    what = "whole processes, wall-clock seconds; sqlite synchronous=FULL, postgresql fsync=on"
    figures = known["figures"] | {part: {**machine(), **found}}
    RESULT.parent.mkdir(exist_ok=True)
    document = {"what": what, "figures": figures}
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
