"""Orders to nodes that are under way, and nodes that orders did not reach. Pure.

An order is sent once; the next look says what became of it. One that Slurm has lost (it forgets a
power_up while a node goes off) or refused is decided anew only after a pause, which doubles each
time; after MAX_TRIES the node is left for as long as failures are remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gsched.daemon.ces_sight import NodeSight
from gsched.engine.node_ports import BUSY
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import MAX_GAP_S, NodeOrder, NodeOrderEntry, NodeVerb
from gsched.policy.ces_choice import RESERVED, RETRY
from gsched.policy.ces_state import NodePower

MAX_TRIES = 5

LOST = "Slurm does not show it"
NOT_SENT = "not sent: "
OF_HELPER = "helper: "
"""Begins the details of orders that reached no node, for no fault of the node's."""

LEFT = f"{NOT_SENT}the process that decided it ended"
UNANSWERED = f"{OF_HELPER}no answer, and {LOST}"

Settled = tuple[str, ChangeState, str]


@dataclass(frozen=True, slots=True)
class SaverTimes:
    """Seconds of the clock that energy saving lives by.

    An order is sent within `order_life_s` of its decision; what no look has shown `confirm_s` later
    is lost. `backoff_s` is the first pause after that, `most_backoff_s` the longest. Counts are
    kept every `count_every_s`; after `gap_s` without a look nobody knows what lies between. A clock
    that has moved by `step_s` more or less than time has passed has been set. A forecast is good
    for `max_forecast_age_s`.
    """

    order_life_s: int = 60
    confirm_s: int = 30
    backoff_s: int = 60
    most_backoff_s: int = 3600
    count_every_s: int = 300
    gap_s: int = MAX_GAP_S
    step_s: int = 60
    max_forecast_age_s: int = 1800


@dataclass(frozen=True, slots=True)
class _Misses:
    number: int
    last_at: int
    why: str


