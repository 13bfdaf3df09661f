"""Which of the changes that were tried would let a waiting job start noticeably sooner."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gsched.explain.start_words import is_about

LEAST_GAIN_S = 60.0
LEAST_GAIN_SHARE = 0.1
"""A change helps when it takes away so many seconds, and so much of the wait that is left."""


def tried_changes(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What was tried for a job, by its document; empty when nothing was (yet)."""
    return list((answer.get("changes") or {}).get("tried") or [])


def helpful_changes(
    answer: Mapping[str, Any],
    at: float,
    is_possible: Callable[[Mapping[str, Any]], bool] = lambda _: True,
) -> list[dict[str, Any]]:
    """The changes that help, those with the earliest start first.

    A job whose own start lies beyond the forecast is helped by each change that has one. Changes
    that are not `is_possible` for this user and this cluster help nobody; they are asked about
    only when they would help.
    """
    start = answer.get("start")
    found = tried_changes(answer)
    if start:
        left_s = max(0.0, float(start["median"]) - at)
        latest = float(start["median"]) - max(LEAST_GAIN_S, LEAST_GAIN_SHARE * left_s)
        found = [change for change in found if change["start"]["median"] <= latest]
    found.sort(key=lambda change: (change["start"]["median"], change["option"]))
    return [change for change in found if is_possible(change)]


def limit_change(answer: Mapping[str, Any], at: float) -> dict[str, Any] | None:
    """The change to the limit that is advised (``limit_advice``); None when it would not help."""
    advice = answer.get("limit_advice")
    if not advice:
        return None
    helpful = helpful_changes(answer, at)
    return next((change for change in helpful if is_about(advice, change)), None)
