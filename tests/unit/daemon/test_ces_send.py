"""Orders to the helper: which come first, and what each of its answers means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import pytest
from support.memory_power_log import MemoryPowerLog

from gsched.daemon.ces_orders import OrderBook, SaverTimes
from gsched.daemon.ces_send import OrderSender
from gsched.daemon.helper_client import Outcome
from gsched.engine.faults import no_faults
from gsched.errors import UnavailableError
from gsched.model.decision import Reason
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeOrder, NodeVerb

T = 1_800_000_000
TIMES = SaverTimes(backoff_s=60, most_backoff_s=3600)


class Bench:
    """A sender whose helper answers by `answer`."""

    def __init__(self) -> None:
        self.now = T
        self.asked: list[tuple[str, list[str]]] = []
        self.log = MemoryPowerLog()
        self.book = OrderBook(TIMES, 86400, ())
        self.totals: Counter[tuple[NodeVerb, ChangeState]] = Counter()
        self.answer: Callable[[list[str]], Outcome] = lambda nodes: Outcome(tuple(nodes), (), {})
        self.sender = OrderSender(self.log, self, lambda: self.now, no_faults, self.totals)
        self._number = 0

    def power_up(self, nodes: Sequence[str]) -> Outcome:
        return self._ask("up", nodes)

    def power_down(self, nodes: Sequence[str]) -> Outcome:
        return self._ask("down", nodes)

    def _ask(self, verb: str, nodes: Sequence[str]) -> Outcome:
        self.asked.append((verb, list(nodes)))
        return self.answer(list(nodes))

    def send(self, *wishes: tuple[NodeVerb, str]) -> dict[str, tuple[str, str]]:
        """How each order stands in the log, by node."""
        orders = []
        for verb, node in wishes:
            self._number += 1
            made = f"o{self._number}", node, "p", verb, Reason("ces.woken"), self.now, self.now + 60
            orders.append(NodeOrder(*made))
        self.sender.send(orders, self.book, TIMES, lambda: True)
        kept = self.log.orders(self.now, self.now + 1)
        return {e.order.node: (e.state.value, e.detail) for e in kept}

    def fails(self) -> None:
        def fail(_: list[str]) -> Outcome:
            raise UnavailableError("no helper runs")

        self.answer = fail


@pytest.fixture
def bench() -> Bench:
    return Bench()


WAKE, SLEEP = NodeVerb.WAKE, NodeVerb.SLEEP


def test_nodes_are_woken_before_others_are_put_to_sleep(bench: Bench) -> None:
    bench.send((SLEEP, "n1"), (WAKE, "n2"), (SLEEP, "n3"))
    assert bench.asked == [("up", ["n2"]), ("down", ["n1", "n3"])]
    sent = ChangeState.SENT
    assert bench.totals == {(WAKE, sent): 1, (SLEEP, sent): 2}


def test_what_the_helper_answers_of_each_node(bench: Bench) -> None:
    bench.answer = lambda _: Outcome(("n1",), ("n2",), {"n3": "jobs run on it"})
    found = bench.send(*((SLEEP, f"n{number}") for number in range(1, 5)))
    assert found == {
        "n1": ("sent", ""),
        "n2": ("void", "it was so before"),
        "n3": ("rejected", "jobs run on it"),
        "n4": ("rejected", "the helper's answer does not name it"),
    }


def test_pauses_double_until_a_request_succeeds(bench: Bench) -> None:
    bench.fails()
    pauses = []
    for _ in range(8):
        bench.send((SLEEP, "n1"))
        began = bench.now
        while bench.sender.paused(bench.now, TIMES):
            bench.now += 60
        pauses.append(bench.now - began)
    assert pauses == [60, 120, 240, 480, 960, 1920, 3600, 3600]
    bench.answer = lambda nodes: Outcome(tuple(nodes), (), {})
    bench.send((SLEEP, "n1"))
    assert bench.sender.why == ""
    bench.fails()
    bench.send((SLEEP, "n1"))
    assert bench.sender.why == "gsched-helper: no helper runs"
    bench.now += 60
    assert not bench.sender.paused(bench.now, TIMES)


@pytest.mark.parametrize("by_s", [-7200, 7200])
def test_a_clock_that_is_set_ends_a_pause(bench: Bench, by_s: int) -> None:
    bench.fails()
    bench.send((SLEEP, "n1"))
    assert bench.sender.paused(bench.now, TIMES)
    bench.now += by_s
    assert not bench.sender.paused(bench.now, TIMES)


def test_a_part_that_comes_too_late_is_not_the_looks_fault(bench: Bench) -> None:
    def slow(nodes: list[str]) -> Outcome:
        bench.now += 61
        return Outcome(tuple(nodes), (), {})

    bench.answer = slow
    bench.send((WAKE, "n1"), (SLEEP, "n2"))
    assert bench.asked == [("up", ["n1"])]
    assert bench.sender.why == ""
    assert not bench.sender.paused(bench.now, TIMES)
