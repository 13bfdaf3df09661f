"""Carries out one order of Slurm's: tries, tries again, gives up, and remembers it.

Nothing is done for ever: a call has a time limit, a node so many tries in it, and a node that was
given up is not suspended again before an administrator has looked. When too many fail, no node is
suspended any more. Resuming always goes on, for a user waits for it: also where the state cannot be
read or written.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from gsched.config.settings import PowerSettings
from gsched.errors import (
    ConfigError,
    DataError,
    GschedError,
    PermissionDeniedError,
    TryAgainError,
)
from gsched.model.hostlist import fold
from gsched.model.power import Verb
from gsched.power import records
from gsched.power.limits import Limits
from gsched.power.reach import switch
from gsched.power.state import State, Store, bounded_error

log = logging.getLogger("gsched.power")

_WRITE_INTERVAL_S = 0.2
"""Outcomes of a large call are written down together: the file holds all nodes."""
_NO_USE = (ConfigError, PermissionDeniedError)
"""What another try does not mend."""


@dataclass(slots=True)
class Result:
    """What became of the nodes of one call."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Not tried, and why: suspending is stopped, or the node is left for an administrator."""
    overtaken: list[str] = field(default_factory=list)
    """A later call asks for something else of them."""


@dataclass(frozen=True, slots=True)
class _Task:
    node: str
    verb: Verb
    tries: int = 1
    """Which try it is."""


@dataclass(frozen=True, slots=True)
class _Tried:
    task: _Task
    error: GschedError | None
    is_overtaken: bool = False


