"""The ledger of tenants in the daemon: quotas as they change, hours, what a policy begins with.

All of it comes from the job history and can be made again from it: a daemon that is killed between
any two calls loses nothing, and one that was away closes what it missed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace

from gsched.app.fairness.books import equal_parts
from gsched.app.fairness.hours import MOST_HOURS, close_hours
from gsched.app.fairness.public import standing_of
from gsched.app.fairness.quotas import quotas_of
from gsched.app.fairness.received import received_gpu_s
from gsched.app.fairness.site import facts_by
from gsched.config.settings import Settings
from gsched.engine.faults import FaultHook, FaultPoint
from gsched.engine.ports import Clock
from gsched.errors import GschedError
from gsched.fairness.fading import HOUR_S
from gsched.model.accounts import SiteQuotas
from gsched.model.decision import JsonValue
from gsched.model.times import DAY_S
from gsched.policy.base import Policy
from gsched.policy.registry import SiteFacts
from gsched.slurm.client import SlurmClient
from gsched_sql import History

log = logging.getLogger("gsched.daemon")

QUOTAS_INTERVAL_S = 600
"""So often the site is asked for its quotas."""

_MOST_NAMED = 10

ACTIVE_S = 7 * DAY_S
"""Where nobody names quotas, tenants whose jobs asked for GPUs in this time have equal ones."""


class FairnessUpkeep:
    """Keeps the ledger of one cluster. `quotas` are those that were read last, None before.

    `standing` is how tenants stood when the last hour was closed, {} before (see ``public``).
    `decides_by` is what the policy in use was made of; None: it takes no quotas, or those that are
    read first.
    """

    def __init__(
        self,
        settings: Settings,
        client: SlurmClient,
        history: History,
        cluster: str,
        fence: int | None,
        clock: Clock,
        on_point: FaultHook,
    ) -> None:
        """`fence` is that of the daemon's journal."""
        self.quotas: SiteQuotas | None = None
        self.standing: Mapping[str, JsonValue] = {}
        self.decides_by: SiteFacts | None = None
        self.on_quotas: Callable[[SiteQuotas], None] = lambda _: None
        self._settings = settings
        self._client = client
        self._history = history
        self._cluster = cluster
        self._fence = fence
        self._clock = clock
        self._on_point = on_point
        self._read_at: int | None = None
        self._closed_for: int | None = None
        self._seeded: tuple[str, float | None] | None = None
        self._unseeded: Mapping[str, JsonValue] | None = None
        self._problem = ""

    def configure(self, settings: Settings) -> None:
        """Follow other settings: the next round asks for the quotas."""
        self._settings = settings
        self._read_at = None

    def note_quotas(self) -> None:
        """Ask for the quotas where it is time, and keep what has changed.

        `on_quotas` is told of others than before, and of others than the policy decides by: it was
        made of those noted last where Slurm did not answer. Raises what `quotas_of` raises.
        """
        now = self._clock()
        if self._read_at is not None and 0 <= now - self._read_at < QUOTAS_INTERVAL_S:
            return
        self._read_at = now  # what fails is tried again then, not at each round
        found = quotas_of(self._settings, self._client)
        named = found
        if not found.gpus:
            active = self._history.fairness().active_tenants(self._cluster, now - ACTIVE_S)
            named = replace(found, gpus=equal_parts(found, sorted(active)))
        self._history.fairness(self._fence).note(self._cluster, now, named)
        self._on_point(FaultPoint.FAIRNESS_NOTED)
        before, self.quotas = self.quotas, found
        facts = facts_by(self._settings, found)
        if before not in (None, found) or self.decides_by not in (None, facts):
            log.info("quotas of tenants have changed (%s)", found.source)
            self.on_quotas(found)
        if before != found:
            self._warn_of_unnamed(found, now)
        self.decides_by = facts

    def _warn_of_unnamed(self, found: SiteQuotas, now: int) -> None:
        """A misspelt account in the settings leaves the true one without a quota."""
        if found.source != "settings":
            return
        active = self._history.fairness().active_tenants(self._cluster, now - ACTIVE_S)
        if unnamed := sorted(set(active) - set(found.gpus) - {""}):
            log.warning(
                "accounts without a quota in [fairness.quotas] have jobs with GPUs, which come "
                "last (%d accounts): %s",
                len(unnamed),
                ", ".join(map(ascii, unnamed[:_MOST_NAMED])),
            )

    def close_hours(self, told_until: int | None) -> None:
        """Close the hours of which the history knows all that ended, told until then (epoch).

        A backlog takes several rounds.
        """
        if told_until is None or self.quotas is None:
            return
        hour = told_until // HOUR_S
        if hour == self._closed_for:
            return
        done = close_hours(self._history, self._cluster, told_until, self.quotas, self._fence)
        self._on_point(FaultPoint.FAIRNESS_CLOSED)
        if done < MOST_HOURS:
            self._closed_for = hour
            self.standing = standing_of(self._history, self._cluster, self._settings)

    def seed(
        self,
        policy: Policy,
        memory: Mapping[str, JsonValue],
        as_of: int,
        is_told: Callable[[], bool],
    ) -> Mapping[str, JsonValue]:
        """A policy's memory with what tenants have received, once when it begins to decide.

        `is_told` says whether the history knows all until `as_of`; while it does not, the memory
        stays as it is and the next round asks again. So it does where the memory is still the one
        from before: the round to which it was given has failed before it was kept.
        """
        begins = policy.name, policy.knob_values.get("half_life_s")
        if begins == self._seeded and (self._unseeded is None or memory != self._unseeded):
            self._unseeded = None
            return memory
        if not is_told():
            return memory

        def received(half_life_s: float, by_worth: bool) -> Mapping[str, float]:
            return received_gpu_s(
                self._history, self._cluster, as_of, half_life_s, by_worth=by_worth
            )

        try:
            seeded = policy.seeded(memory, as_of, received)
        except GschedError as error:  # it decides by what it remembers itself
            if error.message != self._problem:
                log.warning("what tenants have received is not known: %s", error.message)
            self._problem = error.message
            return memory
        self._seeded, self._problem = begins, ""
        self._unseeded = memory if seeded is not memory else None  # None: it counts nothing
        return seeded
