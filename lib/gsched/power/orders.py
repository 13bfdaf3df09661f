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

from gsched.config.node_settings import PowerSettings
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
from gsched.power.guard import Guard, unguarded
from gsched.power.limits import Limits
from gsched.power.own_files import OwnFileError
from gsched.power.reach import switch
from gsched.power.state import LOCK_WAIT_S, State, Store, bounded_error

log = logging.getLogger("gsched.power")

_ENDING_S = 1.0
"""So long before a call's time is over its commands are killed: none outlives it."""
_WRITE_INTERVAL_S = 0.2
"""Outcomes of a large call are written down together: the file holds all nodes."""
_NO_USE = (ConfigError, PermissionDeniedError)
"""What another try does not mend."""
_ANY_FAULT = (GschedError, OSError, ValueError, TypeError, LookupError, AttributeError,
              ArithmeticError, RecursionError)  # fmt: skip
"""Also those that gsched itself would have: a user waits for a resume."""


@dataclass(slots=True)
class Result:
    """What became of the nodes of one call."""

    done: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    """Not tried, and why: suspending is stopped, the node is left for an administrator, or a job
    may run on it."""
    overtaken: list[str] = field(default_factory=list)
    """A later call asks for something else of them."""


@dataclass(frozen=True, slots=True)
class _Task:
    node: str
    verb: Verb
    tries: int = 1
    """Which try it is."""
    error: str = ""
    """What the one before has ended with."""


@dataclass(frozen=True, slots=True)
class _Tried:
    task: _Task
    error: GschedError | None
    is_overtaken: bool = False
    is_fault: bool = True
    """Whether an error is the node's own."""
    note: str = ""
    """Why something else was done than was to be."""


