"""What cluster energy saving (CES) saves on a series of node counts, and what it costs.

Run from the repository root: ``python tests/bench/bench_ces_series.py``. Reads Philly's nodes by
the minute and Helios Earth's GPUs (``../shared/traces``), prints tables and writes
``tests/results/ces_series.json``. Everything is causal but what is labelled otherwise. All
parameters were fixed on October and November 2017; the first two weeks of December judge. They have
been looked at in three runs: nothing was chosen on them. The third has added the settings that
ship ([ces]'s defaults), takes a forecast's age off, and compares SMAPE by the same pairs. All that
sleeps, reactive or not, sees demand as the peaks of ten minutes.
On the inner split the file has 552 nodes on 1 to 3 November and 174 for an hour: nodes that did
not exist sleep there in every row.
``--inner`` stops before them and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.ces_curves import Curve, brief, dominance, matched
from support.ces_series import (
    DISTANCES_S,
    EARTH,
    PAPER_RULE,
    PHILLY,
    PUBLISHED_RULE,
    REACTIVE,
    World,
    against_persistence,
    bounds_kept,
    digest,
    earth,
    forecaster,
    method_settings,
    moment,
    other_walks,
    own_outlooks,
    philly,
    simple_outlooks,
    timeout,
    with_sigma,
)
from support.statistical import Arima, Ets

from gsched.config.node_settings import CesTable
from gsched.daemon.ces_look import ces_settings
from gsched.demand.energy import EnergyAssumptions, energy_saved
from gsched.demand.forecaster import DemandForecaster, ForecastOptions, Outlook
from gsched.demand.naive import WEEK_S, SeasonalNaive
from gsched.demand.scores import compare
from gsched.demand.series import DemandSeries
from gsched.policy.ces_state import CesSettings
from gsched.sim.node_series import SeriesResult, SeriesRules

ROOT = Path(__file__).resolve().parents[2]
RESULT = ROOT / "tests" / "results" / "ces_series.json"

FIRST_FORECAST = "2017-10-08"
INNER = SeriesRules(moment("2017-10-13"), moment("2017-12-01"))
JUDGED = SeriesRules(moment("2017-12-01"), moment("2017-12-15"))

SIGMAS = (0, 2, 5, 10, 15, 20, 30, 40)
HEADLINE = 20  # σ of the published run
TIMEOUTS_S = (600, 1800, 3600, 7200, 14400, 28800, 57600, 86400, 172800)
SPARES = (5, 10, 20, 30, 40)
REACTIVE_CURVES = ("drs", "idle timeout", "idle timeout with spare")
CHOSEN = CesSettings()
SHIPPED = ces_settings(CesTable(), {})
"""The defaults of [ces], but for the spare, which is 5 % of a pool there and σ here."""
VARIANTS: Mapping[str, CesSettings] = {
    "chosen": CHOSEN,
    "paper's thresholds": PAPER_RULE,
    "paper's thresholds, least idle time and cap": replace(
        PAPER_RULE, min_idle_s=CHOSEN.min_idle_s, max_sleep=CHOSEN.max_sleep
    ),
    "without least idle time and cap": replace(CHOSEN, min_idle_s=0, max_sleep=0),
    "forecast's upper bound for an hour stays awake": replace(CHOSEN, peak_window_s=3600),
    "wakes ahead": replace(CHOSEN, wakes_ahead=True),
    "as it ships": SHIPPED,
}
"""Rules that were compared on the inner split, at several σ."""

PUBLISHED = {
    "label": "published, NOT causal: its features at t use demand up to t - 60 min while its "
    "decision looks up to 10 h ahead",
    "before_pct": 68.98,
    "mean_step_utilisation_pct": 90.41,
    "mean_asleep": 100.1,
    "wake_ups_a_day": 0.5,
    "smape_pct": 5.29,
}


def curve(
    world: World, outlooks: Mapping[int, Outlook], base: CesSettings, rules: SeriesRules
) -> Curve:
    """One rule at all σ."""
    return {f"{s}": world.run(outlooks, with_sigma(base, s), rules) for s in SIGMAS}


def timeouts(world: World, rules: SeriesRules, spares: Sequence[int]) -> Curve:
    """Fixed idle timeouts, named ``seconds+spare``."""
    return {
        f"{idle_s}+{spare}": world.run({}, timeout(idle_s, spare), rules)
        for idle_s in TIMEOUTS_S
        for spare in spares
    }


def forecast_scores(
    made: DemandForecaster, further: Mapping[str, Any], known: DemandSeries, since: str, until: str
) -> dict[str, Any]:
    """Errors of all methods at each distance over the same pairs."""
    walks = {**made.walks, **further}
    told = compare(walks, known, DISTANCES_S, moment(since), moment(until))
    return {name: [score.document() for score in scores] for name, scores in told.items()}


def tuning(world: World, outlooks: Mapping[int, Outlook]) -> dict[str, Any]:
    """The rules that were compared, on the inner split."""
    return {
        name: {
            "settings": _settings(each),
            "by_sigma": {
                str(s): brief(world.run(outlooks, with_sigma(each, s), INNER))
                for s in (5, 10, 20, 30)
            },
        }
        for name, each in VARIANTS.items()
    }


def tuning_fallback(made: DemandForecaster, world: World) -> dict[str, Any]:
    """How much worse than naive a forecast may be before nothing is done, on the inner split."""
    kept, told = made.options, {}
    for tolerance in (0.02, 0.05, 0.1):
        made.options = replace(kept, tolerance=tolerance)
        own = own_outlooks(made, world.known)
        told[str(tolerance)] = {
            "outlooks": dict(Counter(each.reason.code for each in own.values())),
            "by_sigma": {
                str(s): brief(world.run(own, with_sigma(CHOSEN, s), INNER)) for s in (10, 20, 30)
            },
        }
    made.options = kept
    return told


def published_accounting(world: World, own: Mapping[int, Outlook]) -> dict[str, Any]:
    """In ten-minute steps with instant wake-ups, as the published figures are; σ 20 unless told."""
    rules = replace(JUDGED, is_instant=True)
    oracle = simple_outlooks(world.known, "oracle", 60)
    last = simple_outlooks(world.known, "persistence", 60)
    runs = {
        **{
            f"ces, causal forecast, sigma {s}": world.run(own, with_sigma(CHOSEN, s), rules)
            for s in SIGMAS
        },
        "ces, causal forecast, paper's thresholds": world.run(
            own, with_sigma(PAPER_RULE, HEADLINE), rules
        ),
        "published rule, oracle forecast (NOT causal)": world.run(
            oracle, with_sigma(PUBLISHED_RULE, HEADLINE), rules
        ),
        "published rule, persistence forecast": world.run(
            last, with_sigma(PUBLISHED_RULE, HEADLINE), rules
        ),
    }
    return {"published": PUBLISHED, **{name: each.document() for name, each in runs.items()}}


def energy(result: SeriesResult) -> dict[str, object]:
    """Of the judged days, by the paper's assumptions."""
    assumed = EnergyAssumptions()
    woken = result.nodes_woken_a_day * result.days
    saved = energy_saved(result.asleep_node_hours, woken, assumed)
    return {"days": result.days, **saved.document(assumed), "in_words": assumed.lines()}


