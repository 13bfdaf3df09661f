"""What `sim run` and `sim compare` print, and their orderly end."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gsched_cli.errors import EXIT_INTERRUPTED
from gsched_cli.long_work import long_work
from gsched_cli.options import load_settings
from gsched_cli.output import emit_json, emit_table, safe_text, say, warn

if TYPE_CHECKING:
    from gsched.app.sim.compare import SimOrder, Simulated
    from gsched.app.sim.report import SimReport
    from gsched.app.sim.tables import Table
    from gsched.model.progress import Progress


def simulated(order: SimOrder) -> Simulated:
    """Carry out an order and tell at a terminal how far it is."""
    from gsched.app.sim.compare import Simulated, run

    try:
        with long_work() as told:
            return run(order, load_settings(), _saying_compiles(told))
    except KeyboardInterrupt:
        return Simulated(None, interrupted=True)


def _saying_compiles(told: Progress) -> Progress:
    """Say on a line that stays that the loops are being compiled: a minute without a sign of life.

    It is said once, whoever reads: a log, too.
    """
    from gsched.sim.compiling import TOLD

    said: set[str] = set()

    def tell(what: str, rows: int) -> None:
        words = next((words for words in TOLD if what.endswith(words)), None)
        if words is None:
            told(what, rows)
        elif words not in said:
            said.add(words)
            if sys.stderr.isatty():
                print("\r\x1b[K", end="", file=sys.stderr)  # what the progress line says
            say(words)

    return tell


def emit_simulated(done: Simulated, tables: Iterable[Table], as_json: bool) -> int:
    """Print a report as text or JSON; returns the exit code."""
    if done.report is None:
        say("interrupted before anything was simulated")
        return EXIT_INTERRUPTED
    for words in done.warnings:
        warn(words)
    if as_json:
        emit_json(done.report.document())
        for left in done.report.left_out:
            warn(f"not simulated: {left.words}")
    else:
        for table in tables:
            if table.rows:
                _emit(table)
        _emit_words(done.report)
    for path in done.written:
        say(f"{path} is written")
    if done.interrupted:
        say("interrupted: this is what was finished by then")
        return EXIT_INTERRUPTED
    return 0


def _emit(table: Table) -> None:
    print(safe_text(f"{table.title}:"))
    emit_table(table.headings, table.rows, right=range(table.num_names, len(table.headings)))
    print()


def _emit_words(report: SimReport) -> None:
    from gsched.app.sim.words import report_lines

    print("What the figures depend on:")
    for line in report_lines(report):
        print(f"- {safe_text(line)}")
