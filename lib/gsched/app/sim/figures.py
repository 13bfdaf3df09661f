"""Figures of a report of simulations, by matplotlib: files as PNG and SVG, and SVG for the page."""

from __future__ import annotations

import io
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter
from numpy.typing import NDArray

from gsched.app.sim.report import PolicyRuns, SimReport
from gsched.files import write_atomically
from gsched.sim.curves import SHARES
from gsched.sim.jobs import Floats
from gsched.sim.metrics import ClassMetrics, Metrics

INK = "#010203"
"""In the page it becomes the colour of the text around."""
_GRID = "#80808059"
COLOURS = ("#2b83c6", "#e08e0b", "#0a9d74", "#d9541e", "#c2699f", "#55b0e0", "#8a8a8a")
_DASHES = ("-", "--", ":", "-.")
_SIZE_INCHES = (6.4, 3.5)
_DPI = 160
_MODE = 0o644
_SUFFIXES = ("png", "svg")
_LONGEST_LABEL = 28
_TICKS_S = {
    "1 s": 1, "10 s": 10, "1 min": 60, "10 min": 600, "1 h": 3600, "6 h": 21_600,
    "1 d": 86_400, "1 wk": 604_800, "30 d": 2_592_000, "1 y": 31_536_000,
}  # fmt: skip
STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, and in the page's own type
    "svg.hashsalt": "gsched",  # the same names within the file each time
    "text.parse_math": False,  # names of policies are not formulas
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "date.converter": "concise",
}

logging.getLogger("matplotlib").setLevel(logging.ERROR)  # no word about where it keeps its cache


@dataclass(frozen=True, slots=True)
class Plot:
    """One figure: the name of its files, what it shows, and how it is drawn."""

    name: str
    title: str
    draw: Callable[[Axes, SimReport], None]

    def drawn(self, report: SimReport) -> Figure:
        """As a figure of matplotlib."""
        with mpl.rc_context(STYLE):
            figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
            axes = figure.add_subplot()
            self.draw(axes, report)
            return figure


def plots(report: SimReport) -> Iterator[Plot]:
    """The figures that have something to show of this report."""
    for plot, has_data in _PLOTS:
        if has_data(report):
            yield plot


def file_names() -> list[str]:
    """All that `write_figures` may write."""
    return [f"{plot.name}.{suffix}" for plot, _ in _PLOTS for suffix in _SUFFIXES]


def write_figures(folder: Path, report: SimReport) -> list[Path]:
    """Write each figure as PNG and SVG into `folder`, which is made; returns the paths."""
    written = []
    for plot in plots(report):
        figure = plot.drawn(report)
        with mpl.rc_context(STYLE):
            figure.suptitle(plot.title, fontsize=10)
        for suffix in _SUFFIXES:
            path = folder / f"{plot.name}.{suffix}"
            write_atomically(path, figure_bytes(figure, suffix, transparent=False), _MODE)
            written.append(path)
    return written


def inline_svg(plot: Plot, report: SimReport) -> str:
    """A figure of a report as `svg_element` gives it."""
    return svg_element(plot.drawn(report), plot.name)


