"""Waiting for a state to come about, by polling it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from gsched.errors import UnavailableError

T = TypeVar("T")


def wait_for(
    predicate: Callable[[], T], what: str, timeout_s: float = 60.0, poll_s: float = 0.02
) -> T:
    """Call `predicate` every `poll_s` seconds until it gives something true, and return that.

    Raises UnavailableError, which names `what` was waited for, after `timeout_s` seconds.
    """
    deadline = time.monotonic() + timeout_s
    while not (value := predicate()):
        if time.monotonic() > deadline:
            raise UnavailableError(f"waited {timeout_s:g} s in vain for {what}")
        time.sleep(poll_s)
    return value
