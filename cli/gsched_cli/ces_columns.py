"""The columns of ``gsched ces status``, ``plan`` and ``orders``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gsched_cli.output import duration, local_time
from gsched_cli.tables import Column

Row = Mapping[str, Any]

POOL_DEFAULT = "pool,running,idle,asleep,waking,falling,excluded,wanted,next,reason"
NODE_DEFAULT = "node,pool,power,action,reason"
ORDER_DEFAULT = "decided,node,verb,state,detail,reason"


def _text(name: str, heading: str, value: Callable[[Row], str]) -> Column[Row]:
    return Column(name, heading, lambda row: value(row) or "-", lambda row: value(row) or None)


def _number(name: str) -> Column[Row]:
    return Column(name, name.upper(), lambda row: str(row[name]), lambda row: row[name], right=True)


def _time(name: str, heading: str, key: str) -> Column[Row]:
    return Column(name, heading, lambda row: local_time(row.get(key)), lambda row: row.get(key))


def _next(row: Row) -> str:
    """What the newest check orders, or would."""
    if row["wake"]:
        return f"wake {row['wake']}"
    return f"sleep {row['sleep']}" if row["sleep"] else ""


POOL_COLUMNS: tuple[Column[Row], ...] = (
    _text("pool", "POOL", lambda row: row["pool"]),
    *map(_number, ("nodes", "running", "idle", "asleep", "waking", "falling", "excluded")),
    *map(_number, ("wanted", "spare")),
    Column(
        "lead",
        "LEAD",
        lambda row: duration(row.get("wake_lead_s")),
        lambda row: row.get("wake_lead_s"),
        right=True,
    ),
    _text("next", "NEXT", _next),
    _text("reason", "REASON", lambda row: row["reason_text"]),
    _text("forecast", "FORECAST", lambda row: row["forecast_text"]),
    _time("made", "FORECAST OF", "forecast_made_at"),
)
NODE_COLUMNS: tuple[Column[Row], ...] = (
    _text("node", "NODE", lambda row: row["node"]),
    _text("pool", "POOL", lambda row: row["pool"]),
    _text("power", "POWER", lambda row: row["power"]),
    Column(
        "running",
        "RUNS",
        lambda row: "yes" if row["running"] else "no",
        lambda row: row["running"],
    ),
    _time("idle", "IDLE SINCE", "idle_since"),
    _text("action", "ACTION", lambda row: row["action"]),
    _text("reason", "REASON", lambda row: row["reason_text"]),
)
ORDER_COLUMNS: tuple[Column[Row], ...] = (
    _time("decided", "DECIDED", "decided_at"),
    _text("node", "NODE", lambda row: row["node"]),
    _text("pool", "POOL", lambda row: row["pool"]),
    _text("verb", "ORDER", lambda row: row["verb"]),
    _text("state", "STATE", lambda row: row["state"]),
    _time("settled", "SETTLED", "settled_at"),
    _text("detail", "DETAIL", lambda row: row["detail"]),
    _text("reason", "REASON", lambda row: row["reason_text"]),
)
