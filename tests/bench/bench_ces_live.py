"""Cluster energy saving on a compressed day against Slurm's own SuspendTime: results/ces_live.json.

Several private Slurms side by side get the same stream of jobs, by hour and weekday: one whose
nodes CES puts to sleep and wakes, several with a SuspendTime each, and one whose nodes never sleep.
A real second is five minutes of the day, so that a node boots for about five minutes; the clock of
CES is the day's, its history four weeks of the same pattern (other jobs). A job's delay is the time
to its own first line minus the same where no node sleeps. Jobs are submitted by srun, for a batch
job on a woken node begins at Slurm's next tick of 30 s, in all arms alike, which is two and a half
hours of this day. About eleven minutes a seed.

    python tests/bench/bench_ces_live.py [--seeds N …] [--hours H] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.compressed_day import DAY_S, CompressedClock, make_jobs, run_at_once
from support.history import attempt, batch
from support.node_trial import NOTICED_S, NodeArm, all_begin, figures, play
from support.power_site import PowerSite

from gsched.model.hostlist import fold
from gsched.testbed.background import Background
from gsched_sql import History

RESULT = Path(__file__).parents[1] / "results" / "ces_live.json"
DRIVER = "support.ces_trial_driver"
NUM_NODES = 16
SCALE = 300.0
WARM_UP_H = 9
HISTORY_DAYS = 28
SUSPEND_TIMES_H = (4.0, 8.0, 12.0)
BEGINS = {
    # seed → the first moment that counts, UTC
    11: datetime(2026, 3, 5, 12, tzinfo=UTC),  # Thursday noon until Saturday noon
    12: datetime(2026, 3, 8, 12, tzinfo=UTC),  # Sunday noon until Tuesday noon
}
CES, AWAKE = "CES", "never asleep"
SETTINGS = f"""
[ces]
mode = "act"
time_zone = "UTC"
history_days = {HISTORY_DAYS}
"""


def history_of(site: PowerSite, seed: int, until: int) -> None:
    """Four weeks of other jobs of the same pattern, up to the moment `until`."""
    url = f"sqlite:///{site.folder}/gsched/history.db"
    (site.folder / "gsched").mkdir()
    History.create(url)
    names, cluster = site.bed.spec.node_names, site.bed.spec.cluster
    since = until - HISTORY_DAYS * DAY_S
    records = []
    for ran in run_at_once(make_jobs(seed + 1000, since - DAY_S, until), len(names)):
        start, end = ran.start, ran.start + ran.job.duration_s
        if end > until:
            continue  # of another cluster's, when the trial begins
        records.append(
            attempt(
                1_000_000 + ran.job.number, ran.job.submit, cluster=cluster, start_time=start,
                end_time=end, num_nodes=len(ran.nodes), node_list=fold(names[n] for n in ran.nodes),
            )
        )  # fmt: skip
    with History.open(url) as history:
        history.ingest(batch(*records), source_key=None)


@contextmanager
def arms(folder: Path) -> Iterator[list[NodeArm]]:
    """All private Slurms, up."""
    with ExitStack() as running:
        made = []
        for name in (CES, AWAKE, *(suspend_name(hours) for hours in SUSPEND_TIMES_H)):
            (own := folder / f"arm{len(made)}").mkdir()
            spec: dict[str, Any] = {"num_nodes": NUM_NODES, "gpus_per_node": 0}
            if name not in (CES, AWAKE):
                hours = SUSPEND_TIMES_H[len(made) - 2]
                spec["suspend_time_s"] = round(hours * 3600 / SCALE)
            settings = SETTINGS if name == CES else ""
            conf = ("ResumeTimeout=15",)
            made.append(NodeArm(name, PowerSite(own, settings=settings, conf=conf, **spec)))
        for arm in made:
            running.enter_context(arm.site.bed)
        try:
            yield made
        finally:
            with ThreadPoolExecutor(len(made)) as side_by_side:
                list(side_by_side.map(NodeArm.end_jobs, made))


def suspend_name(hours: float) -> str:
    return f"SuspendTime {hours:g} h"


def trial(seed: int, hours: int, folder: Path) -> dict[str, Any]:
    """One stream of jobs on all arms."""
    since = int(BEGINS[seed].timestamp())
    first, until = since - WARM_UP_H * 3600, since + hours * 3600
    jobs = make_jobs(seed, first, until)
    with arms(folder) as made, ExitStack() as running:
        ces = made[0]
        history_of(ces.site, seed, first)
        running.enter_context(ces.site.helper())
        clock = CompressedClock(first, time.time() + 1.0, SCALE)
        words = [sys.executable, "-m", DRIVER, str(first), str(clock.real_start), str(SCALE)]
        words.append(str(ces.site.folder / "looks"))
        path = {**ces.site.environment, "PYTHONPATH": str(Path(__file__).parents[1])}
        log = ces.site.folder / "driver.log"
        driver = running.enter_context(Background(ces.site.bed, words, log, path))
        play(made, jobs, clock)
        time.sleep(max(0.0, clock.real(until) - time.time()))
        all_begin(made, jobs, 120.0)
        assert driver.is_running(), driver.output()
        assert not [number for arm in made for number in arm.failed()]
        report = ces.site.gsched(
            *("ces", "report", "--json", "--since", iso(since), "--until", iso(until))
        )
        return {
            "virtual time": f"{iso(since)} to {iso(until)} UTC",
            "jobs": sum(since <= job.submit < until for job in jobs),
            "arms": {arm.name: figures(arm, made[1], jobs, clock, since, until) for arm in made},
            "gsched ces report of the CES arm": told(json.loads(report)),
            "orders": orders(ces.site),
        }


def told(report: Mapping[str, Any]) -> dict[str, Any]:
    """What the daemon's own report says of the same."""
    return {key: report[key] for key in REPORTED}


