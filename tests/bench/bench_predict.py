"""How well the duration model predicts real logs that have users and names, walking forward.

Run from the repository root: ``python tests/bench/bench_predict.py``. Reads
``../shared/traces/named``, prints a table and writes ``tests/results/predict.json``. Each log's
second half is predicted in six periods; before each one the model is refitted on all that ended
before. Every job is predicted when it was submitted.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import itertools
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gsched.model.history import PastJob
from gsched.model.job import JobState
from gsched.predict.attributes import select_jobs
from gsched.predict.validation import Seconds, compare, log_error, rank_correlation, validate

ROOT = Path(__file__).resolve().parents[2]
NAMED = ROOT.parent / "shared" / "traces" / "named"
RESULT = ROOT / "tests" / "results" / "predict.json"
PERIODS = 6


def iu_mason(path: Path) -> Iterator[PastJob]:
    """Pseudonymised PBS records; array elements count as jobs of their array."""
    with gzip.open(path, "rt", newline="") as f:
        for row in csv.DictReader(f):
            yield PastJob(
                cluster="mason",
                job_id=int(row["job_id"].partition("[")[0]),
                submit_time=int(row["submit"]),
                start_time=int(row["start"]),
                end_time=int(row["end"]),
                user=row["user"],
                tenant=row["group"],
                partition=row["queue"],
                name=row["job_name"],
                num_gpus=0,
                num_cpus=int(row["slots"]),
                num_nodes=int(row["nodes"]),
                time_limit_s=int(row["walltime_req_s"]),
                state=JobState.COMPLETED,
            )


def llnl_atlas(path: Path) -> Iterator[PastJob]:
    """Standard workload format; the executable's number is the name, waits are unknown."""
    with gzip.open(path, "rt", errors="replace") as f:
        for line in f:
            fields = line.split()
            if line.startswith(";") or len(fields) < 18 or int(fields[3]) < 0:
                continue
            number, submit, runtime, cpus = (int(fields[i]) for i in (0, 1, 3, 4))
            yield PastJob(
                cluster="atlas",
                job_id=number,
                submit_time=1 + submit,
                start_time=1 + submit,
                end_time=1 + submit + runtime,
                user=fields[11],
                tenant=fields[12],
                partition=fields[15],
                name=fields[13],
                num_gpus=0,
                num_cpus=max(cpus, 1),
                num_nodes=1,
                time_limit_s=None if int(fields[8]) < 0 else int(fields[8]),
                state=JobState.COMPLETED,
            )


LOGS = {
    "iu-mason-2017": ("iu-mason-2017/mason_jobs.csv.gz", iu_mason),
    "llnl-atlas-2006": ("llnl-atlas-2006/LLNL-Atlas-2006-2.1-cln.swf.gz", llnl_atlas),
}


@dataclass
class Walk:
    """Predictions for the second half of one log, in seconds, beside the truth."""

    predicted_s: dict[str, Seconds]
    actual_s: Seconds
    num_units: Seconds
    lambdas: list[float]


def walk_forward(jobs: list[PastJob]) -> Walk:
    """Refit before each period, predict its jobs at their submission."""
    jobs = sorted(jobs, key=lambda j: (j.submit_time, j.job_id))
    half = [job.submit_time for job in jobs[len(jobs) // 2 :]]
    edges = [half[len(half) * i // PERIODS] for i in range(PERIODS)] + [half[-1] + 1]
    columns: dict[str, list[Seconds]] = {}
    lambdas = []
    for since, until in itertools.pairwise(edges):
        train, _ = select_jobs(jobs, since)
        wanted = [job for job in jobs if since <= job.submit_time < until]
        validation = validate(train)
        if not wanted or validation is None:
            continue
        comparison = compare(train, wanted, since)
        lambdas.append(validation.lam)
        period: Mapping[str, Seconds] = {
            "model": comparison.blend(validation.lam),
            **comparison.predicted_s,
            "actual": comparison.actual_s,
            "units": comparison.num_units,
        }
        for name, values in period.items():
            columns.setdefault(name, []).append(values)
    joined = {name: np.concatenate(parts) for name, parts in columns.items()}
    return Walk(
        actual_s=joined.pop("actual"),
        num_units=joined.pop("units"),
        predicted_s=joined,
        lambdas=lambdas,
    )


def score(walk: Walk) -> dict[str, dict[str, float]]:
    """By estimator: rank correlation of duration and of CPU-time, median logarithmic error."""
    return {
        name: {
            "rank_correlation": round(rank_correlation(values, walk.actual_s), 4),
            "rank_correlation_cpu_time": round(
                rank_correlation(values * walk.num_units, walk.actual_s * walk.num_units), 4
            ),
            "median_log_error": round(log_error(values, walk.actual_s), 4),
        }
        for name, values in walk.predicted_s.items()
    }


def main() -> int:
    """Print and write the figures of every log."""
    results = {}
    for name, (where, read) in LOGS.items():
        path = NAMED / where
        if not path.is_file():
            print(f"{path} is absent: this bench needs the shared traces", file=sys.stderr)
            return 1
        jobs = list(read(path))
        walk = walk_forward(jobs)
        scores = score(walk)
        results[name] = {
            "input_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            "num_jobs": len(jobs),
            "num_predicted": len(walk.actual_s),
            "lambdas": walk.lambdas,
            "scores": scores,
        }
        print(f"{name}: {len(jobs)} jobs, {len(walk.actual_s)} predicted, λ {walk.lambdas}")
        print(f"  {'':12} {'rank':>7} {'rank·N':>7} {'log error':>9}")
        for estimator, figures in scores.items():
            print(
                f"  {estimator:12} {figures['rank_correlation']:7.3f} "
                f"{figures['rank_correlation_cpu_time']:7.3f} {figures['median_log_error']:9.3f}"
            )
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
