"""Expected starts on a real Slurm beside Slurm's own and the truth: results/forecast_live.json.

A private Slurm of two nodes. Each job asks for a few times as long as it will run, as people do;
its name is one of a few scripts, of which the history knows earlier runs. The daemon observes, so
that the order is Slurm's own. Every few seconds it is written down when each waiting job is
expected to start, by the daemon (median and interval of 80 %) and by ``squeue --start``, which
reckons with time limits; at the end Slurm tells when each really started. Figures are of each
job's first pair, and of all of them, which are many a job and not independent. About five minutes
a seed and length of limits.

    python tests/bench/bench_forecast_live.py [--seeds N …] [--times N …] [--jobs N]
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.history import attempt, batch
from support.site import GSCHED, Site, fresh_site

from gsched.daemon.status_file import parse_status
from gsched.testbed.background import Background
from gsched.testbed.wait import wait_for
from gsched_sql import History

RESULT = Path(__file__).parents[1] / "results" / "forecast_live.json"
NUM_SCRIPTS, RUNS_EACH = 24, 15
SPREAD = 0.35
"""Standard deviation of ln(run time) of one script."""
TIMES_TOO_LONG = (3, 10)
"""Time limits are so many times as long as the script's typical run, in whole minutes."""
SUBMIT_S = 60.0
SAMPLE_S = 5.0
DAY_S = 86400
USERS = ("games", "news")


@dataclass(frozen=True)
class Script:
    """A job as somebody runs it again and again."""

    name: str
    user: str
    gpus: int
    typical_s: float

    def duration_s(self, rng: random.Random) -> float:
        return self.typical_s * math.exp(rng.gauss(0.0, SPREAD))


@dataclass(frozen=True)
class Pair:
    """What was expected of a job at one moment (epoch seconds)."""

    job: int
    at: float
    median: float
    low: float
    high: float
    slurm: float


def scripts(rng: random.Random) -> list[Script]:
    return [
        Script(
            f"script{n:02}",
            USERS[n % len(USERS)],
            rng.choice((1, 1, 2, 4, 8)),
            8.0 * math.exp(rng.random() * math.log(6.0)),
        )
        for n in range(NUM_SCRIPTS)
    ]


def remember(site: Site, known: Sequence[Script], times: float, rng: random.Random) -> None:
    """Earlier runs of the scripts, over the ten days before today, and a model fitted to them."""
    cluster = site.slurm("scontrol", "show", "config").partition("ClusterName")[2].split()[1]
    now, records = int(time.time()), []
    for number in range(NUM_SCRIPTS * RUNS_EACH):
        script = known[number % NUM_SCRIPTS]
        submit = now - 11 * DAY_S + int(rng.random() * 10 * DAY_S)
        records.append(
            attempt(
                100_000 + number, submit, cluster=cluster, user=script.user, name=script.name,
                num_gpus=script.gpus, num_cpus=1, allocated=(), start_time=submit + 60,
                end_time=submit + 60 + max(1, round(script.duration_s(rng))),
                time_limit_s=limit_s(times * script.typical_s), node_list="gn01",
            )
        )  # fmt: skip
    with History.open(f"sqlite:///{site.state}/history.db") as history:
        history.ingest(batch(*records), source_key=None)
    site.ok("predict", "train")


def limit_s(duration_s: float) -> int:
    """As Slurm takes it, in whole minutes."""
    return 60 * math.ceil(duration_s / 60.0)


