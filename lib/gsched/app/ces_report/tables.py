"""The report's tables: the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TypeVar

from gsched.app.ces_report.pool_figures import PoolFigures
from gsched.app.ces_report.report import ALL_POOLS, CesReport
from gsched.app.sim.tables import UNKNOWN, Row, Table
from gsched.explain.words import percent, short_time
from gsched.model.node_power import PowerCause

Figure = TypeVar("Figure")

CAUSE_WORDS = {
    PowerCause.CES: "CES",
    PowerCause.SLURM: "Slurm, for a job",
    PowerCause.OTHERS: "others",
}
MOST_DAYS = 31
"""So many days, the last ones, are shown; the JSON document has all."""


def tables(report: CesReport) -> Iterator[Table]:
    """All tables."""
    yield use_table(report)
    yield wake_table(report)
    yield delay_table(report)
    yield saving_table(report)


def use_table(report: CesReport) -> Table:
    """A row a pool: how many nodes slept, and how well the others were used."""
    headings = ("POOL", "NODES", "RUNNING", "ASLEEP", "MOST ASLEEP", "ASLEEP NODE-H")
    rows = [_use_row(pool, report) for pool in report.pools]
    if len(rows) != 1:
        rows.append(_use_row(report.overall, report))
    return Table(
        "Nodes on average, and the share of them that ran jobs",
        (*headings, "USED OF ALL", "USED OF AWAKE", "EXCLUDED", "KNOWN"),
        rows,
    )


def _use_row(pool: PoolFigures, report: CesReport) -> Row:
    length_s = max(report.query.until - report.query.since, 1)
    return (
        ALL_POOLS if pool is report.overall else pool.pool,
        *(told(pool.mean[state], _mean) for state in ("total", "running", "asleep")),
        told(pool.most_asleep, str),
        _mean(pool.asleep_node_hours),
        told(pool.utilisation, tenths),
        told(pool.awake_utilisation, tenths),
        told(pool.mean["excluded"], _mean),
        percent(pool.known_s / length_s),
    )


def wake_table(report: CesReport) -> Table:
    """A row a cause: who has woken how many nodes, and how that ended."""
    headings = ("WOKEN BY", "WAKE-UPS", "A DAY", "NODES", "A DAY")
    return Table(
        "Wake-ups",
        (*headings, "CAME UP", "FAILED", "NOT KNOWN", "MEDIAN TIME", "P90 TIME"),
        [
            (
                CAUSE_WORDS[wakes.cause],
                f"{wakes.wake_ups:,}",
                told(report.a_day(wakes.wake_ups), _mean),
                f"{wakes.nodes:,}",
                told(report.a_day(wakes.nodes), _mean),
                str(wakes.outcomes.get("awake", 0)),
                str(wakes.outcomes.get("failed", 0)),
                str(wakes.nodes - sum(wakes.outcomes.get(o, 0) for o in ("awake", "failed"))),
                told(wakes.quantile(0.5), short_time),
                told(wakes.quantile(0.9), short_time),
            )
            for wakes in report.wakes
        ],
    )


def delay_table(report: CesReport) -> Table:
    """Jobs that waited for their nodes to wake."""
    delayed = report.delayed
    headings = ("JOBS DELAYED", "OF JOBS BEGUN", "SHARE", "MEDIAN", "P99", "LONGEST", "IN ALL")
    return Table(
        "Jobs that waited for their nodes to wake",
        (*headings, "GONE MEANWHILE"),
        [
            (
                f"{delayed.jobs:,}",
                told(delayed.jobs_started, lambda number: f"{number:,}"),
                told(delayed.share, _small_share),
                *(told(delayed.quantile(share), short_time) for share in (0.5, 0.99, 1.0)),
                short_time(int(delayed.delays_s.sum())),
                str(delayed.gone),
            )
        ],
        num_names=0,
    )


def saving_table(report: CesReport) -> Table:
    """What nodes that CES put to sleep have saved."""
    energy, assumptions = report.energy, report.assumptions

    def row(name: str, value: float, unit: str) -> Row:
        known = value if report.known.length_s else None
        words = [
            told(each, lambda v: f"{_amount(v)} {unit}") for each in (known, report.a_day(value))
        ]
        return name, words[0], words[1]

    return Table(
        "Saved by nodes that CES put to sleep, by what is assumed below",
        ("SAVED", "IN ALL", "A DAY"),
        [
            row("time asleep", energy.asleep_node_hours, "node-h"),
            row("energy", energy.kwh, "kWh"),
            row("money", energy.money, assumptions.currency),
            row("CO2", energy.co2_kg, "kg"),
        ],
    )


def day_table(report: CesReport) -> Table:
    """A row a day (UTC)."""
    days = report.days[-MOST_DAYS:]
    cut = "" if len(days) == len(report.days) else f", the last {MOST_DAYS}"
    return Table(
        f"By day (UTC){cut}",
        ("FROM", "KNOWN", "ASLEEP NODE-H", "KWH", "WAKE-UPS", "NODES WOKEN", "BY SLURM", "DELAYED"),
        [
            (
                datetime.fromtimestamp(day.begin, UTC).strftime("%Y-%m-%d %H:%M"),
                percent(day.known_share),
                told(day.asleep_node_hours, _mean),
                told(day.kwh, _mean),
                str(day.wake_ups),
                str(sum(day.nodes_woken.values())),
                str(day.nodes_woken[PowerCause.SLURM.value]),
                str(day.jobs_delayed),
            )
            for day in days
        ],
    )


def told(value: Figure | None, words: Callable[[Figure], str]) -> str:
    """A figure in words, UNKNOWN where there is none."""
    return UNKNOWN if value is None else words(value)


def tenths(share: float) -> str:
    """A share as a percentage with one digit behind the point."""
    return f"{100 * share:.1f} %"


def _small_share(share: float) -> str:
    return f"{100 * share:.2g} %" if 0 < share < 0.1 else f"{100 * share:.0f} %"


def _amount(value: float) -> str:
    """With one digit behind the point; small ones with two that say something."""
    return f"{value:,.1f}" if abs(value) >= 1 or not value else f"{value:.2g}"


def _mean(value: float) -> str:
    return f"{value:,.1f}"
