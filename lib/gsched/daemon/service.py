"""The daemon as a process: signals, the service manager, and waiting until it can begin."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FrameType

from gsched.daemon.gate import Mode
from gsched.daemon.loop import DaemonLoop
from gsched.daemon.notify import Notifier
from gsched.daemon.reloading import Reload, reload_if_wanted
from gsched.daemon.round_log import RoundLog
from gsched.daemon.situation import Board
from gsched.daemon.wishes import Wishes
from gsched.engine.ports import Clock
from gsched.errors import AnotherLeadsError, GschedError, TryAgainError, UnavailableError

log = logging.getLogger("gsched.daemon")

_MOST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Service:
    """Runs the loop that `open_loop` gives, for as long as nobody ends it.

    `reload` puts another configuration in force while there is no loop yet, `retry_s` says how
    soon it is tried again to open one, `waits` tells the metrics that there are no rounds, and why.
    """

    open_loop: Callable[[], AbstractContextManager[DaemonLoop]]
    reload: Reload
    retry_s: Callable[[], float]
    waits: Callable[[Mode], None]
    wishes: Wishes
    board: Board
    notifier: Notifier
    clock: Clock

    def run(self) -> None:
        """Serve until SIGTERM or SIGINT.

        A round in progress is finished first; a second signal ends the process at once. While
        Slurm, the database or the lead of the cluster cannot be had, it waits for them. Raises
        ConfigError or PermissionDeniedError where waiting would help nobody, LostLeadershipError
        when another daemon has taken over.
        """
        self._catch_signals()
        waited_for, after_round = "", RoundLog()
        while not self.wishes.ended:
            try:
                with self.open_loop() as loop:
                    self._begin(loop)
                    loop.run(after_round)
                    waited_for = ""
            except (TryAgainError, UnavailableError) as error:
                if error.message != waited_for:
                    hint = f" ({error.hint})" if error.hint else ""
                    log.warning("cannot begin yet, trying again: %s%s", error.message, hint)
                waited_for = error.message
                self._wait(error)
        self.notifier.stopping()
        log.info("daemon stopped; what it ordered stands until `gsched daemon clear`")

    def _begin(self, loop: DaemonLoop) -> None:
        runner = loop.parts.runner
        log.info(
            "daemon of %s: policy %s, %s, a round every %g s",
            runner.backend.cluster,
            runner.policy.name,
            "act" if loop.options.acting else "observe",
            loop.options.interval_s,
        )
        self.notifier.status("the first round")
        self.notifier.ready()

    def _wait(self, error: GschedError) -> None:
        """Stand by for a while. The service manager need not wait for what may take hours."""
        mode = Mode.STANDBY if isinstance(error, AnotherLeadsError) else Mode.WAITING
        self.board.post(mode=mode, why=error.message, fence=None)
        self.waits(mode)
        self.notifier.status(self.board.line())
        self.notifier.ready()
        self.notifier.alive()
        left_s = min(self.retry_s(), _MOST_WAIT_S)
        slice_s = self.notifier.watchdog_s / 3 or left_s
        while left_s > 0 and not (self.wishes.ended or self.wishes.wants_reload):
            self.wishes.wait(min(left_s, slice_s))
            self.notifier.alive()
            left_s -= slice_s
        reload_if_wanted(self.wishes, self.reload, self.notifier, self.board, self.clock)

    def _catch_signals(self) -> None:
        def stop(number: int, _frame: FrameType | None) -> None:
            if self.wishes.ended:  # the second one: the next daemon settles what is left undone
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            self.wishes.end()

        def reload(_number: int, _frame: FrameType | None) -> None:
            self.wishes.reload()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        signal.signal(signal.SIGHUP, reload)
