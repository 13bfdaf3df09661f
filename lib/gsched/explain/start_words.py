"""When a waiting job is expected to start, in words, from what the daemon's forecast says of it.

Times are epoch seconds; `at` is the present one, which clock times are told from.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gsched.explain.words import percent, short_time

AT_HAND_S = 60
"""What is no further away is "now": a forecast is no more exact."""
OLD_S = 300
"""Of a forecast that is older it is said from when it is: the daemon makes one a minute or so."""

OVERDUE = "overdue"
"""What is said of a moment whose whole interval is over by more than AT_HAND_S."""

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEK_DAYS = 6
"""So many days ahead a weekday is unmistakable."""
_COVERAGE = 0.8

_NO_START = {
    "held": "it is held",
    "dependency": "nobody knows when the jobs that it depends on will have ended",
    "never": "it can never start as it asks",
    "unknown-nodes": "which nodes it can run on is not known",
    "reservation": "it runs in a reservation, which the forecast does not look into",
    "array-limit": "its array runs as many tasks at once as it may",
    "limits": "a limit of its QOS, account or user keeps it back, which the forecast does not know",
    "shards": "it shares GPUs (shards), which the forecast does not know",
    "het-job": "its components start together, which the forecast does not know",
    "beyond-horizon": "it lies beyond what the forecast looks ahead",
    "pending": "the first forecast is still being made",
    "unavailable": "the forecast fails, the daemon's log says why",
    "off": "forecasts are switched off",
}
_LEFT_OUT = {
    "licences": "licences",
    "constraint": "its --constraint",
    "memory": "its memory",
    "reservation": "what a reservation to come does to later starts",
}


def clock(epoch: float, at: float) -> str:
    """Local time: ``14:05`` today, ``Wed 09:00`` within six days, else ``2026-12-02 09:00``."""
    then, today = datetime.fromtimestamp(epoch), datetime.fromtimestamp(at)
    time = f"{then:%H:%M}"
    days = (then.date() - today.date()).days
    if days == 0:
        return time
    if 0 < days <= _WEEK_DAYS:
        return f"{_WEEKDAYS[then.weekday()]} {time}"
    return f"{then:%Y-%m-%d} {time}"


def soon(epoch: float, at: float) -> str:
    """`clock` of what is still to come, ``now`` for what is at hand or was to be before."""
    return "now" if epoch <= at + AT_HAND_S else clock(epoch, at)


def is_overdue(span: Mapping[str, Any], at: float) -> bool:
    """Whether what was to happen in an interval should have happened by now."""
    return bool(span["high"] + AT_HAND_S < at)


def span_words(span: Mapping[str, Any], at: float) -> str:
    """A moment to come with its interval: ``14:05 (80 %: 13:55–14:40)``; once the interval is over,
    ``overdue (80 %: before 14:40)``.

    `span` has ``median``, ``low``, ``high`` and perhaps ``coverage`` (else 0.8).
    """
    share = percent(float(span.get("coverage", _COVERAGE)))
    if is_overdue(span, at):
        return f"{OVERDUE} ({share}: before {clock(span['high'], at)})"
    interval = f"{soon(span['low'], at)}–{soon(span['high'], at)}"
    return f"{soon(span['median'], at)} ({share}: {interval})"


def end_words(span: Mapping[str, Any], at: float) -> str:
    """When a running job should end: ``should end 14:05 (80 %: 13:55–14:40)``."""
    if is_overdue(span, at):
        return f"should have ended before {clock(span['high'], at)}"
    return f"should end {span_words(span, at)}"


def start_words(start: Mapping[str, Any], at: float) -> str:
    """An expected start (``start`` of a job's document), what it does not consider, and when it was
    said if it is old or overdue.
    """
    text = span_words(start, at)
    if left_out := start.get("left_out"):
        text += f", without regard to {' and '.join(_LEFT_OUT.get(x, x) for x in left_out)}"
    is_old = at - start["as_of"] > OLD_S or is_overdue(start, at)
    return f"{text}, as of {clock(start['as_of'], at)}" if is_old else text


def no_start_words(code: str) -> str:
    """Why there is no expected start (``no_start``); an unknown code is shown as it is."""
    return _NO_START.get(code, code)


def change_words(change: Mapping[str, Any], advice: Mapping[str, Any] | None, at: float) -> str:
    """A change that was tried and when the job would start with it: ``--gres=gpu:2 → now``.

    Of a shorter limit also how likely the run ends within it, where `advice` (``limit_advice``) is
    about that limit.
    """
    text = f"{change['option']} → {_median_words(change['start'], at)}"
    if advice is not None and is_about(advice, change):
        return f"{text} ({enough_words(advice)})"
    return text


def _median_words(span: Mapping[str, Any], at: float) -> str:
    return OVERDUE if is_overdue(span, at) else soon(span["median"], at)


def is_about(advice: Mapping[str, Any], change: Mapping[str, Any]) -> bool:
    """Whether an advice about the limit is about this change."""
    return bool(
        change["kind"] == "time-limit" and change["value"] == f"{advice['time_limit_s']:.0f}"
    )


def enough_words(advice: Mapping[str, Any]) -> str:
    """How likely a run ends within the limit that is advised."""
    return f"long enough with probability {float(advice['probability']):.2f}"


def limit_words(change: Mapping[str, Any], advice: Mapping[str, Any], at: float) -> str:
    """The advice to take a shorter limit, for somebody who has just submitted the job."""
    start = f"expected start {_median_words(change['start'], at)}"
    helps = f"{change['option']} would help: {start} ({enough_words(advice)})"
    return f"your limit is {short_time(advice['asked_s'])}; {helps}"
