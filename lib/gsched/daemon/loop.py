"""The daemon's loop: upkeep, a round, the status file, wait; until a signal ends it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gsched.daemon.locks import StateDir
from gsched.daemon.status_file import describe, publish
from gsched.engine.ports import Clock, Predictor
from gsched.engine.round import RoundResult, RoundRunner
from gsched.errors import GschedError
from gsched.slurm.records import SlurmConfig

log = logging.getLogger("gsched.daemon")

Upkeep = Callable[[int], Predictor | None]
"""Called before each round with the time; brings the history up to date and may hand over a new
predictor."""

_MOST_BACKOFF = 20  # rounds' worth of waiting while Slurm does not answer


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """What the admin asked for: act or observe, seconds between rounds, where to answer."""

    acting: bool
    interval_s: float
    status_file: Path


class DaemonLoop:
    """Runs rounds until stopped. What a failed round left undone the next one settles."""

    def __init__(
        self,
        runner: RoundRunner,
        state_dir: StateDir,
        read_config: Callable[[], SlurmConfig],
        options: LoopOptions,
        upkeep: Upkeep,
        clock: Clock,
    ) -> None:
        self.runner = runner
        self.state_dir = state_dir
        self.read_config = read_config
        self.options = options
        self.upkeep = upkeep
        self.clock = clock
        self.stop = threading.Event()

    def once(self) -> RoundResult:
        """One round with its upkeep; the status file afterwards."""
        config = self.read_config()
        fresh = self.upkeep(self.clock())
        if fresh is not None:
            self.runner.predictor = fresh
        if self.options.acting:
            with self.state_dir.writing():  # looked up inside: `clear` halts, then writes
                halted = self.state_dir.halted()
                result = self.runner.run(acting=halted is None)
        else:
            halted = self.state_dir.halted()
            result = self.runner.run(acting=False)
        publish(
            self.options.status_file,
            describe(result, config, self.options.interval_s, halted),
        )
        return result

    def run(self, after_round: Callable[[RoundResult], None]) -> None:
        """Rounds every `interval_s` seconds until `stop` is set."""
        failures = 0
        while not self.stop.is_set():
            try:
                result = self.once()
            except GschedError as e:
                failures = min(failures + 1, _MOST_BACKOFF)
                log.warning("round failed, the next one settles what it left: %s", e.message)
            else:
                if failures:
                    log.info("rounds succeed again")
                failures = 0
                after_round(result)
            self.stop.wait(self.options.interval_s * max(1, failures))
