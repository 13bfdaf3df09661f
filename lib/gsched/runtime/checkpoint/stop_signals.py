"""Signals that ask a training run to save. A handler only sets a flag: saving comes later.

Python's own C handler also writes the signal's number into the writer's wake pipe, at once, even
while the main thread is within a long C call: the writer then flushes the newest snapshot.
"""

from __future__ import annotations

import enum
import logging
import os
import signal
import threading
import time
import weakref
from collections.abc import Mapping
from types import FrameType, MappingProxyType
from typing import Any

from gsched.runtime.checkpoint.step_daemon import StepDaemon

_log = logging.getLogger("gsched.checkpoint")


class SignalAction(enum.StrEnum):
    """What a signal asks for."""

    STOP = "stop"
    """A checkpoint, then the end of the loop, with exit status 128 + the signal's number."""
    SAVE = "save"
    """A checkpoint; training goes on."""


DEFAULT_SIGNALS: Mapping[int, SignalAction] = MappingProxyType(
    {signal.SIGTERM: SignalAction.STOP, signal.SIGUSR1: SignalAction.SAVE}
)


class StopSignals:
    """The handlers, from `install` to `remove`, and what they have seen."""

    def __init__(self, actions: Mapping[int, SignalAction], *, chain: bool) -> None:
        """With `chain`, a handler that was there before is called too."""
        self._actions = {int(n): SignalAction(action) for n, action in actions.items()}
        self._chain = chain
        self._before: dict[int, Any] = {}
        self._wakes = False
        self._step_daemon: StepDaemon | None = None
        self.stop_signal = 0
        self.stop_time = 0.0
        """When the first signal that asks to stop was seen, by the monotonic clock."""
        self.save_signal = 0
        """The last signal that asked to save and was not answered; 0 for none."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The signals that are watched."""
        return tuple(self._actions)

    def install(self, wake_fd: int) -> None:
        """Watch the signals; the C handler writes their numbers to `wake_fd`.

        Only the main thread can: elsewhere it is said in the log, and nothing is watched.
        """
        if threading.current_thread() is not threading.main_thread():
            _log.warning("signals are not watched: this is not the main thread")
            return
        for number in self._actions:
            self._before[number] = signal.signal(number, self._handle)
        _installed.add(self)
        self._step_daemon = StepDaemon()
        before = signal.set_wakeup_fd(wake_fd, warn_on_full_buffer=False)
        if before == -1:
            self._wakes = True
        else:  # an event loop needs its own
            signal.set_wakeup_fd(before, warn_on_full_buffer=False)
            _log.warning("signal.set_wakeup_fd is in use: at a signal all waits for the step's end")

    def look(self) -> None:
        """Stop, as at SIGTERM, where Slurm's daemon of this step is gone: nobody will send one."""
        if self.stop_signal or self._step_daemon is None or not self._step_daemon.has_ended:
            return
        _log.warning(
            "slurmstepd is gone: Slurm has lost this attempt and starts the job again, or fails it"
        )
        self.stop_signal, self.stop_time = int(signal.SIGTERM), time.monotonic()

    def stop_waking(self) -> None:
        """The wake pipe is about to be closed."""
        if self._wakes:
            self._wakes = False
            signal.set_wakeup_fd(-1)

    def remove(self) -> None:
        """Put back the handlers that were there."""
        if not self._before:
            return
        self.stop_waking()
        for number, before in self._before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)
        self._before = {}
        _installed.discard(self)
        if self._step_daemon is not None:
            self._step_daemon.close()
            self._step_daemon = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._actions[number] is SignalAction.SAVE:
            self.save_signal = number
        elif not self.stop_signal:
            self.stop_signal, self.stop_time = number, time.monotonic()
        before = self._before.get(number)
        if self._chain and callable(before) and before is not signal.default_int_handler:
            before(number, frame)


_installed: weakref.WeakSet[StopSignals] = weakref.WeakSet()


_masks: list[set[int]] = []
"""The thread's signal mask from before a fork, while one is made."""


def _before_fork() -> None:
    """A signal to a child that has not come to itself would find the handlers of the training."""
    watched = {number for signals in _installed for number in signals.numbers}
    _masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, watched))


def _after_fork() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _masks.pop())


def _after_fork_in_child() -> None:
    """In a forked child the signals mean what they meant before: `terminate` has to end it."""
    for signals in list(_installed):
        signals.remove()
    _after_fork()


os.register_at_fork(
    before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork_in_child
)
