"""How gsched asks Slurm: not too often, again while it is only busy, and never for ever.

One question has one deadline. A read that Slurm refuses only for the moment (it restarts, is busy,
limits rates) is asked again after a pause that doubles, with jitter so that many clients do not
come back at once. What changes something is asked once: whoever sent it looks what became of it.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from gsched.errors import TryAgainError
from gsched.slurm.failures import may_pass, server_of
from gsched.slurm.run import Completed, no_answer, run

CALLS_PER_S = 20.0
FIRST_PAUSE_S = 0.5
MOST_PAUSE_S = 8.0
_LEAST_PAUSE_S = 0.001
SILENT_S = 2.0
"""So long a user waits without being told why."""


class Runner(Protocol):
    """Runs one command to its end, as ``gsched.slurm.run.run`` does."""

    def __call__(
        self, argv: Sequence[str], *, stdin: str | None = None, timeout_s: float
    ) -> Completed:
        """What the command said. Raises TryAgainError when it takes longer than `timeout_s`."""
        ...


class Pace:
    """At most CALLS_PER_S questions a second, after a burst of as many.

    Slurm's own limit (``rl_enable``) counts all that a user asks, and its commands wait by
    themselves then; this one keeps a single gsched, whatever loop it is in, far below a burden.
    """

    def __init__(
        self,
        per_s: float = CALLS_PER_S,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_s, self._monotonic, self._sleep = per_s, monotonic, sleep
        self._free_at = -float("inf")  # when all of the burst is there again
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when one more question may be asked."""
        with self._lock:
            now = self._monotonic()
            self._free_at = max(self._free_at, now) + 1 / self._per_s
            pause_s = self._free_at - now - 1  # a burst is one second's worth
        if pause_s > _LEAST_PAUSE_S:
            self._sleep(pause_s)


_PACE = Pace()  # of all clients in this process: a live view makes a new one for each look


class Patience:
    """Asks with a deadline of `total_s` a question, and tells `notify` when an answer is late."""

    def __init__(
        self,
        total_s: float,
        notify: Callable[[str], None],
        *,
        asks_again: bool = True,
        runner: Runner = run,
        pace: Pace = _PACE,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
        silent_s: float = SILENT_S,
    ) -> None:
        self._total_s, self._notify, self._runner, self._pace = total_s, notify, runner, pace
        self._monotonic, self._sleep, self._jitter = monotonic, sleep, jitter
        self._silent_s, self._asks_again = silent_s, asks_again
        # After one question in vain the next ones are not waited for as well, until one is
        # answered: a command that asks ten would else take ten deadlines to fail.
        self._is_used_up = False
        self._has_told = False

    def read(self, argv: Sequence[str]) -> Completed:
        """The answer to a question, asked again while Slurm puts it off; its last word if for good.

        Raises TryAgainError when there is none before the deadline.
        """
        deadline = self._monotonic() + self._total_s
        pause_s = FIRST_PAUSE_S
        with self._told_when_late(argv[0]):
            while True:
                asked = self._monotonic()
                answer = self._attempt(argv, None, deadline)
                if answer.status == 0 or not may_pass(answer.stderr):
                    self._is_used_up = False
                    return answer
                pause = pause_s * (0.5 + self._jitter())
                now = self._monotonic()
                is_late = now + pause + (now - asked) >= deadline  # the next would be cut short
                if is_late or self._is_used_up or not self._asks_again:
                    self._is_used_up = True
                    return answer
                self._sleep(pause)
                pause_s = min(2 * pause_s, MOST_PAUSE_S)

    def once(self, argv: Sequence[str], stdin: str) -> Completed:
        """The answer to a command that changes something: never sent a second time."""
        with self._told_when_late(argv[0]):
            return self._attempt(argv, stdin, self._monotonic() + self._total_s)

    def _attempt(self, argv: Sequence[str], stdin: str | None, deadline: float) -> Completed:
        self._pace.wait()
        try:
            left_s = max(0.1, deadline - self._monotonic())
            return self._runner(argv, stdin=stdin, timeout_s=left_s)
        except TryAgainError:
            self._is_used_up = True
            raise no_answer(argv, self._total_s) from None

    @contextmanager
    def _told_when_late(self, program: str) -> Iterator[None]:
        """Tell, once for a row of late answers, that this one is late."""

        def tell() -> None:
            if not self._has_told:
                self._has_told = True
                self._notify(
                    f"{server_of(program)} does not answer yet; trying for {self._total_s:g} s"
                )

        timer = threading.Timer(self._silent_s, tell)
        timer.daemon = True
        timer.start()
        began = self._monotonic()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            if self._monotonic() - began < self._silent_s:
                self._has_told = False
