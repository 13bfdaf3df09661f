"""What cluster energy saving asks of the history, on SQLite, PostgreSQL and MariaDB.

- Which nodes the 100,000 attempts of the last 90 days held (what the forecast of demand is made
  of), beside 500,000 older ones: 256 nodes, one job in four on several.
- A look at 1,000 nodes in 8 pools (50 spans, 8 counts, the memory) beside 30 days of looks, a
  minute apart, in which each node slept twice a day; and these 30 days, read for a report.

Writes tests/results/ces_database.json: wall-clock seconds, the median of the runs. The servers are
those of the tests, whose commits do not wait for the disk. Recorded, not asserted.

    python tests/bench/bench_ces_database.py [RUNS]
"""

from __future__ import annotations

import json
import platform
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.history import CLUSTER, attempt  # noqa: E402
from support.servers import MariadbServer, PostgresServer, started, url  # noqa: E402

from gsched.model.history import AttemptRecord  # noqa: E402
from gsched.model.node_power import PoolCount, PowerCause, PowerPhase, PowerSpan  # noqa: E402
from gsched.model.times import DAY_S  # noqa: E402
from gsched.model.trace import TraceChunk, columns_of  # noqa: E402
from gsched_sql import History  # noqa: E402

RESULT = ROOT / "tests" / "results" / "ces_database.json"
BEGIN = 1_700_000_000
OLD_DAYS, DAYS = 450, 90
RECENT, OLDER = 100_000, 500_000
NODES = 256
WIDTHS = [1] * 15 + [2, 2, 4, 8, 16]
LOOK_DAYS, LOOK_S = 30, 60
SLEEPERS = 1_000
POOLS = [f"a100x8@p{number}" for number in range(8)]
SINCE = BEGIN + OLD_DAYS * DAY_S
UNTIL = SINCE + DAYS * DAY_S
_AT_ONCE = 20_000


def attempts(number: int, first_id: int, begin: int, days: int) -> Iterator[AttemptRecord]:
    """Ended attempts, spread over some days."""
    rng = random.Random(first_id)
    for n in range(number):
        submit = begin + rng.randrange(days * DAY_S)
        start = submit + rng.randrange(3600)
        width = rng.choice(WIDTHS)
        first = rng.randrange(NODES - width + 1)
        names = f"gn{first:03}" if width == 1 else f"gn[{first:03}-{first + width - 1:03}]"
        yield attempt(
            first_id + n,
            submit,
            start_time=start,
            end_time=min(start + int(rng.lognormvariate(7.5, 2)), UNTIL) + 1,
            user=f"user{n % 300}",
            name=f"train-{n % 2000}",
            num_nodes=width,
            node_list=names,
        )


def fill(location: str) -> None:
    """Jobs, and looks at nodes."""
    with History.open(location) as history:
        for number, first_id, begin, days in (
            (OLDER, 1, BEGIN, OLD_DAYS),
            (RECENT, OLDER + 1, SINCE, DAYS),
        ):
            rows = list(attempts(number, first_id, begin, days))
            for first in range(0, number, _AT_ONCE):
                part = rows[first : first + _AT_ONCE]
                chunk = TraceChunk(columns_of(part), (), len(part), 0, ())
                history.import_chunk(chunk, source_key=None, cursor="")
        log = history.power_log(CLUSTER)
        for day in range(LOOK_DAYS):
            begin = UNTIL - (LOOK_DAYS - day) * DAY_S
            log.keep_counts(
                [count(pool, begin + at) for at in range(0, DAY_S, LOOK_S) for pool in POOLS]
            )
            for half in (0, DAY_S // 2):
                log.keep_spans([s for n in range(SLEEPERS) for s in spans(n, begin + half)])


def count(pool: str, at: int) -> PoolCount:
    """Of a pool of 125 nodes."""
    return PoolCount(pool, at, 80, 5, 1, 37, 2, 0, 0)


def spans(node: int, begin: int) -> Iterator[PowerSpan]:
    """A sleep of ten hours."""
    begin, pool = begin + node, POOLS[node % len(POOLS)]
    name, ces = f"cn{node:04}", PowerCause.CES
    yield PowerSpan(name, pool, PowerPhase.FALLING, begin, begin + 60, ces)
    yield PowerSpan(name, pool, PowerPhase.ASLEEP, begin + 60, begin + 36_000, ces)
    woken = PowerCause.SLURM if node % 4 == 0 else ces
    yield PowerSpan(
        name, pool, PowerPhase.WAKING, begin + 36_000, begin + 36_300, woken, "awake",
        "7" if woken is PowerCause.SLURM else "",
    )  # fmt: skip


def look(history: History, at: int) -> None:
    """Keep what one look has seen: 50 nodes that fell asleep."""
    log = history.power_log(CLUSTER)
    log.keep_spans([next(spans(node, at)) for node in range(50)])
    log.keep_counts([count(pool, at) for pool in POOLS])
    log.remember({"pools": {pool: {"last_wake": at} for pool in POOLS}})


def timed(work: Callable[[], object]) -> float:
    """Seconds that `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def measure(location: str, run: int) -> dict[str, float]:
    """Each answer once, by a process that has just opened the database."""
    with History.open(location) as history:
        log = history.power_log(CLUSTER)
        history.clusters()  # connected
        found = {
            "nodes of the attempts of 90 days": timed(
                lambda: history.node_uses(CLUSTER, SINCE, UNTIL)
            ),
            "nodes of the attempts of the last hour": timed(
                lambda: history.node_uses(CLUSTER, UNTIL - 3600, UNTIL)
            ),
            "a look is kept: 50 spans, 8 counts, the memory": timed(
                lambda: look(history, UNTIL + LOOK_S * run)
            ),
            "open spans": timed(log.open_spans),
            "180,000 spans of 30 days": timed(lambda: log.spans(UNTIL - 30 * DAY_S, UNTIL)),
            "345,600 counts of 30 days": timed(lambda: log.counts(UNTIL - 30 * DAY_S, UNTIL)),
            "counts of the last hour": timed(lambda: log.counts(UNTIL - 3600, UNTIL)),
        }
        assert len(history.node_uses(CLUSTER, SINCE, UNTIL)) >= RECENT
    return found


@contextmanager
def databases() -> Iterator[dict[str, str]]:
    """A database of each engine, by its name."""
    with (
        tempfile.TemporaryDirectory() as folder,
        started(PostgresServer) as postgres,
        started(MariadbServer, data_file="ibdata1:12M:autoextend") as mariadb,
    ):
        yield {
            "SQLite": f"sqlite:///{Path(folder) / 'history.db'}",
            "PostgreSQL": url(postgres, postgres.create_database()),
            "MariaDB": url(mariadb, mariadb.create_database()),
        }


def main() -> None:
    """Measure, print and record."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    figures: dict[str, dict[str, float]] = {}
    with databases() as urls:
        for engine, location in urls.items():
            History.create(location)
            fill(location)
            samples = [measure(location, run) for run in range(runs)]
            for name in samples[0]:
                middle = statistics.median(sample[name] for sample in samples)
                figures.setdefault(name, {})[engine] = round(middle, 3)
                print(f"{middle:8.3f} s  {engine:10}  {name}", flush=True)
    document = {
        "what": "wall-clock seconds; servers with fsync off, SQLite with synchronous=FULL",
        "attempts": {"last 90 days": RECENT, "older": OLDER, "nodes": NODES},
        "runs": runs,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures_s": figures,
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
