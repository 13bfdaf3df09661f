"""The figures of `gsched fairness --html`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from gsched.app.fairness.cells import account
from gsched.app.fairness.report import FairnessReport
from gsched.app.sim.figures import COLOURS, INK, STYLE, svg_element
from gsched.fairness.metric import LOSS_BELOW
from gsched.model.jobtable import FloatColumn

_SIZE_INCHES = (6.4, 3.5)
_MOST_LINES = len(COLOURS) - 1
"""So many accounts, those that are owed most or have had most of others, are drawn."""
_MOST_POINTS = 200
_TOP_R = 1.5


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure: its name, what it shows, how it is drawn, and when there is one."""

    name: str
    title: str
    draw: Callable[[Axes, FairnessReport], None]
    has_data: Callable[[FairnessReport], bool]

    def drawn(self, report: FairnessReport) -> Figure:
        """As a figure of matplotlib."""
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
            self.draw(figure.add_subplot(), report)
            return figure


def figures(report: FairnessReport) -> Iterator[tuple[str, str]]:
    """Each figure as an <svg> element, with its caption."""
    for plot in _ALL:
        if plot.has_data(report):
            yield svg_element(plot.drawn(report), f"fairness-{plot.name}"), plot.title


def _drawn_rows(report: FairnessReport) -> list[int]:
    """The rows of the accounts that are drawn."""
    order = sorted(range(len(report.tenants)), key=lambda row: -abs(report.tenants[row].owed))
    return sorted(order[:_MOST_LINES])


def _gpus(axes: Axes, report: FairnessReport) -> None:
    """GPUs held, and the quota of the same colour as a dotted line."""
    for row, colour in zip(_drawn_rows(report), COLOURS, strict=False):
        name = account(report.tenants[row].tenant)
        _steps(axes, report, report.course.gpus[row], colour, label=name)
        _steps(axes, report, report.course.quota_gpus[row], colour, linestyle=":", linewidth=1.0)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("GPUs")
    axes.figure.legend(loc="outside right upper", fontsize=8)


def _r(axes: Axes, report: FairnessReport) -> None:
    """r, cut above; gaps are steps in which an account asked for nothing."""
    for row, colour in zip(_drawn_rows(report), COLOURS, strict=False):
        r = [np.nan if value is None else min(value, _TOP_R) for value in report.course.r(row)]
        name = account(report.tenants[row].tenant)
        _steps(axes, report, np.array(r), colour, label=name)
    axes.axhline(LOSS_BELOW, color=INK, linewidth=0.8, linestyle="--")
    axes.set_ylim(0, _TOP_R * 1.03)
    axes.set_ylabel(f"r, at most {_TOP_R:g}")
    axes.figure.legend(loc="outside right upper", fontsize=8)


def _steps(
    axes: Axes, report: FairnessReport, values: FloatColumn, colour: str, **more: Any
) -> None:
    edges: NDArray[np.datetime64] = report.course.edges.astype("datetime64[s]")
    axes.step(edges, np.append(values, values[-1:]), where="post", color=colour, **more)
    axes.set_xlabel("UTC")


def _jobs(axes: Axes, report: FairnessReport) -> None:
    r_job = report.job_r
    size = len(r_job)
    place = np.unique(np.linspace(0, size - 1, min(size, _MOST_POINTS)).round().astype(np.int64))
    r, share = np.minimum(r_job[place], _TOP_R), (place + 1) / size
    axes.step(np.append(0, r), np.append(0, share), where="post", color=COLOURS[0])
    axes.axvline(LOSS_BELOW, color=INK, linewidth=0.8, linestyle="--")
    axes.set_xlim(0, _TOP_R)
    axes.set_ylim(0, 1.01)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel(f"r of the job, at most {_TOP_R:g}")
    axes.set_ylabel("jobs with no more")


_ALL = (
    Plot(
        "gpus",
        "GPUs held by accounts, by worth; dotted: their quotas",
        _gpus,
        lambda report: bool(report.course.received.any()),
    ),
    Plot(
        "r",
        f"r of accounts: received of what was theirs; dashed: {LOSS_BELOW:g}",
        _r,
        lambda report: bool(report.course.entitled.any()),
    ),
    Plot(
        "jobs",
        f"Jobs by their r; left of the dashed line ({LOSS_BELOW:g}) they are in loss",
        _jobs,
        lambda report: len(report.job_r) > 0,
    ),
)
