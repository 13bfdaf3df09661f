"""How a look is taken in: by the daemon at each step, and for ``gsched ces plan``. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gsched.daemon.ces_books import Books
from gsched.daemon.ces_look import Ground, Scene, length_s, scene_of
from gsched.daemon.ces_orders import Settled
from gsched.daemon.ces_sight import NodeSight
from gsched.daemon.ces_watch import counts_of, jobs_on
from gsched.engine.node_ports import Outlook
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeVerb, PoolCount, PowerSpan, WakeDelay
from gsched.policy.ces_state import NodePower
from gsched.slurm.power_saving import PowerSaving
from gsched.slurm.records import QueueRow


@dataclass(frozen=True, slots=True)
class Seen:
    """A look that was taken in: the snapshot of it, and what is to be kept.

    `settled` are the orders of which the look has told, `ended` says of each what it was and how it
    ended.
    """

    now: int
    saving: PowerSaving
    scene: Scene
    counts: Mapping[str, PoolCount]
    settled: Sequence[Settled]
    ended: Sequence[tuple[NodeVerb, ChangeState]]
    spans: Sequence[PowerSpan]
    delays: Sequence[WakeDelay]


def take_in(
    now: int,
    last_look: int | None,
    rows: Sequence[QueueRow],
    sights: Sequence[NodeSight],
    ground: Ground,
    books: Books,
    outlooks: Mapping[str, Outlook],
) -> Seen:
    """Take in a look at `now`, and make the snapshot of it. `books` know of it then.

    `last_look` is when they were last told of one (None: too long ago to say what lies between),
    `rows` are all jobs that live.
    """
    by_name = {sight.name: sight for sight in sights}
    under_way = books.orders.under_way(now)
    settled = books.orders.judge(now, by_name)
    books.memory = books.memory.owing(books.orders.unwoken(settled))
    ended = books.orders.ended(settled)
    books.orders.settle(settled, now)
    books.orders.forget(by_name)
    slept = frozenset(books.spans.open)
    suspend_s = ground.saving.suspend_time_s
    if suspend_s is not None:
        suspend_s = length_s(suspend_s, ground.slurm_time)
    waking = {sight.name for sight in sights if sight.power is NodePower.WAKING}
    jobs = jobs_on(rows, waking | slept)
    still_on = ground.power_state.not_off
    news = books.spans.see(now, last_look, sights, under_way, jobs, suspend_s, still_on)
    delays = books.delays.see(now, last_look, rows, by_name, slept, ground.slurm_time)
    scene = scene_of(now, sights, ground, books.spans, books.orders, outlooks, news.woken_by_slurm)
    return Seen(
        now=now,
        saving=ground.saving,
        scene=scene,
        counts=counts_of(now, scene.state.nodes, scene.wanted.nodes),
        settled=settled,
        ended=ended,
        spans=news.spans,
        delays=delays,
    )
