"""Curves of what CES and its alternatives save and cost, and which points beat which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gsched.sim.node_series import SeriesResult

Curve = dict[str, SeriesResult]


def matched(own: Curve, past: Curve, past_own: Curve, now: Curve) -> dict[str, Any]:
    """For each σ the alternative that was best in the past at the same saving, and both now.

    Best: the least unmet demand in the past among those that saved at least as much there as CES
    did; where none did, the one that saved most.
    """
    pairs = {}
    for sigma, result in own.items():
        saved = past_own[sigma].mean_asleep
        able = [name for name, each in past.items() if each.mean_asleep >= saved]
        chosen = (
            min(able, key=lambda name: past[name].unmet_node_minutes_a_day)
            if able
            else max(past, key=lambda name: past[name].mean_asleep)
        )
        pairs[sigma] = {"alternative": chosen, "ces": brief(result), "other": brief(now[chosen])}
    return pairs


def brief(result: SeriesResult) -> dict[str, float]:
    """The three that are weighed against each other."""
    return {
        "mean_asleep": result.mean_asleep,
        "wake_ups_a_day": result.wake_ups_a_day,
        "unmet_node_minutes_a_day": result.unmet_node_minutes_a_day,
    }


def dominance(own: Curve, others: Curve) -> dict[str, Any]:
    """Which points of CES are dominated by one of `others`, and the other way round.

    A point dominates another where it saves at least as much with no more wake-ups and no more
    unmet demand; by saving and unmet demand alone in the second count.
    """

    def better(one: SeriesResult, two: SeriesResult, by: Sequence[str]) -> bool:
        first, second = brief(one), brief(two)
        costs = [first[name] <= second[name] for name in by]
        return first["mean_asleep"] >= second["mean_asleep"] and all(costs)

    told: dict[str, Any] = {"ces_points": len(own), "other_points": len(others)}
    for label, by in (
        ("saving, wake-ups and unmet demand", ("wake_ups_a_day", "unmet_node_minutes_a_day")),
        ("saving and unmet demand", ("unmet_node_minutes_a_day",)),
        ("saving and wake-ups", ("wake_ups_a_day",)),
    ):
        beaten = sum(any(better(o, c, by) for o in others.values()) for c in own.values())
        beats = sum(any(better(c, o, by) for c in own.values()) for o in others.values())
        told[label] = {"ces_points_dominated": beaten, "other_points_dominated": beats}
    return told
