"""A NodeSaver on a Slurm in memory, driven round by round."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from gsched.config.node_settings import CesTable
from gsched.daemon.ces_orders import SaverTimes
from gsched.daemon.node_saver import NodeSaver, SaverParts, SaverSettings
from gsched.engine.faults import FaultPoint, no_faults
from gsched.engine.node_ports import Outlook, PoolSight
from gsched.model.decision import Reason
from gsched.model.demand_forecast import constant_forecast
from gsched.model.journal import ChangeState
from gsched.model.node_power import NodeOrderEntry
from gsched.power.state import State
from support.memory_power_log import MemoryPowerLog
from support.sleeping_slurm import HelperOf, SleepingSlurm

INTERVAL_S = 30
TABLE = CesTable(
    mode="act", spare=1, min_idle_s=600, hold_s=1200, period_s=300, peak_window_s=0,
    max_sleep=0, wakes_ahead=False,
)  # fmt: skip


class Killed(BaseException):
    """A fault point at which the process ends."""


@dataclass
class LevelDemand:
    """Foresees that as many nodes are wanted as were busy at the last look, or `level`."""

    level: float | None = None
    has_forecast: bool = True
    pools: dict[str, PoolSight] = field(default_factory=dict)

    def seen(self, now: int, pools: Mapping[str, PoolSight]) -> None:
        self.pools = dict(pools)

    def outlook(self, pool: str, now: int) -> Outlook:
        busy = float(self.pools[pool].busy)
        level = busy if self.level is None else self.level
        forecast = constant_forecast(level, now, 600, 36, "level") if self.has_forecast else None
        return Outlook((busy,) * 6, 600, forecast, Reason("demand.level"))


class Saving:
    """The parts of a saver, and the saver itself; `restart` is another process on the same log."""

    def __init__(self, slurm: SleepingSlurm | None = None, **table: Any) -> None:
        self.slurm = slurm or SleepingSlurm()
        self.helper = HelperOf(self.slurm)
        self.log = MemoryPowerLog()
        self.demand = LevelDemand()
        self.power_state = State()
        self.read_power: Callable[[], State] = lambda: self.power_state
        self.may_act = True
        self.read_switches: Callable[[], Mapping[str, str]] = dict
        self.why_idle = ""
        self.read_pinned: Callable[[], frozenset[int]] = frozenset
        self.settings = SaverSettings(
            replace(TABLE, **table), frozenset(self.slurm.machines), SaverTimes()
        )
        self._ids = count(1)
        self.on_point: Callable[[FaultPoint], None] = no_faults
        self.restart()

    def restart(self) -> None:
        parts = SaverParts(
            log=self.log,
            helper=self.helper,
            source=self.demand,
            read_nodes=self.slurm.read_nodes,
            clock=self.slurm.clock,
            new_id=lambda: f"order-{next(self._ids)}",
            failures=lambda: self.read_power(),
            read_pinned=self.read_pinned,
            read_switches=lambda: self.read_switches(),
            why_idle=lambda: self.why_idle,
            stopwatch=self.slurm.stopwatch,
            on_point=lambda point: self.on_point(point),
        )
        self.saver = NodeSaver(parts, self.settings)

    def configure(self, **table: Any) -> None:
        self.settings = replace(self.settings, ces=replace(self.settings.ces, **table))
        self.saver.configure(self.settings)

    def round(self) -> None:
        """Slurm's scheduler has its turn, then the daemon."""
        self.slurm.schedule()
        self.saver.after_round(self.slurm.look(), self.slurm.config(), lambda: self.may_act)

    def rounds(self, seconds: int) -> None:
        """Rounds every INTERVAL_S for so many seconds, the first one at once."""
        for _ in range(max(1, seconds // INTERVAL_S)):
            self.round()
            self.slurm.pass_time(INTERVAL_S)

    def orders(self) -> list[NodeOrderEntry]:
        return list(self.log.orders(0, 2**40))

    def told(self, *states: ChangeState) -> list[tuple[str, str, str]]:
        """(verb, node, state) of each order in one of these states, or of all."""
        return [
            (e.order.verb.value, e.order.node, e.state.value)
            for e in self.orders()
            if not states or e.state in states
        ]

    @property
    def pool(self) -> dict[str, Any]:
        """What is told of the only pool."""
        (pool,) = self.saver.document()["pools"]
        return pool


def asleep(**table: object) -> Saving:
    """Eight idle nodes, seven of which CES has put to sleep, past its hold."""
    saving = Saving(**table)
    saving.rounds(120)
    assert saving.slurm.powers().count("O") == 7
    return saving
