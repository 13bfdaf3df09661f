"""Work that takes long: how far it is, at a terminal, and an orderly end when it is broken off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gsched.app.signals import ending_by_signals
from gsched_cli.output import count
from gsched_cli.progress import ProgressLine


@contextmanager
def long_work() -> Iterator[Callable[[str, int], None]]:
    """Gives what to tell of progress: what is being done, and how many rows of it so far."""
    with ending_by_signals(), ProgressLine() as line:
        yield lambda what, rows: line.show(f"{what}: {count(rows)}" if rows else what)
