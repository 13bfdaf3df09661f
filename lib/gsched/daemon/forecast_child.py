"""A process that forecasts: kept alive, and ended when it hangs.

A thread of the daemon's talks to it, so that no round waits for it, and nothing that the forecast
needs (numba, the compiled loops; scikit-learn) is ever loaded into the daemon.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from gsched.daemon.child_process import ChildProcess
from gsched.errors import GschedError, UnavailableError

log = logging.getLogger("gsched.daemon")

MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class Work(Protocol):
    """One question, made and taken in the thread that talks to the child."""

    def question(self) -> str:
        """A line of ASCII. Raises GschedError when there is nothing to ask."""
        ...

    def take(self, answer: str) -> None:
        """The child's line. Raises DataError when it is no answer."""
        ...


class _End:
    """The end of all work."""


@dataclass(frozen=True, slots=True)
class Patience:
    """For how long (seconds) an answer is waited for, and then a child left alone that failed.

    The first answer of a child may take longer: it compiles the simulator where nobody has yet.
    After each failure in a row the pause is twice as long, up to `most_pause_s`.
    """

    first_answer_s: float = 900.0
    answer_s: float = 300.0
    pause_s: float = 10.0
    most_pause_s: float = 1800.0


PATIENCE = Patience()


@dataclass(frozen=True, slots=True)
class ChildState:
    """How the child fares. `problem` is why the last question got no answer, '' while all is well;
    `pid` None: none runs.
    """

    pid: int | None = None
    started: int = 0
    failures: int = 0
    problem: str = ""


class ForecastChild:
    """Asks one question at a time; of `running` there is one block at a time, too."""

    def __init__(
        self,
        module: str,
        environment: Callable[[], Mapping[str, str]],
        patience: Patience = PATIENCE,
        monotonic: Callable[[], float] = time.monotonic,
        what: str = "forecast",
    ) -> None:
        """`module` is the program of the child (see ``child_process``); the log says that there is
        no `what` where it fails.
        """
        self.state = ChildState()
        self._module = module
        self._environment = environment
        self._patience = patience
        self._monotonic = monotonic
        self._what = what
        self._works: queue.SimpleQueue[Work | _End | None] = queue.SimpleQueue()  # None: dismissed
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        self._busy = False
        self._ended = True
        self._in_a_row = 0
        self._not_before = -float("inf")

    @property
    def is_ready(self) -> bool:
        """Whether a question would be asked now: none is under way, no failure just happened."""
        return not (self._busy or self._ended) and self._monotonic() >= self._not_before

    def ask(self, work: Work) -> bool:
        """Have it asked, and return at once; False when the child is not ready."""
        if not self.is_ready:
            return False
        self._busy = True
        self._works.put(work)
        return True

    def dismiss(self) -> None:
        """End the process after the question under way; the next question starts another one."""
        self._works.put(None)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Ask questions during the block; at its end the child is killed, whatever it does."""
        self._ended = self._busy = False
        thread = threading.Thread(target=self._serve, name="forecast", daemon=True)
        thread.start()
        try:
            yield
        finally:
            with self._lock:
                self._ended = True
                if self._child is not None:
                    self._child.process.kill()  # what waits for its answer hears of it
            self._works.put(_End())
            thread.join()

    def _serve(self) -> None:
        try:
            while not isinstance(work := self._works.get(), _End):
                if work is None:
                    self._end_child()
                else:
                    self._answer(work)
        finally:
            if not self._ended:  # an error that is a fault of gsched, of which Python tells
                self._ended = True
                self.state = replace(self.state, problem="a fault of gsched, which the log shows")
            self._end_child()

    def _answer(self, work: Work) -> None:
        try:
            self._ask(work)
        except GschedError as error:
            self._failed(error.message)
        else:
            self._in_a_row = 0
            self.state = replace(self.state, problem="")
        finally:
            self._busy = False

    def _ask(self, work: Work) -> None:
        question = work.question()
        is_first = self._child is None
        child = self._child or self._start()
        limit_s = self._patience.first_answer_s if is_first else self._patience.answer_s
        try:
            work.take(child.asked(question, MAX_MESSAGE_BYTES, limit_s))
        except GschedError as error:
            words = child.end_words()
            self._end_child()
            raise UnavailableError(f"{error.message}{words and f' ({words})'}") from None

    def _start(self) -> ChildProcess:
        with self._lock:
            if self._ended:
                raise UnavailableError("the daemon ends")
            self._child = child = ChildProcess.start(self._module, self._environment())
        pid, started = child.process.pid, self.state.started + 1
        self.state = replace(self.state, pid=pid, started=started)
        return child

    def _failed(self, problem: str) -> None:
        """Ask nothing for a while; the log has each new reason once."""
        if self._ended:
            return
        if problem != self.state.problem:
            log.warning("no %s: %s", self._what, problem)
        pause_s = self._patience.pause_s * 2.0 ** min(self._in_a_row, 30)
        self._in_a_row += 1
        self._not_before = self._monotonic() + min(pause_s, self._patience.most_pause_s)
        self.state = replace(self.state, failures=self.state.failures + 1, problem=problem)

    def _end_child(self) -> None:
        with self._lock:
            child, self._child = self._child, None
        if child is not None:
            child.end()
        self.state = replace(self.state, pid=None)
