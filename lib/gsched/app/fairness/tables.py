"""The tables of `gsched fairness`: the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.fairness.cells import account, hours, ratio
from gsched.app.fairness.report import FairnessReport
from gsched.app.fairness.standing import JobStanding, TenantStanding
from gsched.app.sim.tables import Row, Table
from gsched.model.times import DAY_S

MOST_JOBS = 20
"""So many jobs, the least served ones, are shown; the JSON document has all."""
MOST_ACCOUNTS = 25
"""So many accounts, those with the largest debts on either side, are shown."""


def shown_rows(report: FairnessReport) -> list[int]:
    """The rows of the accounts that are shown, in the report's order."""
    by_debt = sorted(range(len(report.tenants)), key=lambda row: -abs(report.tenants[row].owed))
    return sorted(by_debt[:MOST_ACCOUNTS])


def _shown(report: FairnessReport) -> list[TenantStanding]:
    return [report.tenants[row] for row in shown_rows(report)]


def _cut(report: FairnessReport) -> str:
    """For a title, where not all accounts are shown."""
    number = len(report.tenants)
    return f", {MOST_ACCOUNTS} of {number:,} accounts" if number > MOST_ACCOUNTS else ""


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
        f"The metric: what of what was theirs have they received{_cut(report)}? (GPU-h)",
        ("ACCOUNT", "R", "RECEIVED", "ENTITLED", "ASKED FOR", "JOBS", "IN LOSS", unfair),
        [_metric_row(one) for one in _shown(report)],
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
        f"The rule: what are they owed{_cut(report)}? (GPU-h)",
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
            for one in _shown(report)
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


def step_words(step_s: int) -> str:
    """How steps of the course are called: ``hours``, ``steps of 6 h``, ``days``."""
    named = {3600: "hours", DAY_S: "days", 7 * DAY_S: "weeks"}
    if step_s in named:
        return named[step_s]
    return f"steps of {step_s // DAY_S} d" if step_s >= DAY_S else f"steps of {step_s // 3600} h"