def inner_split() -> dict[str, Any]:
    """All that is known before the judged days."""
    world = philly("2017-12-01")
    made = forecaster(world.known, FIRST_FORECAST, "US")
    own = own_outlooks(made, world.known)
    further = other_walks(world.known, FIRST_FORECAST, (SeasonalNaive(WEEK_S, "weekly-naive"),))
    return {
        "scores_november": forecast_scores(made, further, world.known, "2017-11-01", "2017-12-01"),
        "outlooks": dict(Counter(each.reason.code for each in own.values())),
        "tuning": tuning(world, own),
        "tuning_fallback": tuning_fallback(made, world),
        "ces": curve(world, own, CHOSEN, INNER),
        "drs": curve(world, {}, REACTIVE, INNER),
        "timeouts": timeouts(world, INNER, (0,)),
        "timeouts_with_spare": timeouts(world, INNER, SPARES),
    }


def judge(inner: Mapping[str, Any]) -> dict[str, Any]:
    """The judged days, with what the inner split has fixed."""
    world = philly("2017-12-15")
    made = forecaster(world.known, FIRST_FORECAST, "US")
    own = own_outlooks(made, world.known)
    further = other_walks(
        world.known,
        FIRST_FORECAST,
        (SeasonalNaive(WEEK_S, "weekly-naive"), Ets(), Arima()),
    )
    ces = curve(world, own, CHOSEN, JUDGED)
    curves: dict[str, Curve] = {
        "ces": ces,
        "ces, paper's thresholds": curve(world, own, PAPER_RULE, JUDGED),
        "ces, wakes ahead": curve(world, own, VARIANTS["wakes ahead"], JUDGED),
        "ces, as it ships": curve(world, own, SHIPPED, JUDGED),
        "ces, persistence forecast": curve(
            world, simple_outlooks(world.known, "persistence"), CHOSEN, JUDGED
        ),
        "ces, oracle forecast (NOT causal)": curve(
            world, simple_outlooks(world.known, "oracle"), CHOSEN, JUDGED
        ),
        "drs": curve(world, {}, REACTIVE, JUDGED),
        "idle timeout": timeouts(world, JUDGED, (0,)),
        "idle timeout with spare": timeouts(world, JUDGED, SPARES),
    }
    judged = [each for when, each in own.items() if when >= JUDGED.since]
    return {
        "scores": forecast_scores(made, further, world.known, "2017-12-01", "2017-12-15"),
        "smape_below_persistence": against_persistence(
            made, world.known, "2017-12-01", "2017-12-15"
        ),
        "outlooks": dict(Counter(each.reason.code for each in judged)),
        "bounds": bounds_kept(own, world.known, JUDGED.since),
        "published_accounting": published_accounting(world, own),
        "curves": {
            name: {point: each.document() for point, each in found.items()}
            for name, found in curves.items()
        },
        "against_best_timeout_of_the_past": matched(
            ces, inner["timeouts"], inner["ces"], curves["idle timeout"]
        ),
        "against_best_timeout_with_spare_of_the_past": matched(
            ces, inner["timeouts_with_spare"], inner["ces"], curves["idle timeout with spare"]
        ),
        "against_drs_of_the_past": matched(ces, inner["drs"], inner["ces"], curves["drs"]),
        "dominance": {name: dominance(ces, curves[name]) for name in REACTIVE_CURVES},
        "dominance_as_it_ships": {
            name: dominance(curves["ces, as it ships"], curves[name]) for name in REACTIVE_CURVES
        },
        "energy": energy(ces[str(HEADLINE)]),
    }


