"""What of the records the report counts: starts of jobs, whose sleep a wake-up ended, last days."""

from __future__ import annotations

from collections.abc import Sequence

from support.ces_report import T0, counted, delayed, ordered, records, span
from support.memory_power_log import MemoryPowerLog

from gsched.app.ces_report.records import CesQuery, records_of
from gsched.app.ces_report.report import report_of
from gsched.app.ces_report.tables import MOST_DAYS, day_table
from gsched.app.ces_report.wakes import slept_by_ces
from gsched.config.node_settings import EnergySettings
from gsched.model.node_power import NodeVerb, PowerCause, PowerPhase
from gsched.model.node_use import NodeUse
from gsched.model.times import DAY_S

ASLEEP, WAKING = PowerPhase.ASLEEP, PowerPhase.WAKING


class Uses:
    """A history of three jobs, of which one began before."""

    def node_uses(self, cluster: str, since: int, until: int) -> Sequence[NodeUse]:
        assert (cluster, since, until) == ("alpha", T0, T0 + DAY_S)
        return [NodeUse(at, None, 1, ()) for at in (T0 - 1, T0, T0 + 5)]

    def sees_all_rows(self) -> bool:
        return False


def test_jobs_that_began_in_the_time_are_those_of_which_some_were_delayed() -> None:
    found = records_of(MemoryPowerLog(), Uses(), "alpha", CesQuery(T0, T0 + DAY_S))
    assert list(found.job_starts) == [T0, T0 + 5]
    assert not found.of_all_users


def test_a_wake_up_belongs_to_the_sleep_that_it_ended() -> None:
    spans = [
        span("n1", ASLEEP, 0, 100),
        span("n1", ASLEEP, 500, 600, PowerCause.OTHERS),
        span("n2", ASLEEP, 0, 100, PowerCause.OTHERS),
        span("n2", ASLEEP, 500, 600),
    ]
    waking = [
        span(node, WAKING, at, at + 60, PowerCause.SLURM, outcome="awake")
        for node in ("n1", "n2", "n3")
        for at in (100, 600)
    ]
    found = slept_by_ces(waking, spans)
    assert [(s.node, s.start - T0) for s in found] == [("n1", 100), ("n2", 600)]


def test_the_table_shows_the_last_days_with_what_happened_on_each() -> None:
    days = MOST_DAYS + 4
    last = (days - 1) * DAY_S
    counts = [counted(at, idle=4) for at in range(0, days * DAY_S + 1, 900)]
    spans = [
        span("n1", WAKING, last + 10, last + 70, outcome="awake"),
        span("n2", WAKING, last + 20, last + 80, outcome="awake"),
        span("n3", WAKING, last + 30, last + 90, PowerCause.SLURM, outcome="awake", job="7"),
    ]
    orders = [ordered("n1", NodeVerb.WAKE, last + 5, "ces.arrival")]
    kept = records(counts, spans, orders=orders, delays=[delayed("7", last + 30, 60)])
    table = day_table(report_of(kept, CesQuery(T0, T0 + days * DAY_S), EnergySettings()))
    assert len(table.rows) == MOST_DAYS
    shown = dict(zip(table.headings, table.rows[-1], strict=True))
    told = [shown[name] for name in ("WAKE-UPS", "NODES WOKEN", "BY SLURM", "DELAYED")]
    assert told == ["1", "3", "1", "1"]
    assert {row[5] for row in table.rows[:-1]} == {"0"}
