"""A report as one HTML page that needs nothing else: no network, no script."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path

from gsched import __version__
from gsched.app.sim.tables import Table
from gsched.files import write_atomically

NAME = "index.html"
_MODE = 0o644


def write_html(folder: Path, text: str) -> Path:
    """Write a page into `folder`, which is made; an old page stays until the new one is whole."""
    path = folder / NAME
    write_atomically(path, text.encode(), _MODE)
    return path


def html_page(title: str, body: str) -> str:
    """The whole page around `body`; the same input gives the same bytes."""
    style = files("gsched.app").joinpath("html_page.css").read_text(encoding="utf-8")
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


def html_table(table: Table, *, is_open: bool = False) -> str:
    """A table that can be folded away."""
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


def html_figure(svg: str, caption: str) -> str:
    """A figure with its caption."""
    words = escape(caption)
    return f'<figure role="img" aria-label="{words}">{svg}<figcaption>{words}</figcaption></figure>'


def _cell(table: Table, place: int, cell: str) -> str:
    if place < table.num_names:
        return f"<th scope=row>{escape(cell)}</th>"
    return f"<td>{escape(cell)}</td>"