def submit_all(
    site: Site, known: Sequence[Script], times: float, count: int, rng: random.Random
) -> list[int]:
    """The jobs, one after the other over SUBMIT_S."""
    began, ids = time.monotonic(), []
    for number in range(count):
        script = rng.choice(known)
        duration_s = script.duration_s(rng)
        time.sleep(max(0.0, began + number * SUBMIT_S / count - time.monotonic()))
        words = [
            *("sbatch", "--parsable", "-J", script.name, f"--gres=gpu:{script.gpus}"),
            *("-o", "/dev/null", "-t", str(limit_s(times * script.typical_s) // 60)),
        ]
        ids.append(int(site.slurm(*words, "--wrap", f"sleep {duration_s:.1f}", user=script.user)))
    return ids


def look(site: Site) -> list[Pair]:
    """All pairs of this moment."""
    document = parse_status((site.state / "status.json").read_text())
    words = ["squeue", "--start", "-h", "-t", "PD", "-o", "%A %S"]
    answer = site.bed.run(words, extra_env={"SLURM_TIME_FORMAT": "%s"}).stdout.split()
    slurms = dict(zip(answer[::2], answer[1::2], strict=True))
    pairs = []
    for name, said in (document or {"jobs": {}})["jobs"].items():
        start, slurm = said.get("start"), slurms.get(name, "")
        if start and slurm.isdecimal():
            told = (float(start[key]) for key in ("median", "low", "high"))
            pairs.append(Pair(int(name), float(start["as_of"]), *told, float(slurm)))
    return pairs


def started(site: Site) -> dict[int, float]:
    """When each job started."""
    words = ["squeue", "-h", "-t", "all", "-o", "%A %S"]
    answer = site.bed.run(words, extra_env={"SLURM_TIME_FORMAT": "%s"}).stdout.split()
    return {int(a): float(b) for a, b in zip(answer[::2], answer[1::2], strict=True)}


def trial(seed: int, times: float, jobs: int) -> dict[str, Any]:
    """One workload on one cluster."""
    rng = random.Random(seed)
    known = scripts(rng)
    with fresh_site(num_nodes=2) as site:
        remember(site, known, times, rng)
        site.configure("forecast", interval_s="5", cpu_share="1.0")
        log = site.bed.spec.root / "daemon.log"
        with Background(site.bed, [GSCHED, "daemon", "run", "--interval", "2"], log):
            wait_for(lambda: (site.state / "status.json").exists(), "the first round")
            site.submit("first", 1, "games")
            wait_for(
                lambda: site.json("daemon", "status")["forecast"]["as_of"], "a forecast", 300.0
            )
            ids = submit_all(site, known, times, jobs, rng)
            pairs: list[Pair] = []
            while not {"PENDING"}.isdisjoint(site.states().values()):
                pairs += look(site)
                time.sleep(SAMPLE_S)
            forecast = site.json("daemon", "status")["forecast"]
        truth = started(site)
    mine = [pair for pair in pairs if pair.job in ids]
    first = {pair.job: pair for pair in reversed(mine)}
    return {
        "jobs": len(ids),
        "jobs that waited long enough to be seen": len(first),
        "first pair of each": figures(list(first.values()), truth),
        "all pairs": figures(mine, truth),
        "failures of the forecasting process": forecast["failures"],
    }


def figures(pairs: Sequence[Pair], truth: dict[int, float]) -> dict[str, Any]:
    """Errors in seconds; `covered` of `pairs` started within the interval."""
    if not pairs:
        return {"pairs": 0}

    def spread(errors: list[float]) -> dict[str, float]:
        return {
            "median_absolute_error_s": round(statistics.median(map(abs, errors)), 1),
            "mean_absolute_error_s": round(statistics.fmean(map(abs, errors)), 1),
            "mean_error_s": round(statistics.fmean(errors), 1),
        }

    covered = sum(1 for p in pairs if p.low <= truth[p.job] <= p.high)
    return {
        "pairs": len(pairs),
        "median_wait_s": round(statistics.median(truth[p.job] - p.at for p in pairs), 1),
        "gsched": spread([p.median - truth[p.job] for p in pairs]),
        "squeue --start": spread([p.slurm - truth[p.job] for p in pairs]),
        "covered": covered,
        "coverage": round(covered / len(pairs), 3),
        "closer_than_squeue": sum(
            1 for p in pairs if abs(p.median - truth[p.job]) < abs(p.slurm - truth[p.job])
        ),
        "median_width_of_interval_s": round(statistics.median(p.high - p.low for p in pairs), 1),
    }


def main() -> None:
    """Run the trials one after the other, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--times", type=float, nargs="+", default=TIMES_TOO_LONG)
    parser.add_argument("--jobs", type=int, default=60)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    document = {
        "what": "expected starts on a private Slurm of 2 nodes with 8 GPUs each; the interval is "
        "meant to hold 80 %, uncalibrated where calibration has too few forecasts to learn from",
        "history_jobs": NUM_SCRIPTS * RUNS_EACH,
        "limits": {
            f"{times:g} times the typical run time, in whole minutes": {
                f"seed {seed}": trial(seed, times, chosen.jobs) for seed in chosen.seeds
            }
            for times in chosen.times
        },
    }
    chosen.out.write_text(json.dumps(document, indent=1) + "\n")
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
