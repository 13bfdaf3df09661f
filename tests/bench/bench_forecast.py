"""How good the forecasts of starts are, by replaying real logs.

Run from the repository root: ``python tests/bench/bench_forecast.py``. Reads ``../shared/traces``,
prints a table and writes ``tests/results/forecast.json``. At sampled submissions of each week the
start of the job is forecast from what was known then, with run times as they were predicted then,
and compared with the truth: recorded where the log tells it, else simulated (Slurm's backfill, QSSF
order). Parameters are fixed on the logs that tune; the others judge, once. ``--tuning`` leaves the
others alone, ``--a-week N`` makes fewer forecasts; neither writes the file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gsched.forecast.outlook import ForecastOptions

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import forecast_naive
from support.forecast_log import ReplayLog, replay_log
from support.forecast_order import Agreement, agreement
from support.forecast_replay import (
    BY_LIMITS,
    first_judged,
    judged_rows,
    replay,
    simulator,
    walked_quantiles,
)
from support.forecast_scores import report
from support.named_logs import LOGS

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "tests" / "results" / "forecast.json"

A_WEEK = 20
AT_LEAST = 250
"""Forecasts a log, where that takes more than A_WEEK."""

WORKERS = 2

PARTS: Mapping[str, tuple[int | None, int]] = {
    "cerit-wagap-2013": (None, 0),
    "kth-sp2-1996": (None, 0),
    "llnl-atlas-2006": (None, 0),
    "iu-mason-2017": (None, 0),
    "philly": (50_000, 5_000),
    "itp": (None, 0),
    "cea-curie-sample": (None, 0),
    "nasa-ipsc-1993": (None, 0),
    "pozidriv": (None, 0),
}
"""Log → how many of its jobs (None: all), after how many; what takes longest first. NREL Eagle has
1,000 jobs, drawn from many more: its queue is not in it."""


def judge(name: str, a_week: int, at_least: int) -> dict[str, Any]:
    """All figures of one log."""
    began = time.perf_counter()
    log = replay_log(name, *PARTS[name])
    rows = judged_rows(log, a_week, at_least)
    order = agreement(log, first_judged(log))
    judged = replay(log, rows, simulator(log, walked_quantiles(log)), order.order)
    return {
        "judges": LOGS[name].judges,
        "assumed": _assumed(log, order),
        "input_sha256": _digest(LOGS[name].files),
        "num_jobs": len(log),
        "first_jobs_left_out": PARTS[name][1],
        "seconds": round(time.perf_counter() - began, 1),
        **report(judged),
    }


def _assumed(log: ReplayLog, order: Agreement) -> dict[str, Any]:
    told = LOGS[log.name]
    return {
        "starts": log.starts,
        "order": order.order,
        "order_agreed": {name: round(share, 3) for name, share in order.shares.items()},
        "unit": told.unit,
        "nodes": log.num_nodes,
        "units_a_node": log.node_units,
        "limits": "as requested" if told.has_limits else "drawn: 1 to 30 times the run",
        "names": told.has_names,
    }


def _digest(files: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def show(name: str, found: Mapping[str, Any]) -> None:
    """One log as a table."""
    print(f"\n{name}: {found['num_jobs']:,} jobs, starts {found['assumed']['starts']}")
    for group in ("all", "behind_others", "waited_over_60_s"):
        figures = found[group]
        if not figures["num_forecasts"]:
            continue
        shown, raw = figures["coverage"], figures["coverage_uncalibrated"]
        worst = shown["worst_week"] or {"share": float("nan"), "num_forecasts": 0}
        print(
            f"  {group}: {figures['num_forecasts']:,} forecasts, median wait "
            f"{figures['median_wait_s']:,.0f} s; coverage {shown['share']:.3f} "
            f"{shown.get('share_interval')} (before correction {raw['share']:.3f}), worst week "
            f"{worst['share']:.2f} of {worst['num_forecasts']}; width "
            f"{shown['median_width_s']:,.0f} s, score {shown['interval_score_s']:,.0f} s"
        )
        for method, error in figures["errors"].items():
            print(
                f"    {method:13} error: median {error['median_absolute_error_s']:>9,.0f} s, mean "
                f"{error['mean_absolute_error_s']:>9,.0f} s, log {error['median_log_error']:5.2f}; "
                f"forecast/this {error['error_ratio']} {error['error_ratio_interval']}"
            )


def pooled(logs: Mapping[str, Any]) -> dict[str, Any]:
    """Coverage over the logs that judge: those whose starts are recorded apart from those whose
    starts come from the simulator that forecasts, too.
    """
    told = {}
    for starts in ("recorded", "simulated"):
        names = [n for n, f in logs.items() if f["judges"] and f["assumed"]["starts"] == starts]
        groups = {}
        for group in ("all", "behind_others", "waited_over_60_s"):
            found = [logs[n][group]["coverage"] for n in names if logs[n][group]["num_forecasts"]]
            inside = sum(one["num_inside"] for one in found)
            forecasts = sum(logs[n][group]["num_forecasts"] for n in names)
            share = round(inside / forecasts, 4) if forecasts else None
            groups[group] = {"num_forecasts": forecasts, "num_inside": inside, "share": share}
        told[starts] = {"logs": names, **groups}
    return told


def main() -> int:
    """Replay the logs, print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tuning", action="store_true", help="only the logs that tune")
    parser.add_argument("--a-week", type=int, help="forecasts a week of each log")
    parser.add_argument("--log", action="append", choices=PARTS, help="only this log")
    chosen = parser.parse_args()
    names = [n for n in PARTS if not chosen.log or n in chosen.log]
    if chosen.tuning:
        names = [name for name in names if not LOGS[name].judges]
    if missing := [n for n in names if not LOGS[n].files[0].is_file()]:
        print(f"{', '.join(missing)}: this bench needs the shared traces", file=sys.stderr)
        return 1
    is_whole = chosen.a_week is None and len(names) == len(PARTS)
    a_week, at_least = (A_WEEK, AT_LEAST) if chosen.a_week is None else (chosen.a_week, 0)
    with ProcessPoolExecutor(WORKERS) as pool:
        work = {name: pool.submit(judge, name, a_week, at_least) for name in names}
        logs = {name: one.result() for name, one in work.items()}
    for name, found in logs.items():
        show(name, found)
    for starts, told in pooled(logs).items():
        print(f"starts {starts}, logs that judge: {json.dumps(told)}")
    if is_whole:
        document = {"method": _method(a_week, at_least), "pooled": pooled(logs), "logs": logs}
        RESULT.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _method(a_week: int, at_least: int) -> dict[str, Any]:
    return {
        "options": asdict(ForecastOptions()),
        "forecasts_a_week": a_week,
        "forecasts_a_log_at_least": at_least,
        "naive": forecast_naive.__doc__,
        BY_LIMITS: "the simulator forward with every job lasting for its limit and nobody coming",
    }


if __name__ == "__main__":
    sys.exit(main())
