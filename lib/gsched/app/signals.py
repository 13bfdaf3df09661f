"""Signals that end long work in order."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class EndingSignal(KeyboardInterrupt):
    """SIGTERM or SIGHUP: like Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the block as Ctrl-C does, unless the caller ignores them (nohup)."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise EndingSignal(number)

    fatal = (signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.getsignal(n) for n in fatal if signal.getsignal(n) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
