"""The report as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from gsched.app.ces_report.figures import figures
from gsched.app.ces_report.report import CesReport
from gsched.app.ces_report.tables import day_table, tables
from gsched.app.ces_report.words import report_lines
from gsched.app.html_page import html_figure, html_page, html_table, write_html
from gsched.explain.words import moment, percent


def write_page(folder: Path, report: CesReport) -> Path:
    """Write the page into `folder`, which is made; an old page stays until the new one is whole."""
    return write_html(folder, page(report))


def page(report: CesReport) -> str:
    """The page; the same report gives the same bytes."""
    title = f"gsched: nodes that sleep on {report.cluster}"
    return html_page(title, "\n".join(_body(report)))


def _body(report: CesReport) -> Iterator[str]:
    since, until = (moment(epoch, "minutes") for epoch in (report.query.since, report.query.until))
    yield "<h1>What did sleeping nodes save, and whom did they delay?</h1>"
    yield (
        f"<p class=lead>Cluster {escape(report.cluster)}, {since} to {until}; "
        f"{percent(report.known_share)} of this time is known.</p>"
    )
    if report.did == "observed":
        yield "<p class=warning>CES observed only: no node was put to sleep by it.</p>"
    for table in tables(report):
        yield html_table(table, is_open=True)
    yield '<section class="figures">'
    for svg, caption in figures(report):
        yield html_figure(svg, caption)
    yield "</section>"
    yield html_table(day_table(report))
    yield '<section id="assumptions"><h2>What this assumes, and what the figures mean</h2><ul>'
    yield from (f"<li>{escape(line)}</li>" for line in report_lines(report))
    yield "</ul></section>"
