"""The tables of a report of simulations: the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gsched.app.sim.report import PolicyRuns, SimReport
from gsched.explain.words import percent, short_time
from gsched.policy.order_form import Misfit
from gsched.resampling import CONFIDENCE
from gsched.sim.intervals import Difference, Estimate
from gsched.sim.metrics import ClassMetrics, Metrics
from gsched.sim.rules import Scheduler

UNKNOWN = "-"
MOST_TENANTS = 20
"""So many tenants, those with the most GPU-hours, are shown; the JSON document has all."""

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; the first `num_names` columns are names, the others figures."""

    title: str
    headings: Row
    rows: Sequence[Row]
    num_names: int = 1


_ESTIMATES: Mapping[str, str] = {
    "jct_mean_s": "mean JCT",
    "jct_median_s": "median JCT",
    "jct_p99_s": "p99 JCT",
    "queueing_mean_s": "mean queueing",
    "queueing_median_s": "median queueing",
    "queueing_p99_s": "p99 queueing",
    "waiting_mean_s": "mean waiting, all of it",
    "bounded_slowdown_mean": "mean bounded slowdown",
    "bounded_slowdown_median": "median bounded slowdown",
    "bounded_slowdown_p99": "p99 bounded slowdown",
    "makespan_s": "makespan",
    "utilisation_share": "GPU utilisation",
    "fragmented_share": "fragmented GPUs",
    "unfair_share": "finish-time unfair jobs",
    "sharing_loss_share": "jobs with a sharing loss",
    "deadline_miss_share": "deadlines missed",
    "preemptions": "preemptions",
    "lost_gpu_hours": "lost GPU-hours",
    "energy_kwh": "energy, kWh",
}
"""Names of `intervals.METRICS`, in the order of the table."""


def comparison(report: SimReport) -> Table:
    """A row a policy: mean JCT and its change against the baseline, and a few more.

    With the policy's discipline: whether jobs may pass a job that does not fit often matters more
    than their order.
    """
    interval = f"{percent(CONFIDENCE)} INTERVAL"
    headings = ("POLICY", "DISCIPLINE", "ENDED", "MEAN JCT", "CHANGE", interval, "MEDIAN JCT")
    more = ("P99 JCT", "MEAN QUEUEING", "P99 QUEUEING", "SLOWDOWN", "UTIL")
    return Table(
        f"Compared with {report.baseline.label} ({report.simulated})",
        (*headings, *more),
        [_compared(report, policy) for policy in report.policies],
        num_names=2,
    )


def figures(report: SimReport) -> Table:
    """A row a figure, a column a policy."""
    rows = [
        ("jobs ended", *(_of(policy, _ended) for policy in report.policies)),
        *(
            (
                name,
                *(value_text(metric, policy.estimates[metric].value) for policy in report.policies),
            )
            for metric, name in _ESTIMATES.items()
        ),
        *(
            (name, *(_of(policy, text) for policy in report.policies))
            for name, text in _ONCE.items()
        ),
    ]
    title = f"All figures ({report.simulated})"
    return Table(title, ("FIGURE", *_labels(report)), rows)


def difference_table(report: SimReport) -> Table:
    """A row a policy and figure: its difference from the baseline, with the interval."""
    rows = [
        (
            name,
            label,
            signed(metric, found[metric].value),
            _change(found[metric]),
            interval_text(metric, found[metric]),
        )
        for metric, name in _ESTIMATES.items()
        for label, found in report.differences.items()
        if found[metric].value is not None
    ]
    headings = ("FIGURE", "POLICY", "DIFFERENCE", "CHANGE", f"{percent(CONFIDENCE)} INTERVAL")
    return Table(f"Differences from {report.baseline.label}", headings, rows, num_names=2)


def class_tables(report: SimReport) -> Iterator[Table]:
    """By GPU-size class, duration class, tenant and pool, of the first run of each policy."""
    first = [(policy.label, policy.runs[0]) for policy in report.policies]
    yield _class_table("By GPUs of a job", [(label, run.by_size) for label, run in first])
    yield _class_table("By run time", [(label, run.by_duration) for label, run in first])
    tenants = [(label, run.by_tenant) for label, run in first]
    if any(len(found) > 1 for _, found in tenants):
        yield _class_table("By tenant", _largest(tenants))
    if len(report.cluster.pools) > 1:
        yield _class_table("By pool", [(label, run.by_pool) for label, run in first])


def value_text(metric: str, value: float | None) -> str:
    """A figure of `intervals.METRICS` as people read it."""
    if value is None:
        return UNKNOWN
    if metric.endswith("_s"):
        return short_time(value)
    if metric.endswith("_share"):
        return percent(value)
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.2f}"


def signed(metric: str, value: float | None) -> str:
    """A difference of a figure; shares differ by points of a percentage."""
    if value is None:
        return UNKNOWN
    is_share = metric.endswith("_share")
    text = f"{100 * abs(value):.1f} points" if is_share else value_text(metric, abs(value))
    if not any(digit in text for digit in "123456789"):
        return text
    return ("−" if value < 0 else "+") + text


def interval_text(metric: str, told: Estimate) -> str:
    """From where to where a difference lies."""
    if told.low is None or told.high is None:
        return UNKNOWN
    if told.low == told.high == 0:
        return "the same"
    low, high = signed(metric, told.low), signed(metric, told.high)
    return f"{low} … {high}" if low != high else f"about {low}"


def _labels(report: SimReport) -> Row:
    return tuple(policy.label.upper() for policy in report.policies)