def earth_scores() -> dict[str, Any]:
    """Helios Earth's GPUs in May 2020, walking forward; the last twenty days judge."""
    known = earth()
    made = forecaster(known, "2020-05-08", "CN")
    further = other_walks(
        known, "2020-05-08", (SeasonalNaive(WEEK_S, "weekly-naive"), Ets(), Arima())
    )
    return {
        "input_sha256": digest(sorted(EARTH.glob("vc*.csv.gz"))),
        "unit": "GPUs",
        "since": "2020-05-12",
        "scores": forecast_scores(made, further, known, "2020-05-12", "2020-06-01"),
        "smape_below_persistence": against_persistence(made, known, "2020-05-12", "2020-06-01"),
    }


def _settings(settings: CesSettings) -> dict[str, Any]:
    told = asdict(settings)
    return {name: None if value == float("inf") else value for name, value in told.items()}


def _documents(inner: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: {point: each.document() for point, each in value.items()}
        if name in {"ces", "drs", "timeouts", "timeouts_with_spare"}
        else value
        for name, value in inner.items()
    }


def show_scores(title: str, scores: Mapping[str, Any]) -> None:
    """One row a method."""
    distances = ", ".join(f"{s // 3600} h" for s in DISTANCES_S)
    print(f"\n{title}: SMAPE %, without truths of 0 (MAE, RMSE) at {distances}")
    for name, rows in scores.items():
        cells = "  ".join(
            f"{r['smape_pct']:6.3f}, {r['smape_nonzero_pct']:6.3f} "
            f"({r['mae']:5.2f}, {r['rmse']:5.1f})"
            for r in rows
        )
        zero = rows[0]["zero_truths"]
        print(f"  {name:16} {cells}  of {rows[0]['smape_pairs']} pairs, {zero} with truth 0")


