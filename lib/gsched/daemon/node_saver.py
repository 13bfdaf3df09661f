"""Energy saving on a live cluster: after each round it looks at the nodes, decides, and orders.

What it decides is ``policy.ces``; what it sees of nodes and of jobs that wait for them is kept in
the PowerLog, and so is every order before it is sent. It never undoes anything: once it stops,
nodes that sleep go on sleeping until Slurm needs them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gsched.config.node_settings import CesTable
from gsched.config.settings import Settings
from gsched.daemon.ces_books import Books, last_look, read_books
from gsched.daemon.ces_document import Checked, document, last_checked
from gsched.daemon.ces_look import Ground, ces_settings, pool_sights
from gsched.daemon.ces_orders import SaverTimes, unwoken
from gsched.daemon.ces_pinned import PinnedJobs
from gsched.daemon.ces_send import OrderSender, orders_of
from gsched.daemon.ces_sight import NodeSight, SlurmTime, sights_of
from gsched.daemon.ces_step import Seen, take_in
from gsched.daemon.look import Look
from gsched.engine.faults import FaultHook, FaultPoint, no_faults
from gsched.engine.node_ports import DemandSource, NodeHelper, PowerLog
from gsched.engine.ports import Clock, Stopwatch
from gsched.errors import GschedError, LostLeadershipError, UnavailableError
from gsched.model.decision import JsonValue
from gsched.model.hostlist import expand
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeOrder, NodeVerb
from gsched.policy.ces import Ces
from gsched.policy.ces_state import CesDecision, CesMemory
from gsched.power.state import State, Stopped
from gsched.slurm.power_saving import PowerSaving
from gsched.slurm.records import NodeFacts, SlurmConfig

log = logging.getLogger("gsched.daemon")

_SWITCHES_LIFE_S = 900


@dataclass(frozen=True, slots=True)
class SaverSettings:
    """What the site asks for. `helper_nodes`: those that gsched-helper may switch, None = any."""

    ces: CesTable
    helper_nodes: frozenset[str] | None = None
    times: SaverTimes = field(default_factory=SaverTimes)

    @classmethod
    def of(cls, settings: Settings) -> SaverSettings:
        """From gsched.toml. Raises DataError for host lists that are none."""
        names = (name for host_list in settings.helper.nodes for name in expand(host_list))
        return cls(settings.ces, frozenset(names))


@dataclass(frozen=True, slots=True)
class SaverParts:
    """What it works with.

    `clock` gives the epoch seconds in which it lives, `slurm_time` makes them of Slurm's, and
    `stopwatch` gives seconds of the same length that no change of the clock touches. `failures` is
    what `gsched power` has kept. `read_switches`: the leaf switch of each node, `read_pinned`:
    waiting jobs that name nodes. `why_idle` says why the daemon does not act.
    """

    log: PowerLog
    helper: NodeHelper
    source: DemandSource
    read_nodes: Callable[[], Sequence[NodeFacts]]
    clock: Clock
    new_id: Callable[[], str]
    failures: Callable[[], State] = State
    read_switches: Callable[[], Mapping[str, str]] = dict
    read_pinned: Callable[[], frozenset[int]] = frozenset
    why_idle: Callable[[], str] = str
    slurm_time: SlurmTime = int
    stopwatch: Stopwatch = time.monotonic
    on_point: FaultHook = no_faults


class NodeSaver:
    """Saves energy, one step after each round."""

    def __init__(self, parts: SaverParts, settings: SaverSettings) -> None:
        self.totals: Counter[tuple[NodeVerb, ChangeState]] = Counter()
        """What the log was told of orders since this process began."""
        self._parts = parts
        self._settings = settings
        self._sender = OrderSender(
            parts.log, parts.helper, parts.clock, parts.on_point, self.totals
        )
        self._books: Books | None = None
        self._last_look: int | None = None
        self._clock_seen: tuple[int, float] | None = None
        self._clock_set_at: int | None = None
        self._switches: Mapping[str, str] = {}
        self._switches_at: float | None = None
        self._pinned = PinnedJobs(parts.read_pinned)
        self._problem = ""
        self._power_known = State()
        self._unknown = ""
        self._checked: Mapping[str, Checked] = {}
        self._document: dict[str, JsonValue] = {}

    def configure(self, settings: SaverSettings) -> None:
        """Go on by other settings."""
        self._settings = settings
        if settings.ces.mode == "off":
            self._books, self._document, self._problem = None, {}, ""
        if self._books is not None:
            self._books.orders.configure(settings.times, settings.ces.failure_memory_s)

    def document(self) -> dict[str, JsonValue]:
        """What is to be told of the last look; {} before the first, and where CES is off.

        Where not even the first has succeeded, only that.
        """
        if not self._document and not self._problem:
            return {}
        none: dict[str, JsonValue] = {"mode": self._settings.ces.mode, "acting": False}
        return {**(self._document or none), "problem": self._problem}

    def after_round(self, look: Look, config: SlurmConfig, may_act: Callable[[], bool]) -> None:
        """Look at the nodes, and do what is to be done. `look` is that of the round just run.

        `may_act` is asked before each request to the helper. Raises LostLeadershipError; whatever
        else fails is told once, and tried again after the next round.
        """
        if self._settings.ces.mode == "off":
            return
        try:
            self._step(look, config, may_act)
        except LostLeadershipError:
            self._books = None
            raise
        except GschedError as error:
            self._fail(error.message)
        except Exception as error:  # one of ours must not end the rounds
            if self._problem != (text := f"{type(error).__name__}: {error}"):
                log.exception("ces: a fault of gsched")
            self._fail(text)
        else:
            if self._problem:
                log.info("ces: goes on")
            self._problem = ""

    def _fail(self, problem: str) -> None:
        if problem != self._problem:
            log.warning("ces: %s", problem)
        self._problem = problem
        self._books = None  # what was half done is told by the log and the next look

    # -- one step ---------------------------------------------------------------------------

    def _step(self, look: Look, config: SlurmConfig, may_act: Callable[[], bool]) -> None:
        began = self._parts.stopwatch()
        sights = sights_of(self._parts.read_nodes(), self._parts.slurm_time)
        if not sights:
            raise UnavailableError("scontrol shows no nodes")
        now = self._parts.clock()
        self._watch_clock(now)
        books = self._read(now)
        seen = self._see(now, look, sights, PowerSaving.of(config), books)
        look_s = self._parts.stopwatch() - began
        began = self._parts.stopwatch()
        pools = pool_sights(sights)
        policy = Ces(ces_settings(self._settings.ces, pools, self._settings.times))
        decision = policy.decide(seen.scene.state, books.memory)
        decide_s = self._parts.stopwatch() - began
        self._parts.on_point(FaultPoint.CES_DECIDED)
        self._remember(books, decision.memory)
        why = self._why_not(seen, may_act)
        if why:
            self._observe(seen, decision, books)
        else:
            self._act(seen, decision, books, may_act)
        of_helper = "" if why else self._sender.why_lately(now, self._settings.times)
        self._keep(seen, books)
        self._checked = last_checked(self._checked, decision, now)
        self._document = document(
            self._settings.ces.mode,
            why or of_helper,
            seen.scene,
            policy,
            decision,
            seen.counts,
            books.orders,
            self._checked,
        )
        took: dict[str, JsonValue] = {
            "look_s": round(look_s, 4), "decide_s": round(decide_s, 4)
        }  # fmt: skip
        self._document |= {"acting": not (why or of_helper), **took}
        self._last_look = now

    def _watch_clock(self, now: int) -> None:
        """Find out whether the clock was set: nobody has been idle for longer than since then."""
        times, watch = self._settings.times, self._parts.stopwatch()
        if self._clock_seen is not None:
            moved_s = (now - self._clock_seen[0]) - (watch - self._clock_seen[1])
            if abs(moved_s) > times.step_s:
                log.warning("ces: the clock was set by %+.0f s", moved_s)
                self._clock_set_at, self._last_look = now, None
        self._clock_seen = now, watch
        if self._last_look is not None and not 0 <= now - self._last_look <= times.gap_s:
            self._last_look = None  # nobody knows what lies between
        if self._clock_set_at is not None:
            self._clock_set_at = min(self._clock_set_at, now)

    def _read(self, now: int) -> Books:
        """The books, from the log where they are not open."""
        if self._books is not None:
            return self._books
        if self._clock_set_at is None and self._last_look is None:
            self._last_look = last_look(self._parts.log, now, self._settings.times)
        self._books = read_books(
            self._parts.log, now, self._settings.times, self._settings.ces.failure_memory_s
        )
        return self._books

    def _see(
        self,
        now: int,
        look: Look,
        sights: tuple[NodeSight, ...],
        saving: PowerSaving,
        books: Books,
    ) -> Seen:
        """Take a look in, and make the snapshot of it."""
        parts = self._parts
        pools = pool_sights(sights)
        parts.source.seen(now, pools)
        ground = Ground(
            table=self._settings.ces,
            saving=saving,
            rows=self._pinned.without(look.rows),
            partitions=look.description.partitions,
            reservations=look.description.reservations,
            helper_nodes=self._settings.helper_nodes,
            power_state=self._power_state(),
            switches=self._read_switches(),
            slurm_time=parts.slurm_time,
            clock_set_at=self._clock_set_at,
        )
        outlooks = {pool: parts.source.outlook(pool, now) for pool in pools}
        return take_in(now, self._last_look, look.rows, sights, ground, books, outlooks)

    def _keep(self, seen: Seen, books: Books) -> None:
        """Keep what the look has shown, last of all: killed before, the next look shows it again.

        Spans before orders: an order that is settled says no more who has put a node to sleep.
        """
        power_log = self._parts.log
        if seen.spans:
            power_log.keep_spans(seen.spans)
        if seen.settled:
            power_log.settle(seen.settled, seen.now)
            self.totals.update(seen.ended)
        if seen.delays:
            power_log.keep_delays(seen.delays)
        if fresh := books.counts.fresh(seen.counts):
            power_log.keep_counts(fresh)

    def _power_state(self) -> State:
        """What `gsched power` has kept. Where it cannot be read, it is as it was, and stopped:
        nobody knows whether nodes that are told to sleep go off.
        """
        try:
            self._power_known = self._parts.failures()
        except GschedError as error:
            why = f"what `gsched power` keeps cannot be read: {error.message}"
            known = self._power_known.stopped
            if known is None or known.why != why:
                log.warning("ces: nothing is put to sleep: %s", why)
                self._power_known = replace(
                    self._power_known, stopped=Stopped(self._parts.clock(), why)
                )
        return self._power_known

    def _read_switches(self) -> Mapping[str, str]:
        watch = self._parts.stopwatch()
        if self._switches_at is None or watch - self._switches_at >= _SWITCHES_LIFE_S:
            self._switches_at = watch
            try:
                self._switches = self._parts.read_switches()
            except GschedError as error:
                log.debug("ces: the topology is not known: %s", error.message)
        return self._switches

    def _remember(self, books: Books, memory: CesMemory) -> None:
        """Before anything is sent: killed then, it holds off for longer, not for shorter."""
        kept = memory.to_json()
        if kept != books.kept_memory:
            self._parts.log.remember(kept)
        books.memory, books.kept_memory = memory, kept

    def _why_not(self, seen: Seen, may_act: Callable[[], bool]) -> str:
        """Why nothing is ordered, "" where it is."""
        saving, unknown = seen.saving, seen.scene.problem
        if unknown != self._unknown and unknown:
            log.warning("ces: nothing is ordered: %s", unknown)
        self._unknown = unknown
        if self._settings.ces.mode != "act":
            return "ces.mode is observe"
        if saving.suspend_time_s is None:
            return "Slurm's power saving is off: SuspendTime is not set"
        if saving.problem or unknown:
            return saving.problem or unknown
        if may_act():
            return ""
        return ": ".join(filter(None, ("the daemon does not act", self._parts.why_idle())))

    # -- orders -----------------------------------------------------------------------------

    def _orders(self, seen: Seen, decision: CesDecision) -> list[NodeOrder]:
        life_s = self._settings.times.order_life_s
        return orders_of(decision, seen.now, life_s, self._parts.new_id)

    def _act(
        self, seen: Seen, decision: CesDecision, books: Books, may_act: Callable[[], bool]
    ) -> None:
        books.observed.clear()
        orders = self._orders(seen, decision)
        if not orders or self._sender.paused(seen.now, self._settings.times):
            return
        ended = self._sender.send(orders, books.orders, self._settings.times, may_act)
        books.memory = books.memory.owing(unwoken(ended))

    def _observe(self, seen: Seen, decision: CesDecision, books: Books) -> None:
        """Keep once what would have been ordered: the same wish comes again and again."""
        idle = {n.name for n in seen.scene.state.nodes if not n.is_running}
        books.observed = {kept for kept in books.observed if kept[0] in idle}
        orders = [
            order
            for order in self._orders(seen, decision)
            if (order.node, order.verb) not in books.observed
        ]
        if not orders:
            return
        self._parts.log.record(orders, ChangeState.OBSERVED)
        for order in orders:
            books.observed.add((order.node, order.verb))
            self.totals[order.verb, ChangeState.OBSERVED] += 1
