"""Values of a reason in words. They come from files that anybody may have written.

What is no number, or no text of a bearable length, is shown as ``?``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from gsched.explain.words import moment, short_time

Params = Mapping[str, Any]

_MOST_CHARS = 200


def amount(params: Params, name: str) -> float | None:
    """A finite number; None for anything else."""
    value = params.get(name)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and math.isfinite(value) else None  # type: ignore[arg-type]


def number(params: Params, name: str) -> str:
    """A number, with one decimal where it is small."""
    value = amount(params, name)
    if value is None:
        return "?"
    return f"{value:.0f}" if abs(value) >= 10 or value == int(value) else f"{value:.1f}"


def span(params: Params, name: str) -> str:
    """Seconds as a duration."""
    value = amount(params, name)
    if value is None:
        return "?"
    return short_time(value) if value >= 0 else f"−{short_time(-value)}"


def at(params: Params, name: str) -> str:
    """Epoch seconds as local time."""
    value = amount(params, name)
    try:
        return "?" if value is None else moment(value)
    except (OverflowError, ValueError, OSError):  # no year of the calendar
        return "?"


def text(params: Params, name: str) -> str:
    """A short text; whoever prints it makes it safe."""
    value = params.get(name)
    return value[:_MOST_CHARS] if isinstance(value, str) and value else "?"
