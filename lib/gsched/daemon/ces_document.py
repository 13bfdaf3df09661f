"""What energy saving tells of its last look, as a document for status and files. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from gsched.daemon.ces_look import Scene
from gsched.daemon.ces_orders import OrderBook
from gsched.model.decision import JsonValue, Reason
from gsched.model.node_power import PoolCount
from gsched.policy.ces import Ces
from gsched.policy.ces_rule import NOT_DUE
from gsched.policy.ces_state import CesDecision, PoolDemand

Checked = tuple[int, Reason]
"""When a pool was last checked, and what came of it."""

MOST_LISTED = 100
"""So many nodes are named in a list."""


def last_checked(
    before: Mapping[str, Checked], decision: CesDecision, now: int
) -> dict[str, Checked]:
    """What the last check of each pool said: between two checks nothing is to be told."""
    return {
        verdict.pool: before[verdict.pool]
        if verdict.reason.code == NOT_DUE and verdict.pool in before
        else (now, verdict.reason)
        for verdict in decision.verdicts
    }


def document(
    mode: str,
    why: str,
    scene: Scene,
    policy: Ces,
    decision: CesDecision,
    counts: Mapping[str, PoolCount],
    orders: OrderBook,
    checked: Mapping[str, Checked],
) -> dict[str, JsonValue]:
    """What is told. `why`: why nothing is ordered, "" where it is. `checked`: by `last_checked`."""
    state = scene.state
    verdicts = {verdict.pool: verdict for verdict in decision.verdicts}
    pools: list[JsonValue] = []
    for pool, count in sorted(counts.items()):
        told: dict[str, JsonValue] = {
            "pool": pool,
            "nodes": count.total + count.excluded,
            "running": count.running,
            "idle": count.idle,
            "falling": count.falling,
            "asleep": count.asleep,
            "waking": count.waking,
            "excluded": count.excluded,
            "wanted": count.wanted,
            "spare": policy.settings.sigma_of(pool),
            "wake_lead_s": scene.leads_s.get(pool),
        }
        verdict = verdicts[pool]
        told |= {"wake": verdict.wake, "sleep": verdict.sleep}
        said = checked.get(pool, (state.now, verdict.reason))
        told |= {"reason": _told(said[1]), "reason_at": said[0]}
        pools.append(told | _forecast(state.demands.get(pool)))
    given_up = sorted(orders.given_up(state.now).items())[:MOST_LISTED]
    open_orders: list[JsonValue] = [
        {
            "node": entry.order.node,
            "verb": entry.order.verb.value,
            "state": entry.state.value,
            "since": entry.order.decided_at,
        }
        for entry in list(orders.open.values())[:MOST_LISTED]
    ]
    kept: dict[str, JsonValue] = {**Counter(reason.code for reason in decision.kept.values())}
    return {
        "mode": mode,
        "why": why,
        "looked_at": state.now,
        "next_check": decision.next_check,
        "wake_failures": state.wake_failures,
        "failed_nodes": list[JsonValue](sorted(scene.failed)[:MOST_LISTED]),
        "max_failures": policy.settings.max_failures,
        "stopped": state.stopped,
        "pools": pools,
        "kept": kept,
        "open_orders": open_orders,
        "given_up": dict[str, JsonValue](given_up),
    }


def _forecast(demand: PoolDemand | None) -> dict[str, JsonValue]:
    if demand is None:
        return {"forecast": None, "forecast_made_at": None}
    made_at = demand.forecast.made_at if demand.forecast is not None else None
    return {"forecast": _told(demand.why), "forecast_made_at": made_at}


def _told(reason: Reason) -> dict[str, JsonValue]:
    return {"code": reason.code, "params": dict(reason.params)}
