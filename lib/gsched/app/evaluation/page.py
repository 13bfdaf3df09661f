"""An evaluation of run-time predictions as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from gsched.app.evaluation.evaluate import UNITS, Evaluation
from gsched.app.evaluation.figures import figures
from gsched.app.evaluation.tables import (
    coverage_table,
    error_table,
    lines,
    order_table,
    rule_table,
    week_table,
)
from gsched.app.html_page import html_figure, html_page, html_table, write_html


def write_page(folder: Path, evaluation: Evaluation) -> Path:
    """Write the page into `folder`, which is made; returns its path."""
    return write_html(folder, page(evaluation))


def page(evaluation: Evaluation) -> str:
    """The page; the same evaluation gives the same bytes."""
    title = f"gsched: run-time predictions on {evaluation.source}"
    return html_page(title, "\n".join(_body(evaluation)))


def _body(evaluation: Evaluation) -> Iterator[str]:
    judged = sum(kind.jobs for kind in evaluation.kinds)
    yield "<h1>How well are run times predicted?</h1>"
    yield f"<p class=lead>{judged:,} jobs of {escape(evaluation.source)}, walking forward.</p>"
    for kind in evaluation.kinds:
        yield f"<h2>{UNITS[kind.kind]} jobs</h2>"
        yield html_table(order_table(kind), is_open=True)
        yield html_table(error_table(kind), is_open=True)
        yield '<section class="figures">'
        for svg, caption in figures(kind):
            yield html_figure(svg, caption)
        yield "</section>"
        if kind.coverage:
            yield html_table(coverage_table(kind), is_open=True)
        yield html_table(rule_table(kind), is_open=True)
        yield html_table(week_table(kind))
    yield '<section id="assumptions"><h2>What the figures are of, and what they mean</h2><ul>'
    yield from (f"<li>{escape(line)}</li>" for line in lines(evaluation))
    yield "</ul></section>"
