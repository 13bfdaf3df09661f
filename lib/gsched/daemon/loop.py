"""The daemon's loop: upkeep, a round, the status file, wait; until a signal ends it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gsched.daemon.locks import StateDir
from gsched.daemon.query_socket import QuerySocket
from gsched.daemon.requests import RequestBook
from gsched.daemon.status_file import Bulletin, describe, publish
from gsched.engine.ports import Clock, Predictor
from gsched.engine.round import RoundResult, RoundRunner
from gsched.errors import GschedError
from gsched.slurm.records import SlurmConfig

log = logging.getLogger("gsched.daemon")

Upkeep = Callable[[int], Predictor | None]
"""Called before each round with the time; brings the history up to date and may hand over a new
predictor."""

EARLY_ROUND_S = 5.0
"""Rounds that clients ask for (a job not seen yet) are at least so far from the one before."""

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
        requests: RequestBook,
    ) -> None:
        self.runner = runner
        self.state_dir = state_dir
        self.read_config = read_config
        self.options = options
        self.upkeep = upkeep
        self.clock = clock
        self.requests = requests
        self.bulletin: Bulletin | None = None
        self.query_socket: QuerySocket | None = None
        self._ended = False
        self._wake = threading.Event()
        self._round_began = -EARLY_ROUND_S

    def end(self) -> None:
        """Let `run` return after the round in progress. May be called by a signal handler."""
        self._ended = True
        self._wake.set()

    def hurry(self) -> None:
        """Somebody waits for an answer: bring the next round forward. For any thread."""
        self._wake.set()

    def once(self) -> RoundResult:
        """One round with its upkeep; the status file afterwards."""
        self._round_began = time.monotonic()
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
        self._tell(result, config, halted)
        return result

    def _tell(self, result: RoundResult, config: SlurmConfig, halted: str | None) -> None:
        """Publish what the round has to say, for questions and in the status file."""
        address = problem = ""
        if self.query_socket is not None:
            self.query_socket.keep()
            address, problem = self.query_socket.address, self.query_socket.problem
        interval_s = self.options.interval_s
        self.bulletin = describe(
            result, config, interval_s, halted, self.requests, address, problem
        )
        publish(self.options.status_file, self.bulletin)

    def run(self, after_round: Callable[[RoundResult], None]) -> None:
        """Rounds every `interval_s` seconds, or when one is asked for, until `end`."""
        failures = 0
        while not self._ended:
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
            self._pause(self.options.interval_s * max(1, failures), may_hurry=not failures)

    def _pause(self, seconds: float, may_hurry: bool) -> None:
        """Wait for the next round's time, or less when somebody is in a hurry."""
        until = time.monotonic() + seconds
        while not self._ended and (left := until - time.monotonic()) > 0:
            if self._wake.wait(left):
                self._wake.clear()
                if may_hurry:
                    until = min(until, self._round_began + EARLY_ROUND_S)
