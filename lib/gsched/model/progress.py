"""How long work tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int], None]
"""Told what is being done (a table, a kind of rows, a file), and how many rows of it so far."""


def silent(_what: str, _rows: int) -> None:
    """Progress that nobody looks at."""
