"""A report of simulations as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from gsched.app.html_page import html_figure, html_page, html_table, write_html
from gsched.app.sim.figures import inline_svg, plots
from gsched.app.sim.report import SimReport
from gsched.app.sim.tables import class_tables, comparison, difference_table, figures
from gsched.app.sim.words import report_lines


def write_page(folder: Path, report: SimReport) -> Path:
    """Write the page into `folder`, which is made; an old page stays until the new one is whole."""
    return write_html(folder, page(report))


def page(report: SimReport) -> str:
    """The page; the same report gives the same bytes."""
    names = ", ".join(policy.label for policy in report.policies)
    return html_page(f"gsched simulation: {names}", "\n".join(_body(report)))


def _body(report: SimReport) -> Iterator[str]:
    run = report.baseline.runs[0]
    cluster = report.cluster
    yield "<h1>What would these policies have done?</h1>"
    yield (
        f"<p class=lead>{run.all_jobs.jobs:,} jobs of {escape(report.source)} on "
        f"{cluster.num_gpus:,} simulated GPUs.</p>"
    )
    if report.interrupted:
        yield "<p class=warning>Interrupted: only the part that had ended is shown.</p>"
    yield html_table(comparison(report), is_open=True)
    yield '<section class="figures">'
    for plot in plots(report):
        yield html_figure(inline_svg(plot, report), plot.title)
    yield "</section>"
    yield html_table(figures(report), is_open=True)
    if len(report.policies) > 1:
        yield html_table(difference_table(report))
    for table in class_tables(report):
        yield html_table(table)
    yield '<section id="assumptions"><h2>What this assumes, and what the figures mean</h2><ul>'
    yield from (f"<li>{escape(line)}</li>" for line in report_lines(report))
    yield "</ul></section>"