class Call:
    """One call of SuspendProgram or ResumeProgram, or an administrator's."""

    def __init__(self, settings: PowerSettings, store: Store, guard: Guard | None = None) -> None:
        """`guard` keeps from nodes with jobs; without one nothing is asked."""
        self._settings = settings
        self._store = store
        self._guard = guard or unguarded()
        self._result = Result()
        self._number: int | None = None
        """None = the state cannot be used, and a resume goes on without."""
        self._tried: queue.SimpleQueue[_Tried] = queue.SimpleQueue()
        self._deadline = 0.0
        """When no try goes on any more."""
        self._end = 0.0
        self._unwritten: list[records.Outcome] = []
        self._written_at = 0.0

    def carry_out(self, verb: Verb, names: Sequence[str]) -> Result:
        """Suspend, resume or restart nodes. Raises what `Store.change` does, of a suspend alone."""
        is_suspend = verb == "suspend"
        limit_s = self._settings.suspend_limit_s if is_suspend else self._settings.resume_limit_s
        self._end = time.monotonic() + limit_s
        self._deadline = self._end - min(_ENDING_S, limit_s / 4)
        if allowed := self._allowed(verb, names):
            self._run(self._begin(verb, allowed))
        return self._result

    def _allowed(self, verb: Verb, names: Sequence[str]) -> Sequence[str]:
        """Those nodes whose power may be cut; the others are told and leave no trace.

        An order that is written down overtakes the one before, which may be to wake the node.
        """
        if verb == "resume":
            return names
        why_not = self._guard.why_not_suspend if verb == "suspend" else self._guard.why_not_restart
        refused = {name: why for name in names if (why := why_not(name))}
        for why in dict.fromkeys(refused.values()):
            alike = [name for name, its in refused.items() if its == why]
            log.warning("%s of %s refused: %s", verb, fold(alike), why)
        self._result.refused |= refused
        return [name for name in names if name not in refused]

    def _begin(self, verb: Verb, names: Sequence[str]) -> list[_Task]:
        """Write down what is asked; the tasks that follow from it."""
        try:
            state = self._store.change(lambda state: records.begun(state, verb, names, time.time()))
        except _ANY_FAULT as error:
            if verb == "suspend":
                raise
            log.error("%s", error.message if isinstance(error, GschedError) else repr(error))
            anew = self._anew(names) if isinstance(error, DataError) else None
            if anew is None:
                log.error("resuming goes on without its state")
                return [_Task(name, "restart") for name in names]
            state = anew
        self._number = state.next_number - 1
        tasks, refused = [], {}
        for name in names:
            order = state.orders[name]
            if order.outcome == "refused":
                refused[name] = order.error
            else:
                tasks.append(_Task(name, order.verb))
        if refused:
            log.warning("%s of %s refused: %s", verb, fold(refused), next(iter(refused.values())))
        self._result.refused |= refused
        return tasks

    def _anew(self, names: Sequence[str]) -> State | None:
        """After damage: with a new state; None where it cannot be had either."""
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
        ties, running = itertools.count(), set[str]()
        open_nodes = {task.node: task for task in tasks}
        while open_nodes and (left_s := self._deadline - time.monotonic()) > 0:
            while later and later[0][0] <= time.monotonic():
                due.append(heapq.heappop(later)[2])
            while due and len(running) < self._settings.parallel:
                task = due.popleft()  # those that are new stand before those that have failed
                # a thread that hangs, in a resolver for example, must not hold up the process's end
                threading.Thread(target=self._work, args=(task,), daemon=True).start()
                running.add(task.node)
            next_s = later[0][0] - time.monotonic() if later else left_s
            final = []
            write_s = _WRITE_INTERVAL_S if self._unwritten else left_s
            for one in self._collected(min(left_s, next_s, write_s)):
                running.remove(one.task.node)
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
        while running and (left_s := self._end - time.monotonic()) > 0:
            for one in self._collected(left_s):  # what has just been killed
                running.remove(one.task.node)
                del open_nodes[one.task.node]
                self._settle([one])
        left = open_nodes.values()
        self._settle([_out_of_time(task, task.node in running) for task in left])
        self._write(wait_s=LOCK_WAIT_S)

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
        return due, replace(task, tries=task.tries + 1, error=words)

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
            is_fault = one.is_fault and not isinstance(one.error, OwnFileError)
            told = records.Outcome(node, one.task.tries, error, is_fault, one.task.verb, one.note)
            outcomes.append(told)
            if one.error is None:
                self._result.done.append(node)
                continue
            self._result.failed[node] = error
            if not is_fault:
                log.error("%s: %s failed: %s", node, one.task.verb, error)
            else:
                log.error(
                    "%s: %s failed at try %d, the last: %s; left for an administrator (`gsched "
                    "power clear %s` when it is mended)",
                    node, one.task.verb, one.task.tries, error, node,
                )  # fmt: skip
        done = [one.task for one in ended if one.error is None and not one.is_overtaken]
        for verb in dict.fromkeys(task.verb for task in done):
            log.info("%s: done: %s", verb, fold(task.node for task in done if task.verb == verb))
        self._unwritten += outcomes

    def _write(self, wait_s: float = 0.0) -> None:
        """Write down the outcomes that there are; what cannot be is tried again later.

        `wait_s` is for the last time: other tries do not wait for somebody who holds the state.
        """
        outcomes, number, settings = self._unwritten, self._number, self._settings
        self._written_at = time.monotonic()
        if number is None or not outcomes:
            return
        was_stopped = False

        def change(state: State) -> State:
            nonlocal was_stopped
            was_stopped = state.stopped is not None
            return records.ended(state, number, outcomes, settings, time.time())

        try:
            state = self._store.change(change, wait_s)
        except GschedError as error:
            if wait_s:
                log.error("the outcome of a call cannot be written down: %s", error.message)
            return
        self._unwritten = []
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
            with self._alone_with(task) as held:
                if self._is_overtaken(task.node):
                    return _Tried(task, None, is_overtaken=True)
                if task.verb != "restart":
                    self._switch(task.node, task.verb, held)
                    return _Tried(task, None)
                why_not = self._restart(task.node, held)
                if not why_not:
                    return _Tried(task, None)
                log.warning("%s: resumed, and not restarted: %s", task.node, why_not)
                self._switch(task.node, "resume", held)
        except GschedError as error:
            return _Tried(task, error)
        return _Tried(replace(task, verb="resume"), None, note=why_not)

    def _restart(self, node: str, held: Sequence[int]) -> str:
        """Restart it; why that was not to be, "" where it was.

        It may be off after all, and what is off can often not be restarted.
        """
        if why := self._guard.why_not_restart(node):
            return why
        try:
            self._switch(node, "restart", held)
        except GschedError as error:
            if time.monotonic() >= self._deadline:
                raise
            return bounded_error(error.message)
        return ""

    def _switch(self, node: str, verb: Verb, held: Sequence[int]) -> None:
        backend = self._settings.backends.of(node, verb)
        if backend is None:
            raise ConfigError(f"no table of power.backends can {verb} it")
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise TryAgainError("no time was left to try it")
        switch(backend, verb, node, Limits.of(self._settings, left_s), held)

    @contextmanager
    def _alone_with(self, task: _Task) -> Iterator[Sequence[int]]:
        """Under the node's lock, which is given; a resume goes on where there can be none.

        It waits half its time for one that has stopped, or for the command of one that was killed.
        """
        with ExitStack() as stack:
            held: list[int] = []
            if self._number is not None:
                left_s = max(0.0, self._deadline - time.monotonic())
                wait_s = left_s if task.verb == "suspend" else left_s / 2
                try:
                    held.append(stack.enter_context(self._store.working_on(task.node, wait_s)))
                except GschedError as error:
                    if task.verb == "suspend":
                        raise
                    log.error("%s: switched without its lock: %s", task.node, error.message)
            yield held

    def _is_overtaken(self, node: str) -> bool:
        if self._number is None:
            return False
        try:
            order = self._store.glance().orders.get(node)
        except GschedError:
            return False
        return order is not None and order.number > self._number


def _out_of_time(task: _Task, is_running: bool) -> _Tried:
    """A node that has no outcome when the call's time is over."""
    if is_running:
        return _Tried(task, TryAgainError("no answer within the time limit of the call"))
    made = replace(task, tries=task.tries - 1)
    if task.error:
        return _Tried(made, TryAgainError(f"no time was left to try it again: {task.error}"))
    why = TryAgainError("not tried: the other nodes took all of the call's time")
    return _Tried(made, why, is_fault=False)
