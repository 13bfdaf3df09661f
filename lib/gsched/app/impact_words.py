"""The report of what gsched changed, in words: a table of figures, and sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gsched.app.impact import ImpactReport, a_day
from gsched.app.impact_arms import Arm
from gsched.app.impact_statistics import Difference
from gsched.explain.words import count, moment, percent, short_time
from gsched.resampling import CONFIDENCE, MIN_DAYS, RESAMPLES

Row = tuple[str, ...]
"""A figure: its name, and the columns of HEADINGS."""

HEADINGS = ("FIGURE", "ACTING", "CONTROL", "DIFFERENCE", f"{percent(CONFIDENCE)} INTERVAL")

_LEFT_OUT = {
    "outside": "submitted while gsched neither acted nor observed",
    "other-partition": "in partitions that are not compared",
    "held": "held, or waiting for another job",
    "waiting": "not started yet",
    "never-started": "ended without a start",
    "no-times": "times not known",
}
_WHY_NOTHING = {
    "never-acted": "Nothing can be said of an effect: gsched has not acted in this time",
    "no-control": "Nothing can be said of an effect: there is no control in this time",
    "too-few-days": "Nothing can be said of an effect: too few days",
    "unknown": "Nothing can be said of an effect yet",
}
_MODES = {
    "act": "acted",
    "observe": "observed",
    "control": "observed as a control",
    "frozen": "was frozen",
    "halted": "was halted",
    "off": "was switched off",
    "standby": "stood by",
}
_SIGN = {True: "−", False: "+"}


def figure_rows(report: ImpactReport) -> list[Row]:
    """The table of figures."""
    arms = report.assigned.arms
    told = [report.document()["arms"][place] for place in (0, 1)]
    rows = [
        _counted("days with jobs", told, "days"),
        _counted("jobs that count", told, "jobs"),
        _counted("of them with GPUs", told, "gpu_jobs"),
        _counted("of them ended", told, "ended_jobs"),
        ("their GPU-hours", *(_hours(arm["gpu_time_s"]) for arm in told), "", ""),
        _counted("waited on beyond the arm's time", told, "crossing_jobs"),
        (
            "their mean time in the queue",
            *(_time(arm["crossing_queueing_mean_s"]) for arm in told),
            "",
            "",
        ),
        _counted("still waiting, not counted", told, "waiting_jobs"),
        ("on average so far", *(_time(arm["waiting_mean_s"]) for arm in told), "", ""),
        *(_compared(name, metric, report) for metric, name in _names(report).items()),
        ("submitted a day", *(_rate(len(arm.submitted), arm) for arm in arms), "", ""),
    ]
    demand = [_hours(arm["submitted_gpu_time_s_a_day"]) for arm in told]
    return [*rows, ("GPU-hours submitted a day, of ended jobs", *demand, "", "")]


def report_lines(report: ImpactReport) -> Iterator[str]:
    """What the figures mean, who was left out, and what was done."""
    yield f"{_verdict(report)}."
    yield from _cautions(report)
    left = [
        f"{number} {_LEFT_OUT[why]}" for why, number in report.assigned.left_out.items() if number
    ]
    yield f"Not counted in either arm: {'; '.join(left) or 'no job'}."
    document = report.document()
    yield from _work(document)
    yield from _movers("Moved", document["moved"])
    yield from _movers("Observing, gsched would have moved", document["would_move"])
    yield _inversions(document["inversions"])
    starving = count(document["starving_jobs"], "job")
    yield f"Starvation bound: {starving} lifted above all others, or would have been."
    asking = count(document["jobs_with_requests"], "job")
    yield f"Users' requests: {document['requests']}, of {asking}."


def _names(report: ImpactReport) -> dict[str, str]:
    long_wait = short_time(report.query.long_wait_s)
    return {
        "queueing_mean_s": "mean time in the queue",
        "queueing_median_s": "median",
        "queueing_p90_s": "90th percentile",
        "queueing_p99_s": "99th percentile",
        "gpu_queueing_mean_s": "mean of jobs with GPUs",
        "long_wait_share": f"waited for more than {long_wait}",
        "jct_mean_s": "mean JCT",
        "bounded_slowdown_mean": "mean bounded slowdown",
    }


def _counted(name: str, arms: list[dict[str, Any]], key: str) -> Row:
    return (name, str(arms[0][key]), str(arms[1][key]), "", "")


def _hours(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds / 3600:.1f}"


def _time(seconds: float | None) -> str:
    return "-" if seconds is None else short_time(seconds)


def _rate(number: int, arm: Arm) -> str:
    rate = a_day(number, arm)
    return "-" if rate is None else f"{rate:.1f}"


def _compared(name: str, metric: str, report: ImpactReport) -> Row:
    told = report.differences[metric]
    return (
        name,
        _value(metric, told.acting),
        _value(metric, told.control),
        signed(metric, told.value),
        _interval(metric, told),
    )


def _interval(metric: str, told: Difference) -> str:
    if told.low is None or told.high is None:
        return "unknown"
    return f"{signed(metric, told.low)} … {signed(metric, told.high)}"


def _value(metric: str, value: float | None) -> str:
    if value is None:
        return "unknown"
    if metric.endswith("_s"):
        return short_time(value)
    return percent(value) if metric.endswith("_share") else f"{value:.2f}"


def signed(metric: str, value: float | None) -> str:
    """A difference of a metric: time, points of a percentage, or a plain number."""
    if value is None:
        return "unknown"
    is_share = metric.endswith("_share")
    text = f"{100 * abs(value):.1f} points" if is_share else _value(metric, abs(value))
    is_zero = not any(digit in text for digit in "123456789")
    return text if is_zero else _SIGN[value < 0] + text


def _verdict(report: ImpactReport) -> str:
    verdict, (acting, control) = report.verdict, report.days
    told = report.differences["queueing_mean_s"]
    if verdict == "too-few-days":
        days = f"{count(acting, 'day')} acting, {count(control, 'day')} of control"
        return f"{_WHY_NOTHING[verdict]} ({days}; {MIN_DAYS} of each are needed)"
    if verdict == "unknown":
        is_shorter = (told.value or 0.0) < 0
        worst = report.bounds.acting_worst if is_shorter else report.bounds.control_worst
        return (
            f"{_WHY_NOTHING[verdict]}: jobs that still wait or did not start could turn "
            f"{_interval('queueing_mean_s', told)} into {_interval('queueing_mean_s', worst)}; ask "
            "again when they have started, or with an earlier --until"
        )
    if verdict in _WHY_NOTHING:
        return _WHY_NOTHING[verdict]
    interval = _interval("queueing_mean_s", told)
    if verdict == "not-shown":
        return f"No difference of the mean time in the queue is shown: {interval} holds 0"
    by = short_time(abs(told.value or 0.0))
    of = "" if report.control == "time" else " than in the control partitions"
    return f"While gsched acted, jobs waited on average {by} {verdict}{of} ({interval})"


def _cautions(report: ImpactReport) -> Iterator[str]:
    if report.control == "partitions":
        yield (
            "Partitions differ in more than gsched (nodes, users, limits): the difference is not "
            "the effect of gsched alone. --control time compares times."
        )
    else:
        yield (
            "A job counts in the arm of its first submit with its whole time in the queue, also "
            "beyond that arm's end, where the other arm moves it as well: this makes differences "
            "look smaller."
        )
        yield (
            "The arms are compared as they came: their load (submitted a day) is not evened out, "
            "nor what one arm left in the queue for the other."
        )
        modes = {span.mode for span in report.spans}
        if "act" in modes and "observe" in modes:
            yield (
                "What gsched wrote before it only observed stood on, unless `gsched daemon clear` "
                "took it back; control_interval_s does so at each turn."
            )
    yield (
        f"Intervals: {RESAMPLES} resamples over days of first submit, which are taken to be "
        "independent of each other; of figures at 95 % each one in twenty errs. Time in the queue "
        "counts from the first submit, dependencies and begin times included."
    )


def _work(document: Mapping[str, Any]) -> Iterator[str]:
    since, until = document["since"], document["until"]
    begins = f" since {moment(since)}" if since is not None else ""
    ends = f" until {moment(until)}" if until is not None else ""
    modes = [
        f"{_MODES.get(mode, mode)} for {short_time(told['length_s'])}, {told['rounds']} rounds"
        for mode, told in document["modes"].items()
    ]
    yield f"On {document['cluster']}{begins}{ends} gsched {'; '.join(modes) or 'ran no round'}."
    states = ", ".join(f"{number} {state}" for state, number in sorted(document["changes"].items()))
    yield f"Changes: {states or 'none'}; {document['taken_back']} took gsched's own value back."


def _movers(what: str, moved: Mapping[str, Any]) -> Iterator[str]:
    if not moved["up"] and not moved["down"]:
        return
    yield f"{what} {count(moved['up'], 'job')} up and {moved['down']} down."
    for key in ("users", "accounts"):
        most = ", ".join(
            f"{one['name']} {one['up']} up {one['down']} down ({one['mean_points']:+.0f} points)"
            for one in moved[key]
        )
        yield f"  {key}: {most}"


def _inversions(told: Mapping[str, Any]) -> str:
    if not told["counts"]:
        return "Inversions: none counted."
    last, share = told["last"], told["greatest_share"]
    most = "" if share is None else f", at most {percent(share)} of them against one of the two"
    return (
        f"Inversions in the last of {count(told['counts'], 'count')}: against QOS "
        f"{last.get('qos', 0)}, against fair-share {last.get('fairshare', 0)} of "
        f"{count(last.get('pairs', 0), 'pair')} of waiting jobs{most}."
    )
