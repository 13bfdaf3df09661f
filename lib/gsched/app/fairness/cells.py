"""Cells of the tables of `gsched fairness`: light, for whoever has no database."""

from __future__ import annotations

NO_ACCOUNT = "(none)"
UNKNOWN = "-"


def account(name: str) -> str:
    """An account's name; jobs without any are told apart."""
    return name or NO_ACCOUNT


def ratio(r: float | None) -> str:
    """r with two digits, UNKNOWN where nothing was asked for."""
    return UNKNOWN if r is None else f"{r:.2f}"


def hours(number: float) -> str:
    """GPU-hours: one digit behind the point, small ones with two that say something."""
    if abs(number) >= 0.95 or abs(number) < 0.005:
        return f"{round(number, 1) + 0.0:,.1f}"  # never -0.0
    return f"{number:.2g}"
