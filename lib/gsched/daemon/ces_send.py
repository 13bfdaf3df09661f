"""Orders on their way to gsched-helper: written down, sent in parts, and what came of each.

Killed between any two steps nothing is lost: what was written down is told by the next look.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from gsched.daemon.ces_orders import NOT_SENT, OF_HELPER, OrderBook, SaverTimes, Settled
from gsched.engine.faults import FaultHook, FaultPoint
from gsched.engine.node_ports import Answer, NodeHelper, PowerLog
from gsched.engine.ports import Clock
from gsched.errors import GschedError, TryAgainError
from gsched.model.decision import Reason
from gsched.model.hostlist import fold
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeOrder, NodeOrderEntry, NodeVerb
from gsched.policy.ces_choice import SLEEP, WAKE
from gsched.policy.ces_state import CesDecision, NodeChange

log = logging.getLogger("gsched.daemon")

CHUNK_NODES = 64
CHUNK_CHARS = 1000
"""The helper takes a host list of 1024 characters."""

WAS_SO = "it was so before"
_EXPIRED = f"{NOT_SENT}it was decided too long ago"
_STOPPED = f"{NOT_SENT}the daemon does not act any more"
_TOO_SLOW = "from the look at the nodes to the orders it took longer than orders are good for"
_HELPER = "gsched-helper: "
_PAUSED = f"{NOT_SENT}the helper is left alone for a while"


class OrderSender:
    """Sends orders. After a request that came to nothing the helper is left alone for a while, for
    twice as long each time; so it is where all orders came too late to be sent.
    """

    def __init__(
        self,
        power_log: PowerLog,
        helper: NodeHelper,
        clock: Clock,
        on_point: FaultHook,
        totals: Counter[tuple[NodeVerb, ChangeState]],
    ) -> None:
        """`totals` counts what the log has of each order."""
        self._log = power_log
        self._helper = helper
        self._clock = clock
        self._on_point = on_point
        self._totals = totals
        self._misses = 0
        self._paused_until: int | None = None
        self._missed_at = 0
        self.why = ""
        """Why the last orders came to nothing, "" where they did not."""

    def why_lately(self, now: int, times: SaverTimes) -> str:
        """`why`, unless that was so long ago that nobody knows whether it would still be so."""
        return self.why if 0 <= now - self._missed_at <= 2 * times.most_backoff_s else ""

    def paused(self, now: int, times: SaverTimes) -> bool:
        """Whether nothing is sent for now."""
        if self._paused_until is None:
            return False
        if not 0 < self._paused_until - now <= times.most_backoff_s:
            self._paused_until = None
            return False
        return True

    def send(
        self,
        orders: Sequence[NodeOrder],
        book: OrderBook,
        times: SaverTimes,
        may_act: Callable[[], bool],
    ) -> list[tuple[NodeOrder, ChangeState]]:
        """Write down, send, settle; how each ended of which it is known.

        Raises what the log raises. The helper's errors are told.
        """
        ended: list[tuple[NodeOrder, ChangeState]] = []
        late = 0
        by_id = {order.order_id: order for order in orders}
        self._log.record(orders, ChangeState.INTENT)
        for order in orders:
            book.take(NodeOrderEntry(order, ChangeState.INTENT))
        self._on_point(FaultPoint.CES_INTENT_RECORDED)
        for verb in (NodeVerb.WAKE, NodeVerb.SLEEP):  # people wait for the former
            for part in _parts([order for order in orders if order.verb is verb]):
                settled = self._send(verb, part, times, may_act)
                self._on_point(FaultPoint.CES_SENT)
                now = self._clock()
                if not settled:
                    book.unanswered(order.order_id for order in part)
                else:
                    self._log.settle(settled, now)
                    book.settle(settled, now)
                    self._totals.update((verb, state) for _, state, _ in settled)
                late += sum(detail == _EXPIRED for *_, detail in settled)
                ended += [(by_id[order_id], state) for order_id, state, _ in settled]
        if late == len(orders):
            self._missed(_TOO_SLOW, times)
        self._on_point(FaultPoint.CES_ALL_SENT)
        return ended

    def _send(
        self,
        verb: NodeVerb,
        part: Sequence[NodeOrder],
        times: SaverTimes,
        may_act: Callable[[], bool],
    ) -> list[Settled]:
        """What has become of each; an order that nobody can tell of is left out."""
        now = self._clock()
        why = ""
        if not all(order.decided_at <= now <= order.valid_until for order in part):
            why = _EXPIRED
        elif not may_act():
            why = _STOPPED
        elif self.paused(now, times):
            why = _PAUSED
        if why:
            return [(order.order_id, ChangeState.VOID, why) for order in part]
        ask = self._helper.power_up if verb is NodeVerb.WAKE else self._helper.power_down
        nodes = [order.node for order in part]
        try:
            answer = ask(nodes)
        except TryAgainError as error:  # it may have been carried out: the next look tells
            self._missed(f"{_HELPER}{error.message}", times)
            return []
        except GschedError as error:
            self._missed(f"{_HELPER}{error.message}", times)
            detail = f"{OF_HELPER}{error.message}"
            return [(order.order_id, ChangeState.REJECTED, detail) for order in part]
        self._misses, self.why = 0, ""
        log.info("ces: %s: %s", verb.value, fold(nodes))
        return [(order.order_id, *_outcome(order.node, answer)) for order in part]

    def _missed(self, why: str, times: SaverTimes) -> None:
        self._misses += 1
        pause_s: int = min(times.backoff_s * 2 ** min(self._misses - 1, 20), times.most_backoff_s)
        self._missed_at = self._clock()
        self._paused_until = self._missed_at + pause_s
        if self.why != why:
            log.warning("ces: %s", why)
        self.why = why


def orders_of(
    decision: CesDecision, now: int, life_s: int, new_id: Callable[[], str]
) -> list[NodeOrder]:
    """A decision as orders that are good for `life_s` seconds, each with why its pool wants it."""
    because = {verdict.pool: verdict.reason.code for verdict in decision.verdicts}

    def order(change: NodeChange, verb: NodeVerb) -> NodeOrder:
        reason = change.reason
        if reason.code in (SLEEP, WAKE):
            reason = Reason(reason.code, {**reason.params, "because": because[change.pool]})
        return NodeOrder(new_id(), change.node, change.pool, verb, reason, now, now + life_s)

    return [
        *(order(change, NodeVerb.WAKE) for change in decision.wake),
        *(order(change, NodeVerb.SLEEP) for change in decision.sleep),
    ]


def _outcome(node: str, answer: Answer) -> tuple[ChangeState, str]:
    if node in answer.failed:
        return ChangeState.REJECTED, answer.failed[node]
    if node in answer.already:
        return ChangeState.VOID, WAS_SO
    if node in answer.done:
        return ChangeState.SENT, ""
    return ChangeState.REJECTED, "the helper's answer does not name it"


def _parts(orders: Sequence[NodeOrder]) -> Iterator[list[NodeOrder]]:
    """The orders in parts that the helper takes at a time."""
    part: list[NodeOrder] = []
    chars = 0
    for order in orders:
        longer = chars + len(order.node) + 1
        if part and (len(part) >= CHUNK_NODES or longer > CHUNK_CHARS):
            yield part
            part, longer = [], len(order.node) + 1
        part.append(order)
        chars = longer
    if part:
        yield part