def svg_element(figure: Figure, name: str) -> str:
    """An <svg> element that takes colour and type of the text around it."""
    text = figure_bytes(figure, "svg", transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = text.replace(INK, "currentColor")
    # what is named within one figure must not be that of another on the same page
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", text)


def figure_bytes(figure: Figure, suffix: str, *, transparent: bool) -> bytes:
    """A figure as a file (``png``, ``svg``); the same figure gives the same bytes."""
    into = io.BytesIO()
    nothing = {"Date": None, "Creator": None} if suffix == "svg" else {"Software": None}
    with mpl.rc_context(STYLE):
        figure.savefig(into, format=suffix, dpi=_DPI, transparent=transparent, metadata=nothing)
    return into.getvalue()


def _distribution(name: str, label: str, least: float) -> Callable[[Axes, SimReport], None]:
    """Shares of the jobs up to a value, on a log scale; what is less than `least` stands there."""

    def draw(axes: Axes, report: SimReport) -> None:
        values = [_first(policy).curves.distributions[name] for policy in report.policies]
        for place, column in enumerate(values):
            axes.plot(np.maximum(column, least), SHARES, drawstyle="steps-post", **_line(place))
        axes.set_xscale("log")
        most = max(float(np.nanmax(column)) for column in values)
        if name.endswith("_s"):
            _time_ticks(axes, least, most)
        else:
            axes.xaxis.set_major_formatter(FuncFormatter(_number))
        axes.set_xlim(least, max(most, 2 * least))
        if least < 1.0 < most and not name.endswith("_s"):
            axes.axvline(1.0, color=INK, linewidth=0.8)
        axes.set_ylim(0, 1.01)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel(label)
        axes.set_ylabel("jobs")
        _legend(axes, report)

    return draw


def _over_time(
    value: Callable[[Mapping[str, Floats]], Floats], label: str
) -> Callable[[Axes, SimReport], None]:
    def draw(axes: Axes, report: SimReport) -> None:
        for place, policy in enumerate(report.policies):
            run = _first(policy)
            axes.plot(_dates(run), value(run.curves.over_time), **_line(place))
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(_number))
        axes.set_ylabel(label)
        axes.set_xlabel("UTC")
        _legend(axes, report)

    return draw


def _by_class(
    classes: Callable[[Metrics], Sequence[ClassMetrics]],
    value: Callable[[ClassMetrics], float | None],
    label: str,
) -> Callable[[Axes, SimReport], None]:
    def draw(axes: Axes, report: SimReport) -> None:
        found = [classes(_first(policy)) for policy in report.policies]
        names = list(dict.fromkeys(told.name for one in found for told in one))
        width = 0.8 / len(found)
        for place, one in enumerate(found):
            by_name = {told.name: value(told) for told in one}
            left = np.arange(len(names)) - 0.4 + width * (place + 0.5)
            heights = [by_name.get(name) or 0.0 for name in names]
            axes.bar(left, heights, width=0.9 * width, color=_line(place)["color"])
        axes.set_xticks(range(len(names)), names)
        axes.grid(visible=False, axis="x")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda hours, _: f"{hours:g} h"))
        axes.set_ylabel(label)
        _legend(axes, report, line=False)

    return draw


def _differences(axes: Axes, report: SimReport) -> None:
    told = [(label, found["jct_mean_s"]) for label, found in report.differences.items()]
    axes.axvline(0, color=INK, linewidth=0.8)
    for place, (_, less) in enumerate(told):
        colour = _line(place + 1)["color"]
        axes.plot([_hours(less.low), _hours(less.high)], [place, place], color=colour)
        axes.plot([_hours(less.value)], [place], "o", color=colour)
    axes.set_yticks(range(len(told)), [_shortened(label) for label, _ in told])
    axes.set_ylim(len(told) - 0.5, -0.5)
    axes.set_xlabel("hours")


def _line(place: int) -> dict[str, Any]:
    return {
        "color": COLOURS[place % len(COLOURS)],
        "linestyle": _DASHES[place // len(COLOURS) % len(_DASHES)],
    }


def _legend(axes: Axes, report: SimReport, *, line: bool = True) -> None:
    if len(report.policies) == 1:
        return
    keys = [
        Line2D([], [], **_line(k)) if line else Line2D([], [], linewidth=6, color=_line(k)["color"])
        for k in range(len(report.policies))
    ]
    labels = [_shortened(policy.label) for policy in report.policies]
    axes.figure.legend(keys, labels, loc="outside right upper", fontsize=8)


def _shortened(label: str) -> str:
    """A label that leaves the curves some room."""
    return label if len(label) <= _LONGEST_LABEL else f"{label[: _LONGEST_LABEL - 1]}…"


def _time_ticks(axes: Axes, least: float, most: float) -> None:
    ticks = {name: s for name, s in _TICKS_S.items() if least <= s <= max(most, least)}
    if len(ticks) > 6:  # names of neighbours would touch
        ticks = {name: s for name, s in ticks.items() if name not in ("10 s", "6 h", "30 d")}
    axes.xaxis.set_major_locator(FixedLocator(list(ticks.values())))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _tick_name(value)))
    axes.xaxis.set_minor_locator(NullLocator())


