"""The report's figures: SVG for its page, PNG and SVG as files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from gsched.app.ces_report.pool_time import Floats, Ints
from gsched.app.ces_report.report import CesReport
from gsched.app.ces_report.tables import CAUSE_WORDS
from gsched.app.sim.figures import COLOURS, STYLE, figure_bytes, svg_element
from gsched.files import write_atomically

_SIZE_INCHES = (6.4, 3.5)
_MODE = 0o644
_SUFFIXES = ("png", "svg")
_MOST_POINTS = 200
_PATH = re.compile(r' d="[^"]*"')
_DIGITS = re.compile(r"(\.\d\d)\d+")
"""What a path has beyond hundredths of a point, which nobody sees."""


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure: the name of its files, what it shows, how it is drawn, and when there is one."""

    name: str
    title: str
    draw: Callable[[Axes, CesReport], None]
    has_data: Callable[[CesReport], bool]

    def drawn(self, report: CesReport) -> Figure:
        """As a figure of matplotlib."""
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
            self.draw(figure.add_subplot(), report)
            return figure


def figures(report: CesReport) -> Iterator[tuple[str, str]]:
    """Each figure as an <svg> element, with its caption."""
    for plot in _plots(report):
        svg = svg_element(plot.drawn(report), f"ces-{plot.name}")
        yield _PATH.sub(lambda path: _DIGITS.sub(r"\1", path[0]), svg), plot.title


def write_figures(folder: Path, report: CesReport) -> list[Path]:
    """Write each figure as PNG and SVG into `folder`, which is made; returns the paths."""
    written = []
    for plot in _plots(report):
        figure = plot.drawn(report)
        with mpl.rc_context(STYLE):
            figure.suptitle(plot.title, fontsize=10)
        for suffix in _SUFFIXES:
            path = folder / f"{plot.name}.{suffix}"
            write_atomically(path, figure_bytes(figure, suffix, transparent=False), _MODE)
            written.append(path)
    return written


def _plots(report: CesReport) -> Iterator[Plot]:
    return (plot for plot in _ALL if plot.has_data(report))


def _nodes(axes: Axes, report: CesReport) -> None:
    """What is between the two upper lines sleeps; gaps are times of which nothing is known."""
    course = report.course
    edges = np.append(course.time, course.time[-1] + course.step_s)
    asleep = _changes(course.awake, course.total)
    axes.fill_between(
        _dates(edges[asleep]), _at(course.awake, asleep), _at(course.total, asleep),
        step="post", color=COLOURS[0], alpha=0.25, linewidth=0,
    )  # fmt: skip
    for column, colour, label in (
        (course.total, COLOURS[6], "all"),
        (course.awake, COLOURS[0], "not asleep"),
        (course.running, COLOURS[1], "with jobs"),
    ):
        kept = _changes(column)
        axes.step(_dates(edges[kept]), _at(column, kept), where="post", color=colour, label=label)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("nodes")
    axes.set_xlabel("UTC")
    axes.figure.legend(loc="outside right upper", fontsize=8)


def _changes(*columns: Floats) -> Ints:
    """The steps at which any column has another value than before, and the end of all steps."""
    before = [np.append(np.inf, column[:-1]) for column in columns]
    same = [
        (column == one) | (np.isnan(column) & np.isnan(one))
        for column, one in zip(columns, before, strict=True)
    ]
    return np.append(np.flatnonzero(~np.logical_and.reduce(same)), len(columns[0]))


def _at(column: Floats, places: Ints) -> Floats:
    """Values of steps; at the end of all that of the last one."""
    return column[np.minimum(places, len(column) - 1)]


def _woken(axes: Axes, report: CesReport) -> None:
    below = np.zeros(len(report.days))
    for cause, colour in zip(CAUSE_WORDS, COLOURS, strict=False):
        top = below + np.array([day.nodes_woken[cause.value] for day in report.days])
        if (top > below).any():
            _by_day(axes, report, top, below, colour, CAUSE_WORDS[cause])
        below = top
    axes.set_ylabel("nodes")
    axes.figure.legend(loc="outside right upper", fontsize=8)


def _saved(axes: Axes, report: CesReport) -> None:
    kwh = np.array([np.nan if day.kwh is None else day.kwh for day in report.days])
    _by_day(axes, report, kwh, np.zeros(len(kwh)), COLOURS[2])
    axes.set_ylabel("kWh")


def _by_day(
    axes: Axes, report: CesReport, top: Floats, below: Floats, colour: str, label: str = ""
) -> None:
    """A bar a day, all of them one shape: a year of them stays small."""
    begins = [day.begin for day in report.days]
    edges: Any = _dates(np.array([*begins, report.query.until], dtype=np.int64))
    axes.stairs(top, edges, baseline=below, fill=True, color=colour, label=label)
    axes.set_xlabel("UTC")


def _delays(axes: Axes, report: CesReport) -> None:
    delays_s = np.sort(report.delayed.delays_s)
    count = len(delays_s)
    place = np.unique(np.linspace(0, count - 1, min(count, _MOST_POINTS)).round().astype(np.int64))
    share = np.append(0, (place + 1) / count)
    axes.step(np.append(0, delays_s[place]), share, where="post", color=COLOURS[3])
    axes.set_xlim(left=0)
    axes.set_ylim(0, 1.01)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlabel("seconds until all nodes were awake")
    axes.set_ylabel("delayed jobs")


def _dates(epoch_s: Ints) -> NDArray[np.datetime64]:
    return epoch_s.astype("datetime64[s]")


_ALL = (
    Plot(
        "nodes",
        "Nodes over time; between all and not asleep: asleep",
        _nodes,
        lambda report: bool((~np.isnan(report.course.total)).any()),
    ),
    Plot(
        "woken",
        "Nodes woken, by day",
        _woken,
        lambda report: any(wakes.nodes for wakes in report.wakes),
    ),
    Plot(
        "delays",
        "Delay of jobs that waited for their nodes to wake",
        _delays,
        lambda report: len(report.delayed.delays_s) > 0,
    ),
    Plot(
        "saved",
        "Energy saved by day, by what is assumed",
        _saved,
        lambda report: any(day.kwh for day in report.days),
    ),
)
