"""A call beside the main thread: one that hangs holds up nobody, and no end of the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from gsched.errors import GschedError

_Result = TypeVar("_Result")


def begin(call: Callable[[], _Result]) -> Future[_Result]:
    """Begin `call` in a thread of its own; its result, or its GschedError, comes by the future.

    A dead file system or name server may keep a call for ever: the thread is left behind then.
    """
    future: Future[_Result] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except GschedError as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future
