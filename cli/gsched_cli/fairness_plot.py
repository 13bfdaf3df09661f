"""The history of accounts as lines of text: GPUs held, and what of theirs they received."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from gsched_cli.output import cut, display_width, safe_text, speaks_unicode

if TYPE_CHECKING:
    from gsched.app.fairness.report import FairnessReport

_BLOCKS = " ▁▂▃▄▅▆▇█"
_SIGNS = " .:-=+*#@"
"""The same heights where the locale has no Unicode."""
_FAIR = "+"
_NAME_WIDTH = 20


def plot_lines(report: FairnessReport) -> Iterator[str]:
    """Two lines an account: heights of GPUs held, and r in tenths."""
    from gsched.app.fairness.cells import account
    from gsched.app.fairness.tables import shown_rows, step_words

    course = report.course
    if not report.tenants:
        return
    gpus, quotas = course.gpus, course.quota_gpus
    top = max(float(gpus.max(initial=0.0)), float(quotas.max(initial=0.0)), 1e-9)
    first, last = (
        datetime.fromtimestamp(float(edge), UTC).strftime("%Y-%m-%d %H:%M")
        for edge in (course.edges[0], course.edges[-1])
    )
    steps = step_words(course.step_s)
    yield f"{first} to {last} UTC, {steps}; GPUs held, full height {top:,.3g}; below it r in tenths"
    yield f"({_FAIR}: {report.loss_below:g} or more, blank: asked for nothing):"
    rows, length_s = shown_rows(report), course.edges[-1] - course.edges[0]
    names = {row: cut(safe_text(account(report.tenants[row].tenant)), _NAME_WIDTH) for row in rows}
    width = max(map(display_width, names.values()))
    for row, name in names.items():
        one = report.tenants[row]
        padding = " " * (width - display_width(name))
        means = (found[row].sum() / length_s for found in (course.received, course.due))
        mean = " of ".join(f"{gpus_held:,.3g}" for gpus_held in means)
        yield f"  {name}{padding}  |{bars(gpus[row].tolist(), top)}|  {mean}"
        yield f"  {'':{width}}  |{tenths(course.r(row), report.loss_below)}|  r {_r(one.r)}"


def bars(values: Sequence[float], top: float) -> str:
    """A sign a value, as high as its part of `top`; what is above 0 is seen."""
    signs = _BLOCKS if speaks_unicode() else _SIGNS
    most = len(signs) - 1
    return "".join(
        signs[max(1, min(most, round(most * value / top))) if value > 0 else 0] for value in values
    )


def tenths(values: Sequence[float | None], fair: float) -> str:
    """A digit a value, rounded down; blank for none."""
    return "".join(
        " " if value is None else _FAIR if value >= fair else str(min(9, int(10 * value)))
        for value in values
    )


def _r(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
