"""Situations for forecasts, small enough to follow by hand: second 1,000,000 is now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gsched.forecast.situation import (
    Demand,
    Field,
    Node,
    PastArrival,
    Piece,
    RunningJob,
    Situation,
    WaitingJob,
)

NOW = 1_000_000.0
LEVELS = (0.1, 0.5, 0.9)
GPU_FIELD = Field("gpu", "GPU")


def nodes(*units: int, field: int = 0, kind: str = "") -> tuple[Node, ...]:
    return tuple(
        Node(f"{kind or 'n'}{number}", field, many, kind) for number, many in enumerate(units)
    )


def runs_for(seconds: float | Sequence[float]) -> tuple[float, ...]:
    """Quantiles at LEVELS: those told, or one run time that is certain."""
    return (seconds,) * len(LEVELS) if isinstance(seconds, int | float) else tuple(seconds)


def running(
    job_id: str,
    since_s: float,
    total: float | Sequence[float],
    *pieces: tuple[int, int],
    limit_s: float | None = None,
    demands: tuple[Demand, ...] = (),
) -> RunningJob:
    """A job that has run for `since_s` and will for `total` in all, on pieces (node, units)."""
    return RunningJob(
        job_id,
        NOW - since_s,
        limit_s,
        runs_for(total),
        tuple(Piece(node, units) for node, units in pieces),
        demands,
    )


def waiting(
    job_id: str,
    units: int,
    order: float,
    total: float | Sequence[float] = 100.0,
    limit_s: float | None = None,
    **told: Any,
) -> WaitingJob:
    """A job that waits since a minute ago for `units` of field 0, unless told otherwise."""
    demands = told.pop("demands", None) or (
        Demand(told.pop("field", 0), units, told.pop("nodes", 0), told.pop("kinds", ())),
    )
    submitted_at = NOW - told.pop("waited_s", 60.0)
    return WaitingJob(job_id, demands, order, submitted_at, limit_s, runs_for(total), **told)


def arrived(
    ago_s: float, units: int, order: float, total: float, limit_s: float | None = None
) -> PastArrival:
    return PastArrival(NOW - ago_s, (Demand(0, units),), order, limit_s, runs_for(total))


def situation(**told: Any) -> Situation:
    """One field, no nodes, nobody: `told` are fields of Situation."""
    nothing: dict[str, Any] = {"nodes": (), "running": (), "waiting": ()}
    return Situation(**({"as_of": NOW, "levels": LEVELS, "fields": (GPU_FIELD,)} | nothing | told))
