"""The daemon's loop over a simulated cluster, with everything around it in view."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from gsched.config.settings import DaemonSettings
from gsched.daemon.clear import ClearResult
from gsched.daemon.gate import Gate, Mode
from gsched.daemon.kept_listener import KeptListener
from gsched.daemon.locks import StateDir
from gsched.daemon.loop import DaemonLoop, LoopOptions, LoopParts
from gsched.daemon.metrics import Metrics
from gsched.daemon.metrics_gauges import Facts
from gsched.daemon.notify import Notifier
from gsched.daemon.requests import RequestBook
from gsched.daemon.situation import Board
from gsched.daemon.wishes import Reloaded, Wishes
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.ports import Predictor
from gsched.engine.round import RoundResult, RoundRunner
from gsched.model.job import JobKey
from gsched.model.journal import ChangeState
from gsched.policy.qssf import Qssf
from gsched.sim.backend import SimBackend
from gsched.slurm.records import SlurmConfig
from support.requests import MemoryRequests
from support.sim import TruePredictor, job, simulated

JOBS = [job(1, duration_s=400, name="secret"), job(2, duration_s=5)]


class ToldManager(Notifier):
    """Keeps what the service manager would be told."""

    def __init__(self, watchdog_s: float = 0.0) -> None:
        super().__init__("", watchdog_s)
        self.messages: list[str] = []

    def _tell(self, message: str) -> bool:
        self.messages.append(message)
        return True


class Daemon:
    """A loop over a simulated cluster in a folder of its own; what it works with may be changed.

    It is its own upkeep and lead.
    """

    def __init__(self, folder: Path, acting: bool, watchdog_s: float = 0.0) -> None:
        self.backend = SimBackend(*simulated(JOBS))
        self.backend.advance()
        self.config: dict[str, str] = {}
        self.fresh: Callable[[], Predictor | None] = lambda: None
        self.checking: Callable[[], None] = lambda: None
        self.renewing: Callable[[], None] = lambda: None
        self.renewing_in_time: Callable[[], None] = lambda: None
        self.reloading: Callable[[], Reloaded] = lambda: Reloaded((), ())
        self.taken_back: list[ClearResult] = []
        self.refused_back: tuple[tuple[JobKey, str], ...] = ()
        self.spans: list[tuple[str, str, int]] = []
        self.kept_rounds = 0
        self.now = 1_795_000_000
        numbers = itertools.count()
        self.runner = RoundRunner(
            self.backend,
            Qssf(),
            MemoryJournal(),
            TruePredictor(JOBS),
            lambda: self.backend.now,
            lambda: f"r{next(numbers)}",
            extra=lambda: {"inversions": {"qos": 1, "fairshare": 0, "pairs": 3}},
        )
        self.state_dir = StateDir(folder)
        self.status = folder / "status.json"
        self.settings = replace(DaemonSettings(), kill_switch=folder / "off")
        self.manager = ToldManager(watchdog_s)
        self.wishes = Wishes()
        self.listeners: dict[str, KeptListener] = {}
        mode = Mode.ACT if acting else Mode.OBSERVE
        self.gate = Gate(acting, self.settings, self.state_dir)
        self.metrics = Metrics(folder)
        parts = LoopParts(
            runner=self.runner,
            gate=self.gate,
            state_dir=self.state_dir,
            requests=RequestBook(MemoryRequests()),
            clock=lambda: self.now,
            read_config=lambda: SlurmConfig(self.config),
            upkeep=self,
            lead=self,
            take_back=self.take_back,
            reload=lambda: self.reloading(),
            wishes=self.wishes,
            board=Board(self.now, mode),
            notifier=self.manager,
            metrics=self.metrics,
            facts=lambda: Facts(cluster="c", policy="qssf"),
            listeners=self.listeners,
        )
        self.loop = DaemonLoop(parts, LoopOptions(acting, 0.01, self.status))

    # -- upkeep and lead ------------------------------------------------------------------------

    def check(self) -> None:
        self.checking()

    def before(self, config: SlurmConfig) -> Predictor | None:
        return self.fresh()

    def after(self) -> None:
        self.kept_rounds += 1

    def renew(self) -> None:
        self.renewing()

    def renew_in_time(self) -> None:
        self.renewing_in_time()

    def note(self, mode: str, policy: str, writes: int) -> None:
        self.spans.append((mode, policy, writes))

    def take_back(self) -> ClearResult:
        states = {ChangeState.CONFIRMED: 2, ChangeState.REJECTED: len(self.refused_back)}
        result = ClearResult((), (), self.refused_back, (), states=states)
        self.taken_back.append(result)
        return result

    # -- looking --------------------------------------------------------------------------------

    def order(self) -> list[int]:
        return [key.job_id for key in self.backend.pending_order()]

    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self.status.read_text()))

    def run(self, rounds: int, between: Callable[[int], None] = lambda _: None) -> None:
        """So many good rounds; `between` is called after each but the last."""
        counted = itertools.count(1)

        def after_round(_: RoundResult) -> None:
            number = next(counted)
            if number == rounds:
                self.wishes.end()
            else:
                between(number)

        self.loop.run(after_round)


@contextmanager
def daemon_in(folder: Path, acting: bool, watchdog_s: float = 0.0) -> Iterator[Daemon]:
    made = Daemon(folder, acting, watchdog_s)
    try:
        yield made
    finally:
        made.wishes.close()
