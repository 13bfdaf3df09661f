"""What `gsched ces report` tells, from what the daemon has kept: pure once the records are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gsched.app.ces_report.days import DayFigures, Moments, day_edges, day_figures
from gsched.app.ces_report.delayed import Delayed
from gsched.app.ces_report.pool_figures import Course, PoolFigures
from gsched.app.ces_report.pool_time import KnownTime, pool_times
from gsched.app.ces_report.records import CesQuery, CesRecords, read_records
from gsched.app.ces_report.wakes import (
    CARRIED_OUT,
    WakeUps,
    asleep_s,
    decisions,
    slept_by_ces,
    wake_times,
    wake_ups,
    wakes_in,
)
from gsched.config.node_settings import EnergySettings
from gsched.config.settings import Settings
from gsched.demand.energy import EnergyAssumptions, EnergySaved, energy_saved
from gsched.errors import ConfigError
from gsched.model.journal import ChangeState
from gsched.model.node_power import MAX_GAP_S, NodeVerb, PowerCause, PowerSpan
from gsched.model.times import DAY_S

ALL_POOLS = "all"


@dataclass(frozen=True)
class CesReport:
    """The answer. `known` is when at least one pool was looked at.

    `woken_because` and `slept_because` count decisions by the code of their reason, `orders` orders
    by verb and state. `asleep_node_hours` are by who put the nodes to sleep, and `energy` is of
    those of CES alone; `wake_s_is_seen`: for how long nodes wake is known, not assumed. Without
    `of_all_users` delays are of this login's own jobs.
    """

    cluster: str
    query: CesQuery
    known: KnownTime
    overall: PoolFigures
    pools: Sequence[PoolFigures]
    asleep_node_hours: Mapping[PowerCause, float]
    wakes: Sequence[WakeUps]
    woken_because: Mapping[str, int]
    slept_because: Mapping[str, int]
    orders: Mapping[tuple[str, str], int]
    delayed: Delayed
    of_all_users: bool
    energy: EnergySaved
    assumptions: EnergyAssumptions
    wake_s_is_seen: bool
    course: Course
    days: Sequence[DayFigures]

    @property
    def known_share(self) -> float:
        """Part of the report's time that is known."""
        return self.known.length_s / max(self.query.until - self.query.since, 1)

    @property
    def did(self) -> str:
        """What CES did, for programs: ``acted``, ``observed`` or ``nothing``."""
        states = {state for _, state in self.orders}
        if not states.isdisjoint(state.value for state in CARRIED_OUT):
            return "acted"
        return "observed" if ChangeState.OBSERVED.value in states else "nothing"

    def a_day(self, number: float) -> float | None:
        """For each known day; None where less than one is known."""
        return number * DAY_S / self.known.length_s if self.known.length_s >= DAY_S else None

    def document(self) -> dict[str, Any]:
        """The report as JSON: times epoch seconds, durations seconds, null = not known."""
        return {
            "cluster": self.cluster,
            "since": self.query.since,
            "until": self.query.until,
            "did": self.did,
            "known_s": self.known.length_s,
            "known_share": self.known_share,
            "max_gap_s": MAX_GAP_S,
            "overall": self.overall.document(),
            "pools": [pool.document() for pool in self.pools],
            "asleep": [
                {"cause": cause.value, "node_hours": hours}
                for cause, hours in self.asleep_node_hours.items()
            ],
            "wake_ups": [
                {
                    **wakes.document(),
                    "wake_ups_a_day": self.a_day(wakes.wake_ups),
                    "nodes_a_day": self.a_day(wakes.nodes),
                }
                for wakes in self.wakes
            ],
            "woken_because": dict(sorted(self.woken_because.items())),
            "slept_because": dict(sorted(self.slept_because.items())),
            "orders": [
                {"verb": verb, "state": state, "orders": number}
                for (verb, state), number in sorted(self.orders.items())
            ],
            "delayed": {**self.delayed.document(), "of_all_users": self.of_all_users},
            "energy": self._energy_document(),
            "days": [day.document() for day in self.days],
            "course": self.course.document(),
        }

    def _energy_document(self) -> dict[str, Any]:
        """Where nothing is known of the time, nothing is known to be saved either."""
        document = self.energy.document(self.assumptions)
        if not self.known.length_s:
            document |= dict.fromkeys(asdict(self.energy))
        return {**document, "wake_s_is_seen": self.wake_s_is_seen}


def ces_report(settings: Settings, query: CesQuery) -> CesReport:
    """Read what was kept and report on it. Raises UsageError for a pool that is not there."""
    return report_of(read_records(settings, query), query, settings.energy)


def report_of(records: CesRecords, query: CesQuery, energy: EnergySettings) -> CesReport:
    """The report on these records. Raises UsageError for a pool that is not there."""
    job_starts = None if query.pools else records.job_starts
    since, until = query.since, query.until
    looked = KnownTime.union(time.known for time in pool_times(records.counts, since, until))
    records = records.of_pools(query.pools)
    times = pool_times(records.counts, since, until)
    known = KnownTime.union(time.known for time in times)
    waking = wakes_in(records.spans, since, until)
    woken = decisions(records.orders, NodeVerb.WAKE)
    edges = day_edges(since, until)
    asleep = asleep_s(records.spans, looked, edges)
    asleep_h = {cause: float(seconds.sum()) / 3600 for cause, seconds in asleep.items()}
    charged = slept_by_ces(waking, records.spans)
    assumptions, is_seen = _assumptions(energy, charged)
    moments = Moments(
        wake_ups=[moment for _, moment in woken],
        nodes_woken={
            cause.value: [span.start for span in waking if span.cause is cause]
            for cause in PowerCause
        },
        charged=[span.start for span in charged],
        delays=[delay.allocated_at for delay in records.delays],
    )
    return CesReport(
        cluster=records.cluster,
        query=query,
        known=known,
        overall=PoolFigures.of(ALL_POOLS, times, known),
        pools=[PoolFigures.of(time.pool, [time], time.known) for time in times],
        asleep_node_hours=asleep_h,
        wakes=wake_ups(waking, len(woken)),
        woken_because=Counter(woken.values()),
        slept_because=Counter(decisions(records.orders, NodeVerb.SLEEP).values()),
        orders=Counter((each.order.verb.value, each.state.value) for each in records.orders),
        delayed=Delayed.of(records.delays, job_starts, known),
        of_all_users=records.of_all_users,
        energy=energy_saved(asleep_h[PowerCause.CES], len(charged), assumptions),
        assumptions=assumptions,
        wake_s_is_seen=is_seen,
        course=Course.of(times, known, since, until),
        days=day_figures(edges, looked, asleep[PowerCause.CES], moments, assumptions),
    )


def _assumptions(
    energy: EnergySettings, charged: Sequence[PowerSpan]
) -> tuple[EnergyAssumptions, bool]:
    """With the mean time that nodes took to wake, and whether that was seen."""
    seen = wake_times(span for span in charged if span.outcome in ("awake", "failed"))
    values = asdict(energy)
    if len(seen):
        values["wake_s"] = float(seen.mean())
    try:
        return EnergyAssumptions(**values), bool(len(seen))
    except ValueError as e:
        raise ConfigError(f"[energy]: {e}", "see gsched.toml(5)") from e
