"""Leases on a real Slurm with real trainings: results/leases.json.

    python tests/bench/bench_leases.py [--parts hand-overs shares kills] [--leases N] [--out FILE]

hand-overs: what it costs a job to be told, to save, to be requeued and to go on where its GPUs are
free all the time, with Slurm's cred_expire of the testbed and with its default of 120 s; and what
that is of leases of 900 s, 1 h and 4 h. shares: three tenants, of whom one has many trainings and
comes first; leases of 20 hand-overs by the daemon as it is, and the same trainings whose users did
not ask for checkpoints, at the same time. kills: SIGKILL to the daemon at every point, and to
slurmctld, batch script and step in every state of a hand-over; leases of two hand-overs. Every
training's loss is compared step by step with that of a run that nobody disturbed. About 4, 25 and
20 minutes; what other parts have recorded is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.lease_site import LeaseSite
from support.lease_trials import (
    KILLS,
    books_agree,
    farthest,
    finish,
    greedy_first,
    hand_over,
    hand_over_rows,
    hand_overs_of,
    kill_by,
    lease_site,
    lost_steps,
    measured,
    over_time,
    wrong_ways,
)

from gsched.testbed.wait import wait_for

RESULT = Path(__file__).parents[1] / "results" / "leases.json"
DEFAULT_CRED_EXPIRE_S, SHORT_CRED_EXPIRE_S = 120, 5
LEASES_S = {"900 s": 900, "1 h": 3600, "4 h": 14400}
QUOTAS = {"greedy": 1.0, "lab1": 2.0, "lab2": 1.0}
GPUS = 4
TRAININGS = {"greedy": 6, "lab1": 3, "lab2": 2}
CLOSE = 0.05
"""So near to its quota's a tenant's share of the GPU-time counts as there."""


def hand_overs(cred_expire_s: int, number: int) -> dict[str, Any]:
    """Of trainings that each have a GPU that nobody else wants."""
    with lease_site({"lab": 2.0}, 2, 4000, 0.25, cred_expire_s) as site:
        trainings = site.add("lab", 2)
        wait_for(lambda: all(len(site.steps(t.name)) > 3 for t in trainings), "steps", 300, 0.5)
        hand_over(site, number, lease_s=20)
        cost = measured(site)
        rows = [row for training in trainings for row in hand_over_rows(site, training)]
        finish(site)
        assert_alike(site)
        median = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        stands_still_s = median["training stands still"]
        return {
            "hand-overs": len(rows),
            "median s": median,
            "longest s": max(row["training stands still"] for row in rows),
            "the daemon reckons with s": cost.save_s + cost.wait_s,
            "so the shortest lease s": cost.shortest_lease_s,
            "overhead = stands still / lease": {
                name: round(stands_still_s / length_s, 4) for name, length_s in LEASES_S.items()
            },
            "steps done twice": sum(sum(site.repeated(t.name)) for t in trainings),
        }


def both_hand_overs(options: argparse.Namespace) -> dict[str, Any]:
    """At the same time."""
    del options
    cases = {SHORT_CRED_EXPIRE_S: 5, DEFAULT_CRED_EXPIRE_S: 2}
    with ThreadPoolExecutor(len(cases)) as side_by_side:
        found = {s: side_by_side.submit(hand_overs, s, number) for s, number in cases.items()}
        return {f"cred_expire {s} s": each.result() for s, each in found.items()}


def shares(options: argparse.Namespace) -> dict[str, Any]:
    """With leases, and at the same time without."""
    with (
        lease_site(QUOTAS, GPUS, 3000, 0.5) as site,
        lease_site(QUOTAS, GPUS, 3000, 0.5) as control,
    ):
        greedy_first(site, {"greedy": TRAININGS["greedy"]}, GPUS)
        hand_over(site, 2, lease_s=15)  # so that it is known what one costs
        since = min(h.start for h in site.held())
        lease_s = measured(site).shortest_lease_s
        for each in (site, control):
            each.lease_by("ltgf", lease_s=lease_s, grace_s=30)
        greedy_first(control, TRAININGS, GPUS, asks=False)
        for tenant in ("lab1", "lab2"):
            site.add(tenant, TRAININGS[tenant])
        site.begin()
        control.begin()
        while time.time() < since + options.leases * lease_s + 5:
            site.tend()
            control.tend()
            time.sleep(2)
        rows, without = (over_time(each, since, lease_s) for each in (site, control))
        control.end()
        going_round = hand_overs_of(site)
        finish(site)
        assert_alike(site)
        there = [row["leases"] for row in rows if farthest(site, row) <= CLOSE]
        last_away = max((r["leases"] for r in rows if r["leases"] not in there), default=0)
        return {
            "GPUs": GPUS,
            "quotas": QUOTAS,
            "trainings": TRAININGS,
            "lease s": lease_s,
            f"leases until all shares are, and stay, within {CLOSE}": last_away + 1,
            "share of the GPU-time since the first job, after so many leases": rounded(rows),
            "without leases": rounded(without),
            "farthest share in the end": round(farthest(site, rows[-1]), 3),
            "farthest without leases": round(farthest(control, without[-1]), 3),
            "hand-overs by training": dict(sorted(going_round.items())),
            "trainings equal bit for bit": len(site.trainings),
            "steps done twice": sum(sum(site.repeated(name)) for name in site.trainings),
            "ledger": books_agree(site),
        }


def rounded(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """For people."""
    return [{key: round(value, 3) for key, value in row.items()} for row in rows]


def kills(options: argparse.Namespace) -> dict[str, Any]:
    """Every process in every state."""
    del options
    with lease_site({"greedy": 1.0, "lab1": 1.0, "lab2": 1.0}, 3, 4000, 0.25) as site:
        greedy_first(site, {"greedy": 4, "lab1": 2, "lab2": 2}, 3)
        site.lease_by("ltgf", lease_s=20, grace_s=30)
        site.begin(hand_overs=2)
        done = kill_by(site, KILLS, limit_s=2400)
        finish(site)
        assert_alike(site)
        return {
            "kills": len(done),
            "by what": Counter(kill["what"] for kill in done),
            "started and mended again": site.counted,
            "leases": len(site.leases()),
            "hand-overs": sum(hand_overs_of(site).values()),
            "leases lost": wrong_ways(site),
            "saved steps lost": lost_steps(site, done),
            "jobs lost": [n for n in site.trainings if not site.has_ended(n)],
            "trainings equal bit for bit": len(site.trainings),
            "steps done twice": sum(sum(site.repeated(name)) for name in site.trainings),
            "ledger": books_agree(site),
        }


def assert_alike(site: LeaseSite) -> None:
    """Every training has the undisturbed one's curve."""
    for training in site.trainings.values():
        assert site.differences(training) == [], training.name


PARTS = {"hand-overs": both_hand_overs, "shares": shares, "kills": kills}


def main() -> None:
    """Run the parts, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--leases", type=int, default=6)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args()
    for part in options.parts:
        began, load = time.time(), os.getloadavg()[1]
        found = PARTS[part](options)
        found["took s"] = round(time.time() - began)
        found["load of the machine before and after"] = [load, os.getloadavg()[1]]
        known = json.loads(options.out.read_text()) if options.out.exists() else {}
        known = {"what": WHAT, **known, part: found}
        options.out.write_text(json.dumps(known, indent=1) + "\n")
        print(json.dumps({part: found}, indent=1), flush=True)


WHAT = (
    "real Slurm, real trainings on CPU by gsched submit --gs-checkpoint, gsched daemon run --act; "
    "two shared cores; seconds"
)

if __name__ == "__main__":
    main()
