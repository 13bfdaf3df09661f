"""Sleep compared at equal saving: what one arm of the CES bench by jobs costs, and another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gsched.sim.saving_figures import SavingFigures

COSTS = ("jobs_delayed", "delay_hours", "wake_ups_a_day", "nodes_woken_a_day")

Curve = dict[str, SavingFigures]
"""The points of one arm, by name."""


def joined(families: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The points of all families."""
    return {f"{name} {point}": p for name, each in families.items() for point, p in each.items()}


def best_at(saving: float, points: Curve, cost: str) -> str:
    """Of those that save so much the one that costs least; else the one that saves most."""
    able = [name for name, each in points.items() if each.asleep_node_hours >= saving]
    if able:
        return min(able, key=lambda name: getattr(points[name], cost))
    return max(points, key=lambda name: points[name].asleep_node_hours)


def matched(
    own: Curve, own_inner: Curve, families: dict[str, Curve], inner: dict[str, Curve]
) -> dict[str, Any]:
    """Each point of CES beside the reactive one of at least its saving with the fewest delays.

    By family: ``hindsight`` is the best of the judged days themselves, ``past`` the one that was
    best in the inner split at the saving of CES there.
    """
    told: dict[str, Any] = {}
    for share, point in own.items():
        told[share] = {"ces": brief(point)}
        for family, points in families.items():
            hindsight = best_at(point.asleep_node_hours, points, "jobs_delayed")
            past = best_at(own_inner[share].asleep_node_hours, inner[family], "jobs_delayed")
            told[share][family] = {
                "hindsight": {"name": hindsight, **brief(points[hindsight])},
                "past": {"name": past, **brief(points[past])},
                "ratios": ratios(point, points[hindsight]),
            }
    return told


def brief(point: SavingFigures) -> dict[str, float]:
    """What is weighed."""
    return {name: getattr(point, name) for name in ("asleep_node_hours", *COSTS)}


def ratios(own: SavingFigures, other: SavingFigures) -> dict[str, float | None]:
    """What CES costs over what the other costs."""
    told = {}
    for name in ("asleep_node_hours", *COSTS, "jct_added_s"):
        divisor = getattr(other, name)
        told[name] = getattr(own, name) / divisor if divisor else None
    return told


def least_at(saving: float, points: Iterable[Mapping[str, float]], cost: str) -> float | None:
    """The least cost with which a mixture of two settings saves so much; None: none does."""
    pairs = [(point["asleep_node_hours"], point[cost]) for point in points]
    enough = [pair for pair in pairs if pair[0] >= saving]
    costs = [pair[1] for pair in enough]
    for more, dear in enough:
        for less, cheap in pairs:
            if less < saving:
                costs.append(cheap + (dear - cheap) * (saving - less) / (more - less))
    return min(costs, default=None)


def at_equal_saving(judged: Mapping[str, Any]) -> dict[str, Any]:
    """Each arm's least costs at the saving of each point of CES, each cost for itself."""
    arms = {
        **judged["reactive"],
        "all reactive": joined(judged["reactive"]),
        **{f"ces, {kind}": points for kind, points in judged["ces"].items()},
    }
    return {
        share: {
            arm: {cost: least_at(own["asleep_node_hours"], p.values(), cost) for cost in COSTS}
            for arm, p in arms.items()
        }
        for share, own in judged["ces"]["causal"].items()
    }


def dominance(own: Curve, others: Curve) -> dict[str, Any]:
    """How many points of each are dominated by one of the other: no less saved, no more paid."""

    def is_better(one: SavingFigures, two: SavingFigures, by: Sequence[str]) -> bool:
        pays = all(getattr(one, cost) <= getattr(two, cost) for cost in by)
        return one.asleep_node_hours >= two.asleep_node_hours and pays

    def beaten(points: Curve, rivals: Curve, by: Sequence[str]) -> int:
        return sum(
            any(is_better(rival, point, by) for rival in rivals.values())
            for point in points.values()
        )

    told: dict[str, Any] = {"ces_points": len(own), "other_points": len(others)}
    for by in (("jobs_delayed",), ("delay_hours",), ("wake_ups_a_day",), COSTS):
        told[" and ".join(by)] = {
            "ces_dominated": beaten(own, others, by),
            "others_dominated": beaten(others, own, by),
        }
    return told


def geometric(values: Sequence[float | None]) -> float:
    """The geometric mean of those that are told; a ratio of 0 counts as 0.01."""
    known = [max(v, 0.01) for v in values if v is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else math.nan
