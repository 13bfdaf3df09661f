"""The leases of a live cluster, put together."""

from __future__ import annotations

import logging

from gsched.app.daemon_parts import Live, fault_hook
from gsched.app.wiring import now
from gsched.daemon.lease_backend import LiveLeases, own_preemption, tell
from gsched.engine.lease_driver import LeaseDriver
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

log = logging.getLogger("gsched.daemon")


class Leases:
    """What carries leases out. `driver` is what rounds get: None where the site allows no leases.

    Leases that stand then are not touched; they lapse when leases are allowed again.
    """

    def __init__(self, live: Live, history: History, fence: int | None) -> None:
        """`fence` is that of the daemon's journal."""
        self._live = live
        backend = live.backend
        self._port = LiveLeases(live.client, live.config, backend.rules, backend.requests)
        self._driver = LeaseDriver(
            backend.cluster, history.leases(fence), self._port, now, fault_hook(), tell
        )
        self.driver: LeaseDriver | None = None

    def configure(self, config: SlurmConfig, allowed: bool) -> None:
        """Go on by what Slurm's configuration and the site's say now."""
        self._port.configure(config, self._live.backend.rules)
        way = own_preemption(config)
        if allowed and self.driver is None and way:
            log.warning("%s: that is the better way than leases", way)
        self.driver = self._driver if allowed else None

    def take_back(self, why: str) -> tuple[str, ...]:
        """Take back every revoke that can be; the ids of those leases."""
        back = self._driver.take_back(why)
        if back:
            log.warning("%d revokes of leases taken back: %s", len(back), why)
        return back