class Call:
    """One call of SuspendProgram or ResumeProgram."""

    def __init__(self, settings: PowerSettings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._result = Result()
        self._number: int | None = None
        """None = the state cannot be used, and a resume goes on without."""
        self._tried: queue.SimpleQueue[_Tried] = queue.SimpleQueue()
        self._deadline = 0.0
        self._unwritten: list[records.Outcome] = []
        self._written_at = 0.0

    def carry_out(self, verb: Verb, names: Sequence[str]) -> Result:
        """Suspend or resume nodes. Raises what `Store.change` does, of a suspend alone."""
        is_suspend = verb == "suspend"
        limit_s = self._settings.suspend_limit_s if is_suspend else self._settings.resume_limit_s
        self._deadline = time.monotonic() + limit_s
        self._run(self._begin(verb, names))
        return self._result

    def _begin(self, verb: Verb, names: Sequence[str]) -> list[_Task]:
        """Write down what is asked; the tasks that follow from it."""
        try:
            state = self._store.change(lambda state: records.begun(state, verb, names, time.time()))
        except GschedError as error:
            if verb == "suspend":
                raise
            log.error("%s", error.message)
            anew = self._anew(names) if isinstance(error, DataError) else None
            if anew is None:
                log.error("resuming goes on without its state")
                return [_Task(name, verb) for name in names]
            state = anew
        self._number = state.next_number - 1
        tasks = []
        for name in names:
            order = state.orders[name]
            if order.outcome == "refused":
                self._result.refused[name] = order.error
            else:
                tasks.append(_Task(name, order.verb))
        if refused := self._result.refused:
            why = next(iter(refused.values()))
            log.warning("%s of %s refused: %s", verb, fold(refused), why)
        return tasks

    def _anew(self, names: Sequence[str]) -> State | None:
        """After damage: nobody knows which nodes are off, so that they are plainly resumed.

        None where a new state cannot be had either.
        """
        now = time.time()
        try:
            log.error("the damaged state is kept as %s", self._store.begin_anew(now))
            return self._store.change(lambda state: records.begun(state, "resume", names, now))
        except GschedError as error:
            log.error("%s", error.message)
            return None

    def _run(self, tasks: Sequence[_Task]) -> None:
        """Give out tries when they are due, until each node has its outcome or time is up."""
        due = deque(tasks)
        later: list[tuple[float, int, _Task]] = []
        ties, num_running = itertools.count(), 0
        open_nodes = {task.node: task for task in tasks}
        while open_nodes and (left_s := self._deadline - time.monotonic()) > 0:
            while later and later[0][0] <= time.monotonic():
                due.append(heapq.heappop(later)[2])
            while due and num_running < self._settings.parallel:
                # a thread that hangs, in a resolver for example, must not hold up the process's end
                threading.Thread(target=self._work, args=(due.popleft(),), daemon=True).start()
                num_running += 1
            next_s = later[0][0] - time.monotonic() if later else left_s
            final = []
            write_s = _WRITE_INTERVAL_S if self._unwritten else left_s
            for one in self._collected(min(left_s, next_s, write_s)):
                num_running -= 1
                if again := self._again(one):
                    when, task = again
                    open_nodes[task.node] = task
                    heapq.heappush(later, (when, next(ties), task))
                else:
                    final.append(one)
                    del open_nodes[one.task.node]
            self._settle(final)
            if time.monotonic() - self._written_at >= _WRITE_INTERVAL_S:
                self._write()
        out_of_time = TryAgainError("no answer within the time limit of the call")
        self._settle([_Tried(task, out_of_time) for task in open_nodes.values()])
        self._write()

    def _collected(self, wait_s: float) -> list[_Tried]:
        """What has been tried meanwhile; [] after `wait_s` seconds without anything."""
        found = []
        try:
            found.append(self._tried.get(timeout=max(0.0, wait_s)))
            while True:
                found.append(self._tried.get_nowait())
        except queue.Empty:
            return found

    def _again(self, tried: _Tried) -> tuple[float, _Task] | None:
        """When a node that has failed is tried next; None where it is not tried again."""
        task, error = tried.task, tried.error
        if error is None or tried.is_overtaken or isinstance(error, _NO_USE):
            return None
        due = time.monotonic() + self._settings.backoff_s * 2.0 ** (task.tries - 1)
        if task.tries >= self._settings.tries or due >= self._deadline:
            return None
        words = bounded_error(error.message)
        log.warning("%s: try %d to %s: %s", task.node, task.tries, task.verb, words)
        return due, replace(task, tries=task.tries + 1)

    def _settle(self, ended: Sequence[_Tried]) -> None:
        """Tell the outcome of nodes; `_write` is to write it down."""
        outcomes = []
        for one in ended:
            node = one.task.node
            if one.is_overtaken:
                self._result.overtaken.append(node)
                log.info("%s: a later call asks for something else: left to it", node)
                continue
            error = "" if one.error is None else bounded_error(one.error.message)
            outcomes.append(records.Outcome(node, one.task.tries, error))
            if one.error is None:
                self._result.done.append(node)
            else:
                self._result.failed[node] = error
                log.error(
                    "%s: %s failed at try %d, the last: %s; left for an administrator (`gsched "
                    "power clear %s` when it is mended)",
                    node, one.task.verb, one.task.tries, error, node,
                )  # fmt: skip
        if done := [one.node for one in outcomes if not one.error]:
            log.info("%s: done: %s", ended[0].task.verb, fold(done))
        self._unwritten += outcomes

    def _write(self) -> None:
        """Write down the outcomes that there are."""
        outcomes, self._unwritten = self._unwritten, []
        number, settings = self._number, self._settings
        if number is None or not outcomes:
            return
        was_stopped = False

        def change(state: State) -> State:
            nonlocal was_stopped
            was_stopped = state.stopped is not None
            return records.ended(state, number, outcomes, settings, time.time())

        try:
            state = self._store.change(change)
        except GschedError as error:
            log.error("the outcome of a call cannot be written down: %s", error.message)
            return
        self._written_at = time.monotonic()
        if state.stopped and not was_stopped:
            log.critical("no node is suspended any more: %s", state.stopped.why)

    def _work(self, task: _Task) -> None:
        tried = _Tried(task, GschedError("a fault of gsched: the log has a traceback"))
        try:
            tried = self._try(task)
        except Exception:  # whatever a thread raises ends on stderr, which slurmctld has closed
            log.exception("%s: a fault of gsched", task.node)
            raise
        finally:
            self._tried.put(tried)

    def _try(self, task: _Task) -> _Tried:
        try:
            with self._alone_with(task):
                if self._is_overtaken(task.node):
                    return _Tried(task, None, is_overtaken=True)
                self._switch(task)
        except GschedError as error:
            return _Tried(task, error)
        return _Tried(task, None)

    def _switch(self, task: _Task) -> None:
        backends, verb = self._settings.backends, task.verb
        if verb == "restart" and task.tries % 2 == 0:
            verb = "resume"  # it may be off after all, and what is off cannot be restarted
        backend = backends.of(task.node, verb)
        if backend is None and verb == "restart":
            if task.tries == 1:
                log.warning(
                    "%s may never have gone off, and no back-end can restart it: it is resumed, "
                    "and Slurm will not take it back without a new boot time",
                    task.node,
                )
            verb = "resume"
            backend = backends.of(task.node, verb)
        if backend is None:
            raise ConfigError(f"no table of power.backends can {verb} it")
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TryAgainError("no time was left to try it")
        switch(backend, verb, task.node, Limits.of(self._settings, left_s))

    @contextmanager
    def _alone_with(self, task: _Task) -> Iterator[None]:
        """Under the node's lock; a resume goes on where there can be none."""
        with ExitStack() as held:
            if self._number is not None:
                left_s = max(0.0, self._deadline - time.monotonic())
                try:
                    held.enter_context(self._store.working_on(task.node, left_s))
                except TryAgainError:
                    raise
                except GschedError as error:
                    if task.verb == "suspend":
                        raise
                    log.error("%s: switched without its lock: %s", task.node, error.message)
            yield

    def _is_overtaken(self, node: str) -> bool:
        if self._number is None:
            return False
        try:
            order = self._store.glance().orders.get(node)
        except GschedError:
            return False
        return order is not None and order.number > self._number
