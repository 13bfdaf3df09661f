"""The ports of cluster energy saving: what it keeps, who carries it out, who foresees demand.

Implemented by ``gsched_sql`` (PowerLog), ``gsched.daemon.helper_client`` (NodeHelper) and
``gsched.app`` (DemandSource).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gsched.model.decision import JsonValue, Reason
from gsched.model.demand_forecast import DemandForecast
from gsched.model.journal import ChangeState
from gsched.model.node_power import (
    NodeOrder,
    NodeOrderEntry,
    PoolCount,
    PowerSpan,
    WakeDelay,
)


class PowerLog(Protocol):
    """Durable record of one cluster's sleeping nodes. Every call commits before it returns.

    Writing calls raise LostLeadershipError once another daemon leads the cluster.
    """

    def memory(self) -> Mapping[str, JsonValue]:
        """What CES kept of the last time, {} at first. Raises ValueError where it is damaged."""
        ...

    def remember(self, memory: Mapping[str, JsonValue]) -> None:
        """Keep it for the next time."""
        ...

    def record(self, orders: Sequence[NodeOrder], state: ChangeState) -> None:
        """Keep new orders as INTENT or OBSERVED. An order_id already there is left alone."""
        ...

    def settle(self, settled: Sequence[tuple[str, ChangeState, str]], at: int) -> None:
        """Move orders (order_id, new state, detail) on."""
        ...

    def unsettled(self) -> Sequence[NodeOrderEntry]:
        """Orders in state INTENT or SENT, the oldest first."""
        ...

    def orders(self, since: int, until: int) -> Sequence[NodeOrderEntry]:
        """Orders that were decided in this time, the oldest first."""
        ...

    def keep_spans(self, spans: Sequence[PowerSpan]) -> None:
        """Keep spans; one of the same node, phase and start takes the place of the earlier one."""
        ...

    def open_spans(self) -> Sequence[PowerSpan]:
        """Spans that have not ended."""
        ...

    def spans(self, since: int, until: int) -> Sequence[PowerSpan]:
        """Spans that lie at least partly in this time, by start."""
        ...

    def keep_counts(self, counts: Sequence[PoolCount]) -> None:
        """Keep counts; one of the same pool and time takes the place of the earlier one."""
        ...

    def counts(self, since: int, until: int) -> Sequence[PoolCount]:
        """Counts of this time by pool and time, and the last one before it of each pool."""
        ...

    def keep_delays(self, delays: Sequence[WakeDelay]) -> None:
        """Keep delays; one of the same job and allocation takes the place of the earlier one."""
        ...

    def delays(self, since: int, until: int) -> Sequence[WakeDelay]:
        """Delays that began in this time, by when they began."""
        ...


BUSY = "jobs run on it"
"""Why a node is not put to sleep that was idle when that was decided: no fault of the node's."""


class Answer(Protocol):
    """What became of a request for some nodes; of `failed` the value says why."""

    @property
    def done(self) -> Sequence[str]:
        """Nodes to which the order was given."""
        ...

    @property
    def already(self) -> Sequence[str]:
        """Nodes that were so before."""
        ...

    @property
    def failed(self) -> Mapping[str, str]:
        """Nodes for which it could not be done."""
        ...


class NodeHelper(Protocol):
    """Whoever may give nodes another power state.

    Both raise GschedError where nothing at all came of the request.
    """

    def power_down(self, nodes: Sequence[str]) -> Answer:
        """Put nodes to sleep once they are idle; no new job begins on them."""
        ...

    def power_up(self, nodes: Sequence[str]) -> Answer:
        """Wake nodes."""
        ...


@dataclass(frozen=True, slots=True)
class PoolSight:
    """A pool as a look has shown it: its nodes, and how many of them hold jobs.

    Both count nodes as well that energy saving leaves alone, as the job history does.
    """

    nodes: tuple[str, ...]
    busy: int


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is known of a pool's demand.

    `past` are busy nodes in steps of `step_s` seconds (the peak of each, the latest last), as
    PoolSight counts them; empty where nothing is known. `why` says where `forecast` is from, or why
    there is none.
    """

    past: tuple[float, ...]
    step_s: int
    forecast: DemandForecast | None
    why: Reason


class DemandSource(Protocol):
    """Whoever knows how many nodes are wanted. It answers at once, with what it has."""

    def seen(self, now: int, pools: Mapping[str, PoolSight]) -> None:
        """Take in what a look has shown of all pools, by name."""
        ...

    def outlook(self, pool: str, now: int) -> Outlook:
        """What is known of a pool."""
        ...