def _number(value: float, _: int | None = None) -> str:
    return f"{value:,g}"


def _tick_name(seconds: float) -> str:
    return next((name for name, s in _TICKS_S.items() if math.isclose(s, seconds)), "")


def _first(policy: PolicyRuns) -> Metrics:
    return policy.runs[0]


def _dates(run: Metrics) -> NDArray[np.datetime64]:
    epoch_s = run.origin + run.curves.over_time["time_s"]
    return np.rint(epoch_s * 1000).astype("datetime64[ms]")


def _hours(seconds: float | None) -> float:
    return math.nan if seconds is None else seconds / 3600


def _mean_hours(told: ClassMetrics) -> float | None:
    return None if told.jct_s.mean is None else told.jct_s.mean / 3600


def _queueing_hours(told: ClassMetrics) -> float | None:
    return None if told.queueing_s.mean is None else told.queueing_s.mean / 3600


def _has_ended(report: SimReport) -> bool:
    return all(_first(policy).all_jobs.finished for policy in report.policies)


def _has_samples(report: SimReport) -> bool:
    return all(len(_first(policy).curves.over_time["time_s"]) > 1 for policy in report.policies)


def _has_intervals(report: SimReport) -> bool:
    return any(found["jct_mean_s"].low is not None for found in report.differences.values())


_PLOTS: Sequence[tuple[Plot, Callable[[SimReport], bool]]] = (
    (Plot("jct", "Job completion time", _distribution("jct_s", "JCT", 1.0)), _has_ended),
    (
        Plot(
            "waiting",
            "Time without GPUs, queueing and preemption (under 1 s stands at 1 s)",
            _distribution("waiting_s", "waiting", 1.0),
        ),
        _has_ended,
    ),
    (
        Plot("slowdown", "Bounded slowdown", _distribution("bounded_slowdown", "slowdown", 1.0)),
        _has_ended,
    ),
    (
        Plot(
            "finish-time-ratio",
            "Finish-time ratio: to the right of 1 worse than an own share of the pool",
            _distribution("finish_time_ratio", "ratio", 0.01),
        ),
        _has_ended,
    ),
    (
        Plot("gpus-used", "GPUs in use", _over_time(lambda t: t["gpus_used"], "GPUs")),
        _has_samples,
    ),
    (
        Plot(
            "gpus-wanted",
            "GPUs that waiting jobs ask for",
            _over_time(lambda t: t["gpus_wanted"], "GPUs"),
        ),
        _has_samples,
    ),
    (
        Plot(
            "gpus-fragmented",
            "Fragmented GPUs: free on nodes that are not wholly free",
            _over_time(lambda t: t["gpus_free"] - t["gpus_free_whole"], "GPUs"),
        ),
        _has_samples,
    ),
    (
        Plot(
            "jct-by-gpus",
            "Mean JCT by GPUs of a job",
            _by_class(lambda m: m.by_size, _mean_hours, "mean JCT"),
        ),
        _has_ended,
    ),
    (
        Plot(
            "queueing-by-run-time",
            "Mean queueing by run time",
            _by_class(lambda m: m.by_duration, _queueing_hours, "mean queueing"),
        ),
        _has_ended,
    ),
    (
        Plot("differences", "Mean JCT less that of the first policy, with interval", _differences),
        _has_intervals,
    ),
)
