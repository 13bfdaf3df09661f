"""What the daemon tells of cluster energy saving: to everybody, and as metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gsched.model.decision import JsonValue

if TYPE_CHECKING:  # whoever reads the status file starts no child
    from gsched.daemon.demand_facts import DemandFacts
    from gsched.model.journal import ChangeState
    from gsched.model.node_power import NodeVerb

_LOG_SAYS = "the daemon's log says why"
_HELPER = "gsched-helper: "
_STOPPED = "ces.suspending-stopped"


@dataclass(frozen=True, slots=True)
class CesFacts:
    """`document` is that of the newest look, `totals` are orders by how they ended, since the
    process began.
    """

    document: Mapping[str, JsonValue]
    totals: Mapping[tuple[NodeVerb, ChangeState], int]
    demand: DemandFacts


def helper_problem(told: Mapping[str, JsonValue]) -> str:
    """Why orders do not get through to gsched-helper, as a document tells it; "" where they do."""
    why = told.get("why")
    return why if isinstance(why, str) and why.startswith(_HELPER) else ""


def ces_for_everybody(told: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The document without the words of errors: they may name paths, users and hosts."""
    found = dict(told)
    for key in ("problem", "stopped"):
        if found.get(key):
            found[key] = _LOG_SAYS
    if helper_problem(found):
        found["why"] = f"{_HELPER}{_LOG_SAYS}"
    demand, given_up, pools = (found.get(key) for key in ("demand", "given_up", "pools"))
    if isinstance(demand, dict) and demand.get("problem"):
        found["demand"] = {**demand, "problem": _LOG_SAYS}
    if isinstance(given_up, dict):
        found["given_up"] = dict.fromkeys(given_up, _LOG_SAYS)
    if isinstance(pools, list):
        found["pools"] = [_bare(pool) for pool in pools]
    return found


def _bare(pool: JsonValue) -> JsonValue:
    reason = pool.get("reason") if isinstance(pool, dict) else None
    if isinstance(pool, dict) and isinstance(reason, dict) and reason.get("code") == _STOPPED:
        return {**pool, "reason": {"code": _STOPPED, "params": {"why": _LOG_SAYS}}}
    return pool
