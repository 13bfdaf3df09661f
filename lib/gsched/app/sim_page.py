"""A report of simulations as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from pathlib import Path

from gsched import __version__
from gsched.app.sim_figures import inline_svg, plots
from gsched.app.sim_report import SimReport
from gsched.app.sim_tables import Table, class_tables, comparison, difference_table, figures
from gsched.app.sim_words import report_lines
from gsched.files import write_atomically

NAME = "index.html"
_MODE = 0o644


def write_page(folder: Path, report: SimReport) -> Path:
    """Write the page into `folder`, which is made; an old page stays until the new one is whole."""
    path = folder / NAME
    write_atomically(path, page(report).encode(), _MODE)
    return path


def page(report: SimReport) -> str:
    """The page; the same report gives the same bytes."""
    style = files("gsched.app").joinpath("sim_page.css").read_text(encoding="utf-8")
    names = ", ".join(policy.label for policy in report.policies)
    title = f"gsched simulation: {names}"
    body = "\n".join(_body(report))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{escape(title)}</title>
<style>
{style}</style>
</head>
<body>
<main>
{body}
</main>
<footer>gsched {__version__}</footer>
</body>
</html>
"""


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
    yield _table(comparison(report), is_open=True)
    yield '<section class="figures">'
    for plot in plots(report):
        caption = escape(plot.title)
        yield (
            f'<figure role="img" aria-label="{caption}">{inline_svg(plot, report)}'
            f"<figcaption>{caption}</figcaption></figure>"
        )
    yield "</section>"
    yield _table(figures(report), is_open=True)
    if len(report.policies) > 1:
        yield _table(difference_table(report))
    for table in class_tables(report):
        yield _table(table)
    yield '<section id="assumptions"><h2>What this assumes, and what the figures mean</h2><ul>'
    yield from (f"<li>{escape(line)}</li>" for line in report_lines(report))
    yield "</ul></section>"


def _table(table: Table, *, is_open: bool = False) -> str:
    head = "".join(f"<th scope=col>{escape(cell)}</th>" for cell in table.headings)
    rows = "\n".join(
        "<tr>" + "".join(_cell(table, place, cell) for place, cell in enumerate(row)) + "</tr>"
        for row in table.rows
    )
    return (
        f"<details{' open' if is_open else ''}><summary>{escape(table.title)}</summary>"
        f"<div class=scroll><table><thead><tr>{head}</tr></thead>\n"
        f"<tbody>\n{rows}\n</tbody></table></div></details>"
    )


def _cell(table: Table, place: int, cell: str) -> str:
    if place < table.num_names:
        return f"<th scope=row>{escape(cell)}</th>"
    return f"<td>{escape(cell)}</td>"
