"""What the duration model costs: a refit with loading, predictions for a long queue, one update.

    python tests/bench/bench_predict_speed.py [JOBS…]

Writes tests/results/predict_speed.json, for 100,000 and 1,000,000 jobs unless told otherwise:
saved sacct text with users and names (tests/support/synthetic.py) is imported into SQLite; then, in
processes of their own,

1. refit: the jobs are read from the database, a model is fitted and its file written;
2. predict: the file is loaded, 5,000 pending jobs are predicted (the first time and the median of
   7 more), and 1,000 ended jobs are observed one by one. The pending jobs are the newest of the
   history, and once more with 5,000 names that nobody has used before and that are like none, the
   most expensive ones.

Recorded, not asserted.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from support.database_bench import Timed, run_timed, timed_import  # noqa: E402
from support.jobs import view  # noqa: E402
from support.synthetic import write_sacct  # noqa: E402

from gsched.model.history import PastJob  # noqa: E402
from gsched.model.job import JobView  # noqa: E402
from gsched_sql import History  # noqa: E402

RESULT = ROOT / "tests" / "results" / "predict_speed.json"
CLUSTER, DISK = "big", "/var/tmp"  # /tmp may be memory
SIZES = (100_000, 1_000_000)
NUM_PENDING, NUM_OBSERVED, REPEATS = 5_000, 1_000, 7
_END = 2**40


def refit(database: str, model_file: str) -> dict[str, Any]:
    """Seconds of each step of a refit, and what was learnt."""
    began = time.perf_counter()
    from gsched.predict.model import DurationModel
    from gsched.predict.store import save

    steps = {"imports_s": time.perf_counter() - began}
    with History.open(database) as history:
        past, steps["read_s"] = timed(lambda: history.past_jobs(CLUSTER, 0, _END).jobs)
    model, steps["fit_s"] = timed(lambda: DurationModel.fit(past, _END, 0))
    _, steps["save_s"] = timed(lambda: save(model, Path(model_file)))
    kinds = {
        kind: {"num_jobs": info.num_jobs, "num_rows": info.num_rows, "lambda": info.lam}
        for kind, info in model.info.kinds.items()
    }
    return {
        "num_jobs": model.info.num_jobs,
        "kinds": kinds,
        "steps": {name: round(seconds, 2) for name, seconds in steps.items()},
        "file_bytes": Path(model_file).stat().st_size,
    }


def predict(database: str, model_file: str) -> dict[str, Any]:
    """Seconds of loading, milliseconds of predicting a queue and of one update."""
    from gsched.predict.store import load

    model, load_s = timed(lambda: load(Path(model_file)))
    with History.open(database) as history:
        ended = history.past_jobs(CLUSTER, 0, _END).jobs
    now = model.info.data_until + 60
    newest = ended[-NUM_PENDING:]
    strange = [replace(job, name=f"{i * 7919:x}q" * 4) for i, job in enumerate(newest)]
    found = {
        name: queue_times(model.predict, [pending(job, now) for job in jobs], now)
        for name, jobs in (("newest", newest), ("strange_names", strange))
    }
    updates_ms = [
        timed(lambda job=job: model.observe(job))[1] * 1e3
        for job in (replace(job, end_time=now, start_time=now - 60) for job in ended[:NUM_OBSERVED])
    ]
    return {
        "load_s": round(load_s, 3),
        "pending": found,
        "observe_ms": {
            "num_jobs": len(updates_ms),
            "median": round(statistics.median(updates_ms), 3),
            "largest": round(max(updates_ms), 3),
        },
    }


def queue_times(
    predict: Callable[[list[JobView], int], object], jobs: list[JobView], now: int
) -> dict[str, Any]:
    """Milliseconds for all of them together; those of the processor differ on a busy machine."""
    first_ms = timed(lambda: predict(jobs, now))[1] * 1e3
    cpu_began = time.process_time()
    later_ms = [timed(lambda: predict(jobs, now))[1] * 1e3 for _ in range(REPEATS)]
    cpu_ms = (time.process_time() - cpu_began) / REPEATS * 1e3
    return {
        "num_jobs": len(jobs),
        "num_names": len({(job.user, job.name) for job in jobs}),
        "first_ms": round(first_ms, 1),
        "median_ms": round(statistics.median(later_ms), 1),
        "mean_cpu_ms": round(cpu_ms, 1),
    }


def pending(job: PastJob, now: int) -> JobView:
    """A waiting job like one that has ended."""
    return view(
        job.job_id,
        user=job.user,
        name=job.name,
        gpus=job.num_gpus,
        cpus=job.num_cpus or 0,
        submit=now,
        partitions=(job.partition,),
        time_limit_s=job.time_limit_s,
    )


def timed(act: Callable[[], Any]) -> tuple[Any, float]:
    """What `act` gives, and the seconds that it took."""
    began = time.perf_counter()
    result = act()
    return result, time.perf_counter() - began


def measure(jobs: int) -> dict[str, Any]:
    """All parts for a history of so many jobs."""
    with tempfile.TemporaryDirectory(dir=DISK) as folder:
        text, model_file = str(Path(folder) / "saved.sacct"), str(Path(folder) / "a.gsmodel")
        database = f"sqlite:///{folder}/history.db"
        write_sacct(Path(text), jobs)
        History.create(database)
        _child("import", database, text)
        refitted = _child("refit", database, model_file)
        predicted = _child("predict", database, model_file)
    told = {
        "seconds": round(refitted.seconds, 1),
        "cpu_s": round(refitted.cpu_s, 1),
        "max_rss_mib": round(refitted.max_rss_mib),
    }
    return {"refit": told | refitted.answer, "predict": predicted.answer}


def _child(part: str, *args: str) -> Timed:
    return run_timed([sys.executable, __file__, part, *args])


def main(argv: list[str]) -> int:
    """The parent measures and writes; a child does one part and prints JSON."""
    parts = {"refit": refit, "predict": predict}
    if argv and argv[0] == "import":
        print(json.dumps({"rows": timed_import(argv[1], "sacct", argv[2])["rows"]}))
        return 0
    if argv and argv[0] in parts:
        print(json.dumps(parts[argv[0]](argv[1], argv[2])))
        return 0
    sizes = [int(size) for size in argv] or list(SIZES)
    machine = {"cpu": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    result = {"machine": machine, "load": os.getloadavg()[0], "histories": {}}
    for size in sizes:
        result["histories"][str(size)] = measure(size)
        print(json.dumps(result["histories"][str(size)], indent=1), flush=True)
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
