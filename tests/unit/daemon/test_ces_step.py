"""How a look is taken in, where Slurm's seconds are not the clock's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.queue import node

from gsched.config.node_settings import CesTable
from gsched.daemon.ces_books import Books
from gsched.daemon.ces_look import Ground
from gsched.daemon.ces_orders import OrderBook, SaverTimes
from gsched.daemon.ces_sight import NodeSight
from gsched.daemon.ces_spans import SpanBook
from gsched.daemon.ces_step import take_in
from gsched.daemon.ces_watch import CountBook, DelayBook
from gsched.model.node_power import PowerCause
from gsched.policy.ces_state import CesMemory, NodePower
from gsched.slurm.power_saving import PowerSaving

NOW = 1_800_000_000


@pytest.mark.parametrize(("idle_s", "cause"), [(600, PowerCause.SLURM), (599, PowerCause.OTHERS)])
def test_slurms_own_suspend_time_is_told_in_seconds_of_the_clock(idle_s, cause) -> None:
    books = Books(
        spans=SpanBook((), ()),
        orders=OrderBook(SaverTimes(), 86400, ()),
        delays=DelayBook(()),
        counts=CountBook(300),
        memory=CesMemory(),
        kept_memory={},
    )
    sight = NodeSight(
        "n1", "p", NodePower.FALLING, False, False, False, node("n1"),
        frozenset({"powering_down"}), None, NOW - idle_s,
    )  # fmt: skip
    ground = Ground(CesTable(), PowerSaving(10, 1, 1), (), slurm_time=lambda at: 60 * at - 7)
    for saving in (ground.saving, replace(ground.saving, suspend_time_s=None)):
        books.spans.open.clear()
        seen = take_in(NOW, None, (), [sight], replace(ground, saving=saving), books, {})
        is_on = saving.suspend_time_s is not None
        assert [s.cause for s in seen.spans] == [cause if is_on else PowerCause.OTHERS]
