"""The report of `gsched fairness` as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from gsched.app.fairness.figures import figures
from gsched.app.fairness.report import FairnessReport
from gsched.app.fairness.tables import tables
from gsched.app.fairness.words import report_lines
from gsched.app.html_page import html_figure, html_page, html_table, write_html
from gsched.explain.words import moment


def write_page(folder: Path, report: FairnessReport) -> Path:
    """Write the page into `folder`, which is made; an old page stays until the new one is whole."""
    return write_html(folder, page(report))


def page(report: FairnessReport) -> str:
    """The page; the same report gives the same bytes."""
    title = f"gsched: whose the GPUs of {report.cluster} were"
    return html_page(title, "\n".join(_body(report)))


def _body(report: FairnessReport) -> Iterator[str]:
    since, until = (moment(epoch, "minutes") for epoch in (report.query.since, report.query.until))
    yield "<h1>Who received how much of what was theirs?</h1>"
    yield f"<p class=lead>Cluster {escape(report.cluster)}, {since} to {until}.</p>"
    for table in tables(report):
        yield html_table(table, is_open=True)
    yield '<section class="figures">'
    for svg, caption in figures(report):
        yield html_figure(svg, caption)
    yield "</section>"
    yield '<section id="assumptions"><h2>What this is, and what the figures mean</h2><ul>'
    yield from (f"<li>{escape(line)}</li>" for line in report_lines(report))
    yield "</ul></section>"
