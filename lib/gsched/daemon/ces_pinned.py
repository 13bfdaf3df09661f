"""Waiting jobs that name the nodes they want: nobody else's waking helps them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from gsched.daemon.ces_wanted import is_ready
from gsched.errors import GschedError
from gsched.slurm.records import QueueRow

log = logging.getLogger("gsched.daemon")


class PinnedJobs:
    """Which waiting jobs do so. Slurm is asked only where one waits that was not there before."""

    def __init__(self, read: Callable[[], frozenset[int]]) -> None:
        """`read` gives the raw ids of all waiting jobs that name nodes."""
        self._read = read
        self._known: dict[int, bool] = {}

    def without(self, rows: Iterable[QueueRow]) -> tuple[QueueRow, ...]:
        """The rows but for waiting jobs that name nodes. Where Slurm does not answer, those that
        are known.
        """
        kept = tuple(rows)
        ready = {row.raw_id for row in kept if is_ready(row)}
        if not ready <= self._known.keys():
            try:
                pinned = self._read()
                self._known = {raw_id: raw_id in pinned for raw_id in ready}
            except GschedError as error:
                log.debug("ces: which jobs name nodes is not known: %s", error.message)
        return tuple(r for r in kept if not (r.raw_id in ready and self._known.get(r.raw_id)))
