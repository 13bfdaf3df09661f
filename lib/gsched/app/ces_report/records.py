"""What the daemon has kept of sleeping nodes, as the report reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gsched.app.ces_report.pool_time import Ints
from gsched.app.wiring import cluster_of, open_history
from gsched.config.settings import Settings
from gsched.engine.node_ports import PowerLog
from gsched.errors import UsageError
from gsched.model.node_power import MAX_GAP_S, NodeOrderEntry, PoolCount, PowerSpan, WakeDelay
from gsched_sql import History


@dataclass(frozen=True, slots=True)
class CesQuery:
    """What the report is of: the time (epoch seconds), and pools by name (none = all)."""

    since: int
    until: int
    pools: tuple[str, ...] = ()


@dataclass(frozen=True)
class CesRecords:
    """What was kept of the query's time, counts also from just before and after it.

    `job_starts` are the moments at which jobs of the whole cluster began. Without `of_all_users`
    the database shows this login its own jobs alone, as the delays are.
    """

    cluster: str
    counts: Sequence[PoolCount]
    spans: Sequence[PowerSpan]
    orders: Sequence[NodeOrderEntry]
    delays: Sequence[WakeDelay]
    job_starts: Ints
    of_all_users: bool = True

    def of_pools(self, pools: Sequence[str]) -> CesRecords:
        """Those of some pools. Raises UsageError for a pool that is not among them."""
        if not pools:
            return self
        known = {count.pool for count in self.counts} | {span.pool for span in self.spans}
        for pool in pools:
            if pool not in known:
                there = ", ".join(sorted(known)) or "none"
                raise UsageError(f"there is no pool {pool} in this time", f"there are: {there}")
        wanted = frozenset(pools)
        return replace(
            self,
            counts=[count for count in self.counts if count.pool in wanted],
            spans=[span for span in self.spans if span.pool in wanted],
            orders=[entry for entry in self.orders if entry.order.pool in wanted],
            delays=[delay for delay in self.delays if delay.pool in wanted],
        )


def read_records(settings: Settings, query: CesQuery) -> CesRecords:
    """From the history database. Raises ConfigError where there is none."""
    with open_history(settings) as history:
        cluster = cluster_of(settings, history)
        return records_of(history.power_log(cluster), history, cluster, query)


def records_of(log: PowerLog, history: History, cluster: str, query: CesQuery) -> CesRecords:
    """What `log` has of the query's time, with the starts of jobs that `history` knows."""
    since, until = query.since, query.until
    starts = [use.start for use in history.node_uses(cluster, since, until) if use.start >= since]
    return CesRecords(
        cluster,
        log.counts(since, until + MAX_GAP_S + 1),
        log.spans(since, until),
        log.orders(since, until),
        log.delays(since, until),
        np.array(starts, dtype=np.int64),
        history.sees_all_rows(),
    )