def show_curve(title: str, points: Mapping[str, Any]) -> None:
    """One row a point."""
    print(f"\n{title}")
    for name, each in points.items():
        told = each if isinstance(each, dict) else each.document()
        print(
            f"  {name:>10} asleep {told['mean_asleep']:6.1f} of {told['mean_nodes']:.0f}, "
            f"utilisation {told['utilisation_pct']:.2f} %, wake-ups/day "
            f"{told['wake_ups_a_day']:6.2f}, unmet node-min/day "
            f"{told['unmet_node_minutes_a_day']:7.1f}"
        )


def show(judged: Mapping[str, Any]) -> None:
    """The judged days as tables."""
    show_scores("Philly, judged", judged["scores"])
    for name, points in judged["curves"].items():
        show_curve(f"{name}, 2017-12-01..14, by minutes, 5 min to wake", points)
    print("\npublished accounting (ten-minute steps, instant wake-ups), sigma 20 unless told")
    for name, told in judged["published_accounting"].items():
        print(
            f"  {name:46} {told['before_pct']:.2f} -> {told['mean_step_utilisation_pct']:.2f} %, "
            f"{told['mean_asleep']:.1f} asleep, {told['wake_ups_a_day']:.2f} wake-ups a day"
        )
    for name in (
        "smape_below_persistence",
        "dominance",
        "dominance_as_it_ships",
        "bounds",
        "outlooks",
    ):
        print(f"\n{name}: {json.dumps(judged[name], indent=1)}")
    for line in judged["energy"]["in_words"]:
        print(f"  {line}")
    print(f"  {judged['energy']['kwh']:,.0f} kWh in {judged['energy']['days']:.0f} days")


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inner", action="store_true", help="only October and November")
    parser.add_argument("--earth", action="store_true", help="only Helios Earth")
    chosen = parser.parse_args()
    if missing := [str(each) for each in (PHILLY, EARTH) if not each.exists()]:
        print(f"{', '.join(missing)}: this bench needs the shared traces", file=sys.stderr)
        return 1
    began = time.perf_counter()
    if chosen.earth:
        show_scores("Helios Earth, May 2020", earth_scores()["scores"])
        return 0
    inner = inner_split()
    show_scores("Philly, November", inner["scores_november"])
    print(f"\ntuning: {json.dumps(inner['tuning'])}\n{inner['outlooks']}")
    for name in ("ces", "drs", "timeouts", "timeouts_with_spare"):
        show_curve(f"{name}, inner split", inner[name])
    if chosen.inner:
        return 0
    judged, on_earth = judge(inner), earth_scores()
    show(judged)
    show_scores("Helios Earth, May 2020", on_earth["scores"])
    document = {
        "input_sha256": digest([PHILLY]),
        "took_s": round(time.perf_counter() - began),
        "settings": _settings(CHOSEN),
        "settings_that_ship": _settings(SHIPPED),
        "forecast": {"method": method_settings("US"), "options": asdict(ForecastOptions())},
        "rules": {"inner": asdict(INNER), "judged": asdict(JUDGED)},
        "inner": _documents(inner),
        "judged": judged,
        "earth": on_earth,
    }
    RESULT.write_text(json.dumps(_rounded(document), indent=1) + "\n")
    return 0


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
