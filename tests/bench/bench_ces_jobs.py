"""What sleeping nodes cost users: Philly's and ITP's jobs under CES and reactive power saving.

Run from the repository root: ``python tests/bench/bench_ces_jobs.py``. Reads ``../shared/traces``,
simulates first come, first served on nodes of 8 GPUs that take five minutes to wake, prints tables
and writes ``tests/results/ces_jobs.json``. The scheduler is the same in all arms; only who puts
nodes to sleep, and who wakes some beyond those that jobs wake, differs. Forecasts are causal (of
the demand without sleep, walking forward) but for those of the oracle. The rule is the one that
`[ces]` ships; beside it stands the one that did best on each trace's inner split, from which the
judged days are apart. ``--only TRACE`` takes one trace and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.ces_arms import (
    COSTS,
    Curve,
    at_equal_saving,
    best_at,
    brief,
    dominance,
    geometric,
    joined,
    matched,
    ratios,
)
from support.ces_jobs import ITP, PHILLY, WAITING, WAKE_S, WARM_UP_S, Days, Trace, World, refilled
from support.ces_series import PAPER_RULE, digest, with_sigma

from gsched.demand.energy import EnergyAssumptions
from gsched.demand.scores import compare
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesSettings
from gsched.sim.job_saving import Timeout
from gsched.sim.saving_figures import SavingFigures

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "tests" / "results" / "ces_jobs.json"

SHARES = (0.0, 0.02, 0.05, 0.08, 0.12, 0.2)
"""σ as shares of all nodes."""
HEADLINE = 0.05  # what [ces] takes unless told
TIMEOUTS_S = (600, 3600, 7200, 14400, 28800, 86400)
SPARES = (0.0, 0.05, 0.12)
VARIANT_SHARES = (0.05, 0.12)

BASE = CesSettings()
SHIPPED = replace(BASE, wakes_ahead=True, peak_window_s=7200)
SHIPS = "as [ces] ships"
VARIANTS: Mapping[str, CesSettings] = {
    SHIPS: SHIPPED,
    "does not wake ahead": replace(SHIPPED, wakes_ahead=False),
    "peak of 1 h stays awake": replace(SHIPPED, peak_window_s=3600),
    "no peak stays awake": replace(SHIPPED, peak_window_s=0),
    "as chosen on the node series (neither)": BASE,
    "half the idle time and hold": replace(SHIPPED, min_idle_s=3600, hold_s=3600),
    "paper's thresholds": replace(PAPER_RULE, min_idle_s=BASE.min_idle_s, max_sleep=BASE.max_sleep),
}
"""Rules that are compared on the inner split. To wake ahead and to keep the peak are ours."""

OWN_PAST = (PHILLY, ITP[1])
KINDS = ("causal", "oracle", "persistence", "shuffled", "shuffled-change")


def reactive(world: World, days: Days) -> dict[str, Curve]:
    """Slurm's SuspendTime, with idle nodes to spare, and with a spare that is woken; by name
    ``seconds+spare``.
    """
    told: dict[str, Curve] = {"suspend_time": {}, "suspend_time_spare": {}, "refilled": {}}
    for idle_s in TIMEOUTS_S:
        for share in SPARES:
            spare = world.nodes(share)
            name = f"{idle_s}+{share:g}"
            family = "suspend_time_spare" if spare else "suspend_time"
            told[family][name] = world.measure(days, Timeout(idle_s, spare))
            if spare:
                told["refilled"][name] = world.measure(days, Ces(refilled(idle_s, spare)))
    return told


def curve(
    world: World, days: Days, base: CesSettings, kind: str, shares: Sequence[float] = SHARES
) -> Curve:
    """One rule by one kind of forecast at all σ."""
    told = world.outlooks(kind)
    return {
        f"{share:g}": world.measure(days, Ces(with_sigma(base, world.nodes(share))), told)
        for share in shares
    }


def tuning(world: World, families: dict[str, Curve]) -> dict[str, Any]:
    """The rules that were compared, on the inner split, with the best reactive at that saving."""
    rivals = joined(families)
    told = {}
    for name, base in VARIANTS.items():
        points = curve(world, world.trace.inner, base, "causal", VARIANT_SHARES)
        told[name] = {
            share: {
                **brief(point),
                "over_best": ratios(
                    point, rivals[best_at(point.asleep_node_hours, rivals, "jobs_delayed")]
                ),
            }
            for share, point in points.items()
        }
    return told


def best_rule(tuned: Mapping[str, Any]) -> str:
    """The rule with the fewest delayed jobs over those of the best reactive at its saving."""

    def delays(name: str) -> float:
        return geometric([point["over_best"]["jobs_delayed"] for point in tuned[name].values()])

    return min(VARIANTS, key=delays)


def run_trace(trace: Trace) -> dict[str, Any]:
    """All that is told of one trace."""
    began = time.perf_counter()
    world = World(trace)
    inner = reactive(world, trace.inner)
    tuned = tuning(world, inner)
    chosen = best_rule(tuned)
    own_inner = {
        name: curve(world, trace.inner, VARIANTS[name], "causal") for name in {SHIPS, chosen}
    }
    told: dict[str, Any] = {
        "nodes": world.cluster.num_nodes,
        "jobs": len(world.jobs),
        "inner": asdict(trace.inner),
        "judged": asdict(trace.judged),
        "input_sha256": digest([trace.file]),
        "inner_plain": world.plain_figures(trace.inner).document(),
        "inner_reactive": documents(inner),
        "inner_ces": documents(own_inner),
        "tuning": tuned,
        "chosen": chosen,
        "judged_figures": judge(world, inner, own_inner, chosen),
    }
    told["took_s"] = round(time.perf_counter() - began)
    return told


def judge(
    world: World, inner: dict[str, Curve], own_inner: dict[str, Curve], chosen: str
) -> dict[str, Any]:
    """The days that nothing was chosen on."""
    days = world.trace.judged
    families = reactive(world, days)
    families["all reactive"] = joined(families)
    inner = {**inner, "all reactive": joined(inner)}
    curves = {kind: curve(world, days, SHIPPED, kind) for kind in KINDS}
    rules = {**curves, "chosen": curves["causal"]}
    if chosen != SHIPS:
        rules["chosen"] = curve(world, days, VARIANTS[chosen], "causal")
    past = {"chosen": own_inner[chosen]}
    scores = compare(world.made.walks, world.busy, (3600, 3 * 3600), days.since, days.until)
    return {
        "plain": world.plain_figures(days).document(),
        "forecast": {name: [each.document() for each in row] for name, row in scores.items()},
        "outlooks_with_forecast": outlook_share(world, days),
        "reactive": documents({n: c for n, c in families.items() if n != "all reactive"}),
        "ces": documents(rules),
        "matched": {
            kind: matched(points, past.get(kind, own_inner[SHIPS]), families, inner)
            for kind, points in rules.items()
        },
        "dominance": {
            kind: {family: dominance(points, others) for family, others in families.items()}
            for kind, points in rules.items()
        },
        "headline_with_forecasts_of_its_own_past": own_past(world, days, SHIPPED)
        if world.trace in OWN_PAST
        else None,
    }


def outlook_share(world: World, days: Days) -> float:
    """Of how many steps there was a forecast: it had not lately been worse than naive."""
    told = world.outlooks("causal")
    known = [each.forecast for at, each in told.items() if days.since <= at < days.until]
    return sum(each is not None for each in known) / max(len(known), 1)


def own_past(world: World, days: Days, base: CesSettings) -> dict[str, Any]:
    """The headline once more: forecasts are of the demand under CES itself (from the first run)."""
    saver = Ces(with_sigma(base, world.nodes(HEADLINE)))
    first = world.run(days, saver, world.outlooks("causal"))
    return world.measure(days, saver, world.outlooks_of(first)).document()


def documents(points: Mapping[str, Any]) -> dict[str, Any]:
    """Figures as JSON, however deep they lie."""
    return {
        name: each.document() if isinstance(each, SavingFigures) else documents(each)
        for name, each in points.items()
    }


def show_curve(title: str, points: Mapping[str, Any]) -> None:
    """One row a point."""
    print(f"\n{title}")
    for name, p in points.items():
        print(
            f"  {name:>11} asleep {p['mean_asleep']:5.1f} of {p['nodes']} "
            f"({p['asleep_node_hours']:,.0f} h, {p['kwh']:,.0f} kWh), "
            f"use {p['before_pct']:.1f} -> {p['utilisation_pct']:.1f} %, "
            f"delayed {p['jobs_delayed']:5} of {p['jobs_started']}, {p['delay_hours']:7.2f} h "
            f"(p50 {p['delay_p50_s']:.0f}, p99 {p['delay_p99_s']:.0f}, "
            f"max {p['delay_max_s']:.0f} s), JCT {p['jct_added_s']:+6.1f} s, "
            f"wake-ups/day {p['wake_ups_a_day']:5.2f}, nodes {p['nodes_woken_a_day']:5.1f} "
            f"({p['nodes_woken_by_jobs_a_day']:.1f} by jobs)"
        )


def show_tuning(traces: Mapping[str, Any]) -> None:
    """The rules over all traces: delayed jobs over those of the best reactive at that saving."""
    print("\ninner split: delayed jobs and wake-ups over those of the best reactive (least delays)")
    print("at no less saving; geometric means over the traces and sigma")
    for name in VARIANTS:
        points = [p for t in traces.values() for p in t["tuning"][name].values()]
        rows = [point["over_best"] for point in points]
        hours = sum(point["asleep_node_hours"] for point in points)
        cells = [geometric([row[cost] for row in rows]) for cost in COSTS]
        told = ", ".join(f"{c} {v:.2f}" for c, v in zip(COSTS, cells, strict=True))
        print(f"  {name:55} {told}; saved in all {hours:,.0f} h")


def show(name: str, told: Mapping[str, Any]) -> None:
    """The judged days of one trace."""
    judged = told["judged_figures"]
    show_curve(f"{name}: without sleep", {"": judged["plain"]})
    for family, points in judged["reactive"].items():
        show_curve(f"{name}: {family}, judged", points)
    for kind, points in judged["ces"].items():
        show_curve(f"{name}: CES, {kind}, judged (sigma as a share of the nodes)", points)
    if own := judged["headline_with_forecasts_of_its_own_past"]:
        show_curve(f"{name}: CES at {HEADLINE:g}, forecasts of its own past", {"": own})
    print(f"  chosen on the inner split: {told['chosen']}")
    print(f"  steps with a forecast: {judged['outlooks_with_forecast']:.1%}")
    print(
        "  the least costs at the saving of CES with causal forecasts, by sigma (mixtures allowed)"
    )
    for share, arms in told["at_equal_saving"].items():
        for arm, costs in arms.items():
            cells = ", ".join(
                f"{cost} {value:.1f}" if value is not None else f"{cost} not reached"
                for cost, value in costs.items()
            )
            print(f"    {share:>5} {arm:22} {cells}")


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="only this trace")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    chosen = parser.parse_args()
    traces = [t for t in (PHILLY, *ITP) if chosen.only in (None, t.name)]
    if missing := [str(trace.file) for trace in traces if not trace.file.exists()]:
        print(f"{', '.join(missing)}: this bench needs the shared traces", file=sys.stderr)
        return 1
    began = time.perf_counter()
    with ProcessPoolExecutor(chosen.workers) as pool:
        found = list(pool.map(run_trace, traces))
    told = {trace.name: each for trace, each in zip(traces, found, strict=True)}
    for each in found:
        each["at_equal_saving"] = at_equal_saving(each["judged_figures"])
    show_tuning(told)
    for name, each in told.items():
        show(name, each)
    document = {
        "took_s": round(time.perf_counter() - began),
        "assumptions": {
            "order": "fifo, blocking",
            "gpus_a_node": 8,
            "nodes": f"fewest with at most {WAITING:.0%} of the inner split's jobs waiting",
            "wake_s": WAKE_S,
            "warm_up_s": WARM_UP_S,
            "energy": asdict(EnergyAssumptions()),
            "energy_in_words": EnergyAssumptions().lines(),
        },
        "rules": {name: settings_of(each) for name, each in VARIANTS.items()},
        "traces": told,
    }
    if chosen.only is None:
        RESULT.write_text(json.dumps(rounded(document), indent=1) + "\n")
    return 0


def settings_of(settings: CesSettings) -> dict[str, Any]:
    """As JSON; None is no bound."""
    return {n: None if v == math.inf else v for n, v in asdict(settings).items()}


def rounded(value: Any) -> Any:
    """Six digits are enough."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: rounded(item) for key, item in value.items()}
    return [rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
