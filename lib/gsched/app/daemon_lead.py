"""This host's daemon as the leader of its cluster: taken, renewed and given back."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gsched.app.wiring import now
from gsched.errors import GschedError, TryAgainError
from gsched_sql import History, machine_id

log = logging.getLogger("gsched.daemon")

_LEAST_TTL_S = 90
_TTL_ROUNDS = 3
_RENEWALS = 3
"""At least so often within its time a lead is renewed."""


class ClusterLead:
    """Implements ``gsched.daemon.loop.Lead`` by the database; `fence` goes with every write."""

    def __init__(
        self, history: History, cluster: str, fence: int, interval_s: Callable[[], float]
    ) -> None:
        self.fence = fence
        self._leadership = history.leadership(cluster)
        self._spans = history.spans(cluster)
        self._interval_s = interval_s
        self._next_renewal = 0.0

    def renew(self) -> None:
        """Keep the lead. Raises LostLeadershipError when another daemon has it by now."""
        ttl_s = _ttl_s(self._interval_s())  # a reload may have changed it
        self._next_renewal = time.monotonic() + ttl_s / _RENEWALS
        self._leadership.renew(self.fence, int(ttl_s), now())

    def renew_in_time(self) -> None:
        """Keep the lead during a long pause. Raises as `renew` does."""
        if time.monotonic() >= self._next_renewal:
            self.renew()

    def note(self, mode: str, policy: str, writes: int) -> None:
        """Keep in the history that a round has run in this mode."""
        self._spans.note(mode, policy, now(), _ttl_s(self._interval_s()), writes)


@contextmanager
def leading(
    history: History, cluster: str, interval_s: Callable[[], float]
) -> Iterator[ClusterLead]:
    """Lead `cluster` for the block. Raises TryAgainError while another host's daemon does.

    `interval_s` gives the seconds between rounds: a leader that misses some of them is taken for
    dead.
    """
    leadership = history.leadership(cluster)
    ttl_s = int(_ttl_s(interval_s()))
    fence = leadership.take(socket.gethostname(), machine_id(), os.getpid(), ttl_s, now())
    try:
        yield ClusterLead(history, cluster, fence, interval_s)
    finally:
        try:
            leadership.release(fence, now())
        except GschedError as e:  # it lapses by itself
            log.warning("the lead of %s could not be given back: %s", cluster, e.message)


def refuse_beside_another_host(history: History, cluster: str) -> None:
    """Raise TryAgainError while another host's daemon leads: both would write."""
    leader = history.leadership(cluster).holder(now())
    here = (socket.gethostname(), machine_id())
    if leader is not None and (leader.host, leader.machine_id) != here:
        raise TryAgainError(
            f"the gsched daemon of host {leader.host} leads cluster {cluster}",
            "run this there, or stop that daemon first",
        )


def _ttl_s(interval_s: float) -> float:
    return max(_LEAST_TTL_S, _TTL_ROUNDS * interval_s)
