"""Signals during long work end it in order, wherever they come."""

from __future__ import annotations

import ctypes
import os
import signal
import threading

import pytest

from gsched.app.signals import EndingSignal, ending_by_signals
from gsched.errors import UnavailableError

ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def fail_when_interrupted(error: Exception) -> None:
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except KeyboardInterrupt:
        raise error from None


@pytest.mark.parametrize("number", ALL)
def test_a_signal_ends_the_block_and_the_old_handlers_are_back(number: int) -> None:
    before = [signal.getsignal(n) for n in ALL]
    with pytest.raises(EndingSignal) as end, ending_by_signals():
        os.kill(os.getpid(), number)
    assert end.value.number == number
    assert [signal.getsignal(n) for n in ALL] == before


@pytest.mark.parametrize("number", ALL)
def test_within_a_callback_of_the_compiler_it_waits_until_it_can_be_heard(
    number: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """Python drops what is raised in a callback from C, and the compiler would run on astray."""
    steps = []

    def _raw_object_cache_notify() -> None:
        os.kill(os.getpid(), number)
        steps.append("fetched")

    def work() -> None:
        ctypes.CFUNCTYPE(None)(_raw_object_cache_notify)()
        steps.append("compiled")
        threading.Event().wait(60)

    with pytest.raises(EndingSignal) as end, ending_by_signals():
        work()
    assert end.value.number == number
    assert steps == ["fetched", "compiled"]
    assert capfd.readouterr().err == ""


def test_an_internal_error_of_what_was_broken_off_is_the_interruption() -> None:
    with pytest.raises(EndingSignal) as end, ending_by_signals():
        fail_when_interrupted(RuntimeError("no compiled object yet"))
    assert end.value.number == signal.SIGTERM


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError), ending_by_signals():
        raise RuntimeError("nobody sent a signal")
    with pytest.raises(UnavailableError), ending_by_signals():
        fail_when_interrupted(UnavailableError("the disk is full"))


def test_who_ignores_hangups_goes_on() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