def _compared(report: SimReport, policy: PolicyRuns) -> Row:
    found = policy.estimates
    less = report.differences.get(policy.label, {}).get("jct_mean_s", Difference(None))
    return (
        policy.label,
        _discipline(report, policy),
        _of(policy, _ended_or_all),
        value_text("jct_mean_s", found["jct_mean_s"].value),
        _change(less),
        interval_text("jct_mean_s", less),
        *(
            value_text(metric, found[metric].value)
            for metric in (
                "jct_median_s",
                "jct_p99_s",
                "queueing_mean_s",
                "queueing_p99_s",
                "bounded_slowdown_mean",
                "utilisation_share",
            )
        ),
    )


def _discipline(report: SimReport, policy: PolicyRuns) -> str:
    if report.rules.scheduler is Scheduler.SLURM:
        return Misfit.BACKFILL.value
    if policy.discipline is None:
        return "rounds"
    misfit = policy.discipline.misfit.value
    return f"preempt, {misfit}" if policy.discipline.preempts else misfit


def _change(less: Difference) -> str:
    if less.value is None or not less.baseline:
        return UNKNOWN
    change = f"{100 * less.value / less.baseline:+.1f} %"
    return "0.0 %" if change[1:] == "0.0 %" else change.replace("-", "−")


def _of(policy: PolicyRuns, text: Callable[[Metrics], str]) -> str:
    """A figure of each run; one where they do not differ."""
    return " / ".join(dict.fromkeys(text(run) for run in policy.runs))


def _ended(run: Metrics) -> str:
    return f"{run.all_jobs.finished:,} of {run.all_jobs.jobs:,}"


def _ended_or_all(run: Metrics) -> str:
    return "all" if run.all_jobs.finished == run.all_jobs.jobs else _ended(run)


def _ratio(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.2f}"


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else f"{value:,}"


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else percent(value)


_ONCE: Mapping[str, Callable[[Metrics], str]] = {
    "p90 JCT": lambda m: value_text("_s", m.all_jobs.jct_s.p90),
    "p99.9 JCT": lambda m: value_text("_s", m.all_jobs.jct_s.p99_9),
    "p90 queueing": lambda m: value_text("_s", m.all_jobs.queueing_s.p90),
    "p99.9 queueing": lambda m: value_text("_s", m.all_jobs.queueing_s.p99_9),
    "p99.9 bounded slowdown": lambda m: _ratio(m.all_jobs.bounded_slowdown.p99_9),
    "median finish-time ratio": lambda m: _ratio(m.all_jobs.finish_time_ratio.median),
    "p99 finish-time ratio": lambda m: _ratio(m.all_jobs.finish_time_ratio.p99),
    "unfair tenant-hours": lambda m: _percent(m.unfair_intervals["tenant_hours"]),
    "unfair tenant-days": lambda m: _percent(m.unfair_intervals["tenant_days"]),
    "GPU utilisation to the last end": lambda m: _percent(m.whole.utilisation),
    "fragmented, of the free GPUs": lambda m: _percent(m.submitting.fragmented_share_of_free),
    "free though wanted, at most": lambda m: _percent(m.submitting.free_while_wanted_share),
    "GPUs wanted by waiting jobs": lambda m: value_text("", m.submitting.gpus_wanted),
    "deadlines": lambda m: f"{m.deadlines.jobs:,}",
    "deadlines promised": lambda m: _number(m.deadlines.admitted),
    "deadlines promised and missed": lambda m: _number(m.deadlines.admitted_missed),
    "deadlines refused": lambda m: _number(m.deadlines.refused),
    "deadlines refused and missed": lambda m: _number(m.deadlines.refused_missed),
    "deadlines missed, by weight": lambda m: _percent(m.deadlines.weighted_miss_rate),
    "preempted jobs": lambda m: f"{m.all_jobs.preempted_jobs:,}",
    "times that a failure hit a job": lambda m: f"{m.all_jobs.failures:,}",
    "nodes asleep": lambda m: value_text("", m.submitting.nodes_asleep),
    "wake-ups of nodes": lambda m: f"{m.wakes:,}",
    "GPU-hours held": lambda m: f"{m.all_jobs.gpu_hours:,.0f}",
}
"""Figures without an interval."""


def _class_table(title: str, found: Sequence[tuple[str, Sequence[ClassMetrics]]]) -> Table:
    headings = ("CLASS", "POLICY", "JOBS", "GPU-HOURS", "MEAN JCT", "MEDIAN JCT", "P99 JCT")
    more = ("MEAN QUEUEING", "P99 QUEUEING", "SLOWDOWN", "UNFAIR", "LOSS")
    names = dict.fromkeys(told.name for _, classes in found for told in classes)
    by_name = [(label, {told.name: told for told in classes}) for label, classes in found]
    rows = [
        _class_row(label, classes[name])
        for name in names
        for label, classes in by_name
        if name in classes
    ]
    return Table(title, (*headings, *more), rows, num_names=2)


def _class_row(label: str, told: ClassMetrics) -> Row:
    return (
        told.name,
        label,
        f"{told.jobs:,}",
        f"{told.gpu_hours:,.0f}",
        *(
            value_text("_s", value)
            for value in (told.jct_s.mean, told.jct_s.median, told.jct_s.p99)
        ),
        *(value_text("_s", value) for value in (told.queueing_s.mean, told.queueing_s.p99)),
        _ratio(told.bounded_slowdown.mean),
        _percent(told.unfair_share),
        _percent(told.sharing_loss_share),
    )


def _largest(
    found: Sequence[tuple[str, Sequence[ClassMetrics]]],
) -> list[tuple[str, Sequence[ClassMetrics]]]:
    """The tenants with the most GPU-hours under the first policy."""
    most = sorted(found[0][1], key=lambda told: (-told.gpu_hours, told.name))[:MOST_TENANTS]
    names = {told.name: place for place, told in enumerate(most)}
    return [
        (label, sorted((t for t in told if t.name in names), key=lambda t: names[t.name]))
        for label, told in found
    ]
