"""Figures of an evaluation, as SVG for its page: calibration, and the weeks."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from numpy.typing import NDArray

from gsched.app.evaluation.evaluate import UNITS, KindEvaluation
from gsched.app.sim.figures import COLOURS, INK, STYLE, svg_element

_SIZE_INCHES = (6.4, 3.5)


def figures(kind: KindEvaluation) -> Iterator[tuple[str, str]]:
    """Each figure of one kind of job as an <svg> element, with its caption."""
    what = f"{UNITS[kind.kind]} jobs"
    if kind.calibration:
        caption = f"{what}: how many ended by each predicted quantile (on the line: as told)"
        yield _drawn(f"calibration-{kind.kind}", kind, _calibration), caption
    if len(kind.weeks) > 1:
        caption = f"{what}: rank correlation by week, model and rolling estimate alone"
        yield _drawn(f"weeks-{kind.kind}", kind, _weeks), caption
    if sum(week.covered is not None for week in kind.weeks) > 1:
        caption = f"{what}: share within the 80 % interval by week"
        yield _drawn(f"coverage-{kind.kind}", kind, _covered), caption


def _drawn(name: str, kind: KindEvaluation, draw: Callable[[Axes, KindEvaluation], None]) -> str:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
        draw(figure.add_subplot(), kind)
        return svg_element(figure, name)


def _calibration(axes: Axes, kind: KindEvaluation) -> None:
    nominal, seen = np.array(kind.calibration).T
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8)
    axes.plot(nominal, seen, "o-", color=COLOURS[0])
    axes.set_xlabel("predicted to have ended")
    axes.set_ylabel("had ended")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1)
    axes.set_aspect("equal")


def _weeks(axes: Axes, kind: KindEvaluation) -> None:
    dates = _dates(kind)
    axes.plot(dates, [w.rank_correlation for w in kind.weeks], "o-", color=COLOURS[0])
    axes.plot(dates, [w.rolling_rank_correlation for w in kind.weeks], "--", color=COLOURS[1])
    axes.legend(["model", "rolling"], fontsize=8)
    axes.set_ylabel("rank correlation")
    axes.set_xlabel("UTC")


def _covered(axes: Axes, kind: KindEvaluation) -> None:
    shares = [np.nan if week.covered is None else week.covered for week in kind.weeks]
    axes.axhline(kind.coverage[0].nominal, color=INK, linewidth=0.8)
    axes.plot(_dates(kind), shares, "o-", color=COLOURS[2])
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.set_ylabel("covered")
    axes.set_xlabel("UTC")


def _dates(kind: KindEvaluation) -> NDArray[np.datetime64]:
    return np.array([week.begin for week in kind.weeks]).astype("datetime64[s]")
