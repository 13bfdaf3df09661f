"""Manual pages in the macros of groff_man(7): headings, paragraphs, lists, text as it is."""

from __future__ import annotations

from collections.abc import Mapping

from gsched import __version__


def head(name: str, section: str, summary: str) -> list[str]:
    """Title line and the section NAME."""
    return [
        '.\\" Written by `make man` from the program itself; do not edit.',
        f'.TH "{plain(name.upper())}" "{section}" "" "gsched {__version__}" "gsched manual"',
        ".SH NAME",
        f"{plain(name)} \\- {plain(summary)}",
    ]


def listed(heading: str, entries: Mapping[str, str]) -> list[str]:
    """A section of terms, each with a paragraph."""
    lines = [f".SH {heading}"]
    for name, text in entries.items():
        term = plain(name).replace('"', "\\(dq")  # a macro takes quotes for its own
        lines += [".TP", f".B {term}", *paragraph(text)]
    return lines


def paragraph(text: str) -> list[str]:
    """Running text."""
    return [plain(line.strip()) for line in text.strip().splitlines()]


def verbatim(text: str) -> list[str]:
    """Lines that stay as they are."""
    return [".nf", *(plain(line) for line in text.splitlines()), ".fi"]


def plain(line: str) -> str:
    """One line of plain text, with what groff would obey made harmless."""
    line = line.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + line if line.startswith((".", "'")) else line
