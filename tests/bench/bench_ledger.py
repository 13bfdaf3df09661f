"""The ledger of tenants over a history of a million attempts: books of windows, hours, seeding.

Writes tests/results/ledger.json: CPU seconds and peak memory of each, on SQLite. The attempts lie
evenly in one year, of 50 tenants and 200 users, with 1 to 8 GPUs of two types.

    python tests/bench/bench_ledger.py [ATTEMPTS]
"""

from __future__ import annotations

import json
import platform
import random
import resource
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gsched.app.fairness.books import fairness_books
from gsched.app.fairness.hours import hours_of
from gsched.app.fairness.received import received_gpu_s
from gsched.fairness.fading import HOUR_S
from gsched.fairness.metric import metric_account
from gsched.model.accounts import SiteQuotas
from gsched.model.history import Tres
from gsched.model.job import JobState
from gsched.model.times import DAY_S
from gsched.model.trace import AttemptColumns, Cells, Constant, TraceChunk
from gsched_sql import History

RESULT = Path(__file__).parents[1] / "results" / "ledger.json"
CLUSTER = "big"
BEGIN = 1_700_000_000 // HOUR_S * HOUR_S
YEAR_S = 365 * DAY_S
END = BEGIN + YEAR_S
AT_ONCE = 100_000
TENANTS = [f"lab{number}" for number in range(50)]
SITE = SiteQuotas(dict.fromkeys(TENANTS, 10.0), 500.0, "settings", {"v100": 0.5})
GIVEN = {
    gpus: (
        Tres("cpu", 8 * gpus),
        Tres("gres/gpu", gpus),
        Tres(f"gres/gpu:{'a100' if gpus % 2 == 0 else 'v100'}", gpus),
    )
    for gpus in (1, 2, 4, 8)
}


def attempts(dice: random.Random, first: int, count: int, total: int) -> AttemptColumns:
    """Those of some consecutive job ids."""
    rows = range(first, first + count)
    submit = [BEGIN + YEAR_S * row // total for row in rows]
    start = [moment + int(dice.expovariate(1 / 1800)) for moment in submit]
    gpus = [dice.choice((1, 1, 1, 2, 4, 8)) for _ in rows]
    told: dict[str, Cells] = {
        "job_id": [row + 1 for row in rows],
        "submit_time": submit,
        "eligible_time": submit,
        "start_time": start,
        "end_time": [moment + 1 + int(dice.lognormvariate(7, 1.5)) for moment in start],
        "user": [f"u{dice.randrange(200)}" for _ in rows],
        "tenant": [dice.choice(TENANTS) for _ in rows],
        "num_gpus": gpus,
        "allocated": [GIVEN[number] for number in gpus],
    }
    alike = {
        "cluster": CLUSTER,
        "state": JobState.COMPLETED,
        "state_text": "COMPLETED",
        "source": "sacct",
        "partition": "gpu",
        "name": "train",
        "time_limit_s": DAY_S,
        "num_nodes": 1,
        "node_list": "n1",
    }
    return AttemptColumns(count, told | {name: Constant(value) for name, value in alike.items()})


def measured(work: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What it gives, and its CPU seconds with the process's peak of memory after it."""
    began = time.process_time()
    found = work()
    spent_s = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return found, {"cpu_s": round(spent_s, 2), "peak_mib": round(peak)}


def figures_of(history: History) -> dict[str, Any]:
    """In an order in which the peak of memory rises."""
    found: dict[str, Any] = {}
    last = END // HOUR_S * HOUR_S
    _, found["hours closed, 25"] = measured(
        lambda: hours_of(history, CLUSTER, last - 25 * HOUR_S, last, SITE)
    )
    for days in (1, 30, 98, 365):
        window = END - days * DAY_S, END
        (books, _), told = measured(partial(fairness_books, history, CLUSTER, *window, SITE))
        _, metric = measured(partial(metric_account, books, *window))
        found[f"books of {days} days"] = {"jobs": len(books.tenant), **told}
        found[f"metric of {days} days"] = metric
    _, found["a policy seeded, half-life 7 days"] = measured(
        lambda: received_gpu_s(history, CLUSTER, END, 7.0 * DAY_S, by_worth=True)
    )
    middle = BEGIN + 100 * DAY_S
    _, found["a backlog of 31 days closed"] = measured(
        lambda: hours_of(history, CLUSTER, middle, middle + 31 * DAY_S, SITE)
    )
    return found


def main() -> None:
    """Make the history, measure, print and record."""
    total = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    dice = random.Random(1)
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/history.db"
        History.create(url)
        with History.open(url) as history:
            for first in range(0, total, AT_ONCE):
                count = min(AT_ONCE, total - first)
                chunk = TraceChunk(attempts(dice, first, count, total), rows_in=count)
                history.import_chunk(chunk, source_key=None, cursor="")
            figures = figures_of(history)
    for name, told in figures.items():
        print(f"{told['cpu_s']:7.2f} s {told['peak_mib']:6d} MiB  {name}")
    document = {
        "what": "CPU seconds (user + system) and the process's peak memory so far",
        "attempts": total,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "figures": figures,
    }
    RESULT.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
