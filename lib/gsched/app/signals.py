"""Signals that end long work in order."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType

from gsched.errors import GschedError

_AGAIN_S = 0.02


class EndingSignal(KeyboardInterrupt):
    """SIGINT, SIGTERM or SIGHUP: like Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def ending_by_signals() -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP end the block by EndingSignal, unless the caller ignores them.

    (nohup does.) An internal error of what was broken off is the end by that signal, too.
    """
    last: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        if _is_swallowed(frame):
            again = Timer(_AGAIN_S, os.kill, (os.getpid(), number))
            again.daemon = True
            again.start()
            return
        last[:] = [number]
        raise EndingSignal(number)

    fatal = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.getsignal(n) for n in fatal if signal.getsignal(n) is not signal.SIG_IGN}
    for number in before:
        signal.signal(number, end)
    try:
        yield
    except Exception as error:
        if last and not isinstance(error, GschedError | OSError):
            raise EndingSignal(last[0]) from error
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_swallowed(frame: FrameType | None) -> bool:
    """Whether Python would lose what is raised here: in a callback of the compiler, or a finaliser.

    The compiler would go on without what the callback had to fetch, and fail later.
    """
    while frame is not None:
        is_callback = frame.f_code.co_name.startswith("_raw_object_cache_")  # of llvmlite
        if is_callback or frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False
