"""The tables of `gsched fairness`: the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.fairness.report import FairnessReport
from gsched.app.fairness.standing import JobStanding, TenantStanding
from gsched.app.sim.tables import UNKNOWN, Row, Table
from gsched.model.times import DAY_S

MOST_JOBS = 20
"""So many jobs, the least served ones, are shown; the JSON document has all."""
NO_ACCOUNT = "(none)"


def tables(report: FairnessReport) -> Iterator[Table]:
    """All tables that have something to show."""
    yield metric_table(report)
    yield rule_table(report)
    if report.jobs:
        yield job_table(report)


def metric_table(report: FairnessReport) -> Table:
    """The account that judges."""
    unfair = f"UNFAIR {step_words(report.course.step_s).upper()}"
    return Table(
        "The metric: what of what was theirs have they received? (GPU-h)",
        ("ACCOUNT", "R", "RECEIVED", "ENTITLED", "ASKED FOR", "JOBS", "IN LOSS", unfair),
        [_metric_row(one) for one in report.tenants],
    )


def _metric_row(one: TenantStanding) -> Row:
    return (
        account(one.tenant),
        ratio(one.r),
        hours(one.received),
        hours(one.entitled),
        hours(one.demanded),
        f"{one.jobs:,}",
        f"{one.loss_jobs:,}",
        f"{one.unfair_steps} of {one.steps}",
    )


def rule_table(report: FairnessReport) -> Table:
    """The account that decides who comes next."""
    headings = ("ACCOUNT", "QUOTA GPUS", "OWED", "DUE", "RECEIVED", "BORROWED", "LENT")
    return Table(
        "The rule: what are they owed? (GPU-h)",
        headings,
        [
            (
                account(one.tenant),
                f"{one.quota_gpus:,.4g}",
                hours(one.owed),
                hours(one.due),
                hours(one.received),
                hours(one.borrowed),
                hours(one.lent),
            )
            for one in report.tenants
        ],
    )


def job_table(report: FairnessReport) -> Table:
    """Jobs that were asked for, the least served first."""
    shown = report.jobs[:MOST_JOBS]
    cut = "" if len(shown) == len(report.jobs) else f", {len(shown)} of {len(report.jobs):,}"
    return Table(
        f"Jobs, the least served first{cut} (GPU-h)",
        ("JOB", "USER", "ACCOUNT", "R", "RECEIVED", "ENTITLED", "IN LOSS"),
        [_job_row(one) for one in shown],
        num_names=3,
    )


def _job_row(one: JobStanding) -> Row:
    return (
        one.job,
        one.user,
        account(one.tenant),
        ratio(one.r),
        hours(one.received),
        hours(one.entitled),
        "yes" if one.is_loss else "no",
    )


def account(name: str) -> str:
    """An account's name; jobs without any are told apart."""
    return name or NO_ACCOUNT


def ratio(r: float | None) -> str:
    """r with two digits, UNKNOWN where nothing was asked for."""
    return UNKNOWN if r is None else f"{r:.2f}"


def hours(number: float) -> str:
    """GPU-hours: one digit behind the point, small ones with two that say something."""
    if abs(number) >= 0.95 or abs(number) < 0.005:
        return f"{round(number, 1) + 0.0:,.1f}"  # never -0.0
    return f"{number:.2g}"


def step_words(step_s: int) -> str:
    """How steps of the course are called: ``hours``, ``steps of 6 h``, ``days``."""
    named = {3600: "hours", DAY_S: "days", 7 * DAY_S: "weeks"}
    if step_s in named:
        return named[step_s]
    return f"steps of {step_s // DAY_S} d" if step_s >= DAY_S else f"steps of {step_s // 3600} h"