def iso(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def orders(site: PowerSite) -> dict[str, int]:
    """CES' orders by verb and how they ended."""
    counted: dict[str, int] = {}
    with History.open(f"sqlite:///{site.folder}/gsched/history.db") as history:
        for entry in history.power_log(site.bed.spec.cluster).orders(0, 2**33):
            name = f"{entry.order.verb.value} {entry.state.value}"
            counted[name] = counted.get(name, 0) + 1
    return counted


REPORTED = ("known_share", "overall", "wake_ups", "woken_because", "delayed", "orders")
COMPARED = (
    "nodes woken", "moments of waking", "jobs delayed", "delay of all jobs together min",
)  # fmt: skip
SAVED = "node-hours asleep"


def at_equal_saving(found: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """CES against the SuspendTime that would have saved as much, on the line between two arms."""
    own = found[CES]
    curve = sorted((found[suspend_name(h)] for h in SUSPEND_TIMES_H), key=lambda f: f[SAVED])
    saved = [each[SAVED] for each in curve]
    result: dict[str, Any] = {
        SAVED: own[SAVED],
        "within the curve": saved[0] <= own[SAVED] <= saved[-1],
    }
    for what in COMPARED:
        other = between(own[SAVED], saved, [each[what] for each in curve])
        result[what] = {CES: own[what], "SuspendTime": round(other, 1)}
    return result


def between(place: float, places: Sequence[float], values: Sequence[float]) -> float:
    """The value at a place on straight lines; at the ends that of the end."""
    if place <= places[0]:
        return values[0]
    for left in range(len(places) - 1):
        if place <= places[left + 1]:
            width = places[left + 1] - places[left] or 1.0
            share = (place - places[left]) / width
            return values[left] * (1 - share) + values[left + 1] * share
    return values[-1]


def main() -> None:
    """Run the trials one after the other, print and record; others that are recorded are kept."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(BEGINS))
    parser.add_argument("--hours", type=int, default=48)
    parser.add_argument("--out", type=Path, default=RESULT)
    chosen = parser.parse_args()
    trials = json.loads(chosen.out.read_text())["trials"] if chosen.out.exists() else {}
    for seed in chosen.seeds:
        with tempfile.TemporaryDirectory(prefix="ces-live-") as folder:
            Path(folder).chmod(0o755)
            trials[f"seed {seed}"] = trial(seed, chosen.hours, Path(folder))
        found = document(dict(sorted(trials.items())))
        chosen.out.write_text(json.dumps(found, indent=1) + "\n")
        print(json.dumps({k: v for k, v in found.items() if k != "trials"}, indent=1), flush=True)


def document(trials: Mapping[str, Any]) -> dict[str, Any]:
    """What is recorded of all trials."""
    names = next(iter(trials.values()))["arms"]
    together = {
        name: {
            what: round(statistics.fmean(each["arms"][name][what] for each in trials.values()), 4)
            for what in (SAVED, *COMPARED)
        }
        for name in names
    }
    return {
        "what": f"{NUM_NODES} whole nodes a private Slurm; {SCALE:g} virtual seconds a real one; "
        f"hours and minutes are virtual; a job is delayed from {NOTICED_S * SCALE / 60:g} min on",
        "settings of CES, all others as they are by default": SETTINGS.split("\n")[1:-1],
        "mean of the seeds": together,
        "at equal saving": at_equal_saving(together),
        "at equal saving by seed": {k: at_equal_saving(t["arms"]) for k, t in trials.items()},
        "trials": trials,
    }


if __name__ == "__main__":
    main()
