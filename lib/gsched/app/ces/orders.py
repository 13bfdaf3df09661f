"""`gsched ces orders`: which node was told what, when, why, and what came of it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gsched.app.wiring import cluster_of, open_history
from gsched.config.settings import Settings
from gsched.explain.ces_reasons import ces_reason
from gsched.model.decision import Reason
from gsched.model.node_power import NodeOrderEntry


def orders(
    settings: Settings, since: int, until: int, nodes: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The orders of this time, the oldest first, of these nodes or of all (times epoch seconds).

    Raises ConfigError where there is no history database.
    """
    with open_history(settings) as history:
        entries = history.power_log(cluster_of(settings, history)).orders(since, until)
    return [_row(entry) for entry in entries if not nodes or entry.order.node in nodes]


def _row(entry: NodeOrderEntry) -> dict[str, Any]:
    order = entry.order
    return {
        "node": order.node,
        "pool": order.pool,
        "verb": order.verb.value,
        "decided_at": order.decided_at,
        "state": entry.state.value,
        "settled_at": entry.settled_at,
        "detail": entry.detail,
        "reason": {"code": order.reason.code, "params": dict(order.reason.params)},
        "reason_text": _words(order.reason),
    }


def _words(reason: Reason) -> str:
    """Why this node; before it why any, where the order tells that too."""
    own = ces_reason(reason.code, reason.params)
    because = _BECAUSE.get(str(reason.params.get("because", "")))
    return f"{because}; {own}" if because else own


_BECAUSE = {
    "ces.arrival": "jobs waited for nodes",
    "ces.demand-expected": "demand was expected",
    "ces.surplus": "more were idle than are kept as a spare",
    "ces.staggered": "the next part of a wake-up",
}
