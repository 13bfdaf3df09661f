"""The leases of a live cluster, put together."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping

from gsched.app.daemon_parts import Live, fault_hook
from gsched.app.user_names import user_number
from gsched.app.wiring import now
from gsched.daemon.age_repaid import Repayment
from gsched.daemon.lease_backend import LiveLeases, tell
from gsched.daemon.lease_facts import OF_SIGNAL, UNSAVED, LeaseFacts
from gsched.daemon.lease_heartbeats import HeartbeatReports
from gsched.engine.lease_driver import LeaseDriver
from gsched.engine.lease_rules import HandOver
from gsched.engine.leases import Move
from gsched.model.accounts import LeaseGrant
from gsched.model.job import LeaseState
from gsched.policy.base import Policy
from gsched.policy.lease_length import LEASE_KNOB, lease_lengths, with_lease
from gsched.slurm.records import SlurmConfig
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

FRONT_S = 600
"""For so long after its victim's requeue a job stays in front of all others: Slurm frees the nodes
within minutes."""

_LONGER_THAN_NEEDED = 1.25
"""A length that has become too long is kept as long as it is not so many times what is needed: it
would else change with every job that saves."""


class Leases:
    """What carries leases out. `driver` is what rounds get: None where the site allows no leases.

    Leases that stand then are not touched; they lapse when leases are allowed again.
    """

    def __init__(
        self,
        live: Live,
        history: History,
        fence: int | None,
        heartbeat_dir: Callable[[], str] = str,
    ) -> None:
        """`fence` is that of the daemon's journal; `heartbeat_dir` gives the folder in which jobs
        tell of themselves, "" = none.
        """
        self._live = live
        backend = live.backend
        self._store = history.leases(fence)
        reports = HeartbeatReports(heartbeat_dir, user_number)
        self._port = LiveLeases(
            live.client,
            live.config,
            backend.rules,
            backend.requests,
            reports,
            lambda: backend.behind,
        )
        self._driver = LeaseDriver(
            backend.cluster, self._store, self._port, now, fault_hook(), self._tell
        )
        self.driver: LeaseDriver | None = None
        self.transitions: Counter[str] = Counter()
        self._refusal = ""
        self._cost: HandOver | None = None

    def _tell(self, grant: LeaseGrant, move: Move) -> None:
        tell(grant, move)
        name = OF_SIGNAL if move.is_of_signal else move.state.value
        self.transitions[UNSAVED if move.is_unsaved else name] += 1

    def configure(self, config: SlurmConfig, allowed: bool) -> None:
        """Go on by what Slurm's configuration and the site's say now."""
        backend = self._live.backend
        self._port.configure(config, backend.rules)
        self.driver = self._driver if allowed else None
        waited_s = self._store.waits(backend.cluster) if allowed else {}
        backend.repayment = Repayment.of(config, waited_s)
        backend.freed_for = self._freed_for if allowed else frozenset

    def _freed_for(self) -> frozenset[str]:
        """Who is to have the GPUs of leases under way, until these have been free for a while."""
        last = now() - FRONT_S
        return frozenset(
            grant.revoke.beneficiary
            for grant in self._driver.standing
            if grant.revoke is not None
            and (grant.lease.state is not LeaseState.REQUEUED or grant.since > last)
        )

    def facts(self, policy: Policy) -> LeaseFacts | None:
        """For metrics; None where no leases are allowed."""
        if self.driver is None:
            return None
        return LeaseFacts(
            Counter(grant.lease.state.value for grant in self.driver.standing),
            dict(self.transitions),
            min(lease_lengths(policy), default=None),
            None if self._cost is None else self._cost.seconds,
        )

    def fitted(self, policy: Policy, knobs: Mapping[str, float]) -> Policy:
        """`policy` with leases as long as the hand-over asks for, unless the site's `knobs` say.

        So what a policy charges for a lease is what it lasts. A length of the site's that is too
        short stays: no lease is granted then, and the log says why.
        """
        lengths_s = lease_lengths(policy)
        if self.driver is None or not lengths_s:
            return policy
        saves_s = self._store.save_times(self._live.backend.cluster)
        self._cost = cost = HandOver.measured(saves_s, self._port.wait_s)
        if knobs.get(LEASE_KNOB):
            self._warn(cost.refusal(round(min(lengths_s))))
            return policy
        fits = [
            cost.default_lease_s <= length_s <= _LONGER_THAN_NEEDED * cost.default_lease_s
            for length_s in lengths_s
        ]
        if all(fits) and len(set(lengths_s)) == 1:
            return policy
        log.info("leases of %d s: a hand-over takes %d s", cost.default_lease_s, cost.seconds)
        return with_lease(policy, cost.default_lease_s)

    def _warn(self, refusal: str) -> None:
        if refusal and not self._refusal:
            log.warning("no leases are granted: %s", refusal)
        self._refusal = refusal

    def take_back(self, why: str) -> tuple[str, ...]:
        """Take back every revoke that can be; the ids of those leases."""
        back = self._driver.take_back(why)
        if back:
            log.warning("%d revokes of leases taken back: %s", len(back), why)
        return back
