"""Processes that kill themselves with SIGKILL at a chosen place of their work on a database."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine


def killed(work: Callable[[], Any], at: int) -> bool:
    """Do `work` in a process of its own, with kill -9 before its statement or commit number `at`.

    Returns False when the work came to its end before. Raises AssertionError when it failed.
    """
    child = os.fork()
    if child == 0:
        _work_and_die(work, at)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the work failed, see above"
    return False


def _work_and_die(work: Callable[[], Any], at: int) -> None:
    numbers = itertools.count(1)

    def count(*_: Any) -> None:
        if next(numbers) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        for name in ("before_cursor_execute", "commit"):
            event.listen(Engine, name, count)
        work()
        code = 0
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
    finally:
        os._exit(code)


def places(first: int = 1, growth: float = 1.5) -> Iterator[int]:
    """Ever later places, close to each other at first."""
    at = float(first)
    while True:
        yield int(at)
        at = max(at + 1, at * growth)
