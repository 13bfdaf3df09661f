"""Deadlines that traces tell in columns of their own, which readers keep in `extra`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.model.trace import AttemptColumns, Constant

Deadline = tuple[float, float]
"""An epoch time and what it is worth to meet it; NaN: the job has none."""

_NO_DEADLINE: Deadline = (math.nan, 1.0)


def deadlines_of(part: AttemptColumns) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Deadline (epoch time, NaN: none) and its weight of each attempt."""
    told = np.full(part.count, np.nan), np.ones(part.count)
    extra = part.columns.get("extra", Constant(None))
    if isinstance(extra, Constant):
        return told
    rows = zip(extra, part.column("source"), part.column("submit_time"), strict=True)
    for row, (text, source, submit_time) in enumerate(rows):
        tell = _TELLERS.get(source)
        if tell is not None and text is not None:
            told[0][row], told[1][row] = tell(json.loads(text), submit_time)
    return told


def _chronus(extra: Mapping[str, Any], submit_time: int) -> Deadline:
    """Of Chronus' soft deadlines the last, in minutes from the submission."""
    if str(extra.get("best_effort")) == "1":
        return _NO_DEADLINE
    times, values = (
        [_number(part) for part in str(extra.get(name, "")).split("-")]
        for name in ("expect_time_list", "expect_value_list")
    )
    minutes = max(times)
    if not minutes > 0:
        return _NO_DEADLINE
    weight = values[0]
    return submit_time + 60 * minutes, weight if weight > 0 else 1.0


def _column(name: str) -> Callable[[Mapping[str, Any], int], Deadline]:
    """A deadline in seconds from the beginning of the trace, as the submission."""

    def told(extra: Mapping[str, Any], _submit_time: int) -> Deadline:
        deadline = _number(extra.get(name))
        return (deadline if deadline > 0 else math.nan), 1.0

    return told


_TELLERS: dict[str, Callable[[Mapping[str, Any], int], Deadline]] = {
    "chronus": _chronus,
    "elasticflow": _column("ddl"),
    "itp": _column("deadline"),
}
"""Sources of attempts whose `extra` has deadlines → how."""


def _number(told: Any) -> float:
    try:
        number = float(told)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return number if math.isfinite(number) else math.nan