class OrderBook:
    """What is known of orders: those that are open, and how often others have missed their node.

    An intent that is read from the log was left by a process that is gone: what the first look does
    not show was not sent, as far as anybody knows, and may be decided anew at once.
    """

    def __init__(
        self, times: SaverTimes, failure_memory_s: int, entries: Iterable[NodeOrderEntry]
    ) -> None:
        """`entries`: those that are open, and all of the time in which failures are remembered."""
        self._times = times
        self._memory_s = failure_memory_s
        self.open: dict[str, NodeOrderEntry] = {}
        self._misses: dict[tuple[str, NodeVerb], _Misses] = {}
        self._late: dict[str, NodeOrderEntry] = {}
        self._unanswered: set[str] = set()
        for entry in sorted(entries, key=lambda each: each.order.decided_at):
            self.take(entry)
        intents = (e for e in self.open.values() if e.state is ChangeState.INTENT)
        self._left = frozenset(entry.order.order_id for entry in intents)

    def configure(self, times: SaverTimes, failure_memory_s: int) -> None:
        """Go on by other settings."""
        self._times, self._memory_s = times, failure_memory_s

    def take(self, entry: NodeOrderEntry) -> None:
        """An order is in this state now."""
        order = entry.order
        if entry.state.is_open:
            self.open[order.order_id] = entry
            return
        self.open.pop(order.order_id, None)
        self._unanswered.discard(order.order_id)
        key = order.node, order.verb
        if entry.state is ChangeState.CONFIRMED:
            self._misses.pop(key, None)
            self._late.pop(order.node, None)
            return
        if entry.detail in (LOST, LEFT, UNANSWERED):
            self._late[order.node] = entry
        if _has_missed(entry):
            before = self._misses.get(key)
            number = before.number + 1 if before else 1
            at = order.decided_at if entry.settled_at is None else entry.settled_at
            self._misses[key] = _Misses(number, at, entry.detail)

    def unanswered(self, order_ids: Iterable[str]) -> None:
        """The helper has said nothing of these: where they come to nothing, no node is at fault."""
        self._unanswered.update(order_ids)

    def settle(self, settled: Iterable[Settled], at: int) -> None:
        """Orders (order_id, new state, detail) have moved on."""
        for order_id, state, detail in settled:
            if (entry := self.open.get(order_id)) is not None:
                self.take(replace(entry, state=state, settled_at=at, detail=detail))

    def judge(self, now: int, sights: Mapping[str, NodeSight]) -> list[Settled]:
        """What a look says of the open orders; those of which it cannot tell yet are left out."""
        found = []
        for order_id, entry in self.open.items():
            end = self._judge(entry, sights.get(entry.order.node), now)
            if end is not None:
                found.append((order_id, *end))
        return found

    def _judge(
        self, entry: NodeOrderEntry, sight: NodeSight | None, now: int
    ) -> tuple[ChangeState, str] | None:
        order = entry.order
        if sight is None:
            return ChangeState.VOID, "Slurm knows no such node any more"
        if order.verb is NodeVerb.SLEEP:
            if sight.is_down:
                return ChangeState.VOID, "the node is down"
            if sight.power is not NodePower.AWAKE:
                return ChangeState.CONFIRMED, ""
            if sight.boot_time is not None and sight.boot_time > order.decided_at:
                return ChangeState.CONFIRMED, "and it has woken since"
        elif sight.is_down:
            return ChangeState.CONFIRMED, "it did not wake"
        elif sight.power in (NodePower.WAKING, NodePower.AWAKE):
            return ChangeState.CONFIRMED, ""
        if order.order_id in self._left:
            return ChangeState.VOID, LEFT
        if abs(now - order.decided_at) <= self._times.confirm_s:
            return None
        return ChangeState.VOID, UNANSWERED if order.order_id in self._unanswered else LOST

    def unwoken(self, settled: Iterable[Settled]) -> dict[str, int]:
        """How many open orders to wake a node of each pool have come to nothing."""
        known = ((self.open[i].order, state) for i, state, _ in settled if i in self.open)
        return unwoken(known)

    def ended(self, settled: Iterable[Settled]) -> list[tuple[NodeVerb, ChangeState]]:
        """Which orders have moved on, and to what."""
        return [(self.open[i].order.verb, state) for i, state, _ in settled if i in self.open]

    def under_way(self, now: int) -> dict[str, NodeVerb]:
        """What was ordered of each node, and may show in the look at `now`.

        An order that was taken for lost may still be carried out, by a helper that stood still.
        """
        late = {
            node: entry.order.verb
            for node, entry in self._late.items()
            if now - entry.order.decided_at <= self._times.gap_s
        }
        return late | {entry.order.node: entry.order.verb for entry in self.open.values()}

    def keep(self, node: str, verb: NodeVerb, now: int) -> Reason | None:
        """Why a node is to be given no such order now: the last one missed it."""
        misses = self._misses.get((node, verb))
        if misses is None:
            return None
        until = misses.last_at + self._pause_s(misses)
        if not misses.last_at - self._times.step_s <= now < until:
            if now >= misses.last_at + self._memory_s:
                del self._misses[node, verb]
            return None
        return Reason(RETRY, {"verb": verb.value, "tries": misses.number, "until": until})

    def given_up(self, now: int) -> dict[str, str]:
        """Nodes that orders have missed MAX_TRIES times, and why the last one did."""
        return {
            node: f"{verb.value}: {misses.why}"
            for (node, verb), misses in self._misses.items()
            if misses.number >= MAX_TRIES and now < misses.last_at + self._memory_s
        }

    def forget(self, nodes: Mapping[str, NodeSight]) -> None:
        """Nodes that Slurm does not know are of no interest any more."""
        self._misses = {key: kept for key, kept in self._misses.items() if key[0] in nodes}
        self._late = {node: kept for node, kept in self._late.items() if node in nodes}

    def _pause_s(self, misses: _Misses) -> int:
        if misses.number >= MAX_TRIES:
            return self._memory_s
        pause_s: int = self._times.backoff_s * 2 ** (misses.number - 1)
        return min(pause_s, self._times.most_backoff_s)


def unwoken(ended: Iterable[tuple[NodeOrder, ChangeState]]) -> dict[str, int]:
    """How many of the orders that ended so left a node of each pool asleep that was to wake.

    Not those before a reservation: they are decided anew as long as it is so.
    """
    return Counter(
        order.pool
        for order, state in ended
        if order.verb is NodeVerb.WAKE
        and state in (ChangeState.VOID, ChangeState.REJECTED)
        and order.reason.code != RESERVED
    )


def _has_missed(entry: NodeOrderEntry) -> bool:
    """Whether it was sent to the node in vain."""
    if entry.state is ChangeState.REJECTED:
        return not entry.detail.startswith((OF_HELPER, BUSY))
    return entry.state is ChangeState.VOID and entry.detail == LOST
