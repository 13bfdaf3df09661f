"""What `gsched db import` prints: how far it is, and its report."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from gsched_cli.output import MAX_CELL, count, emit_table, say
from gsched_cli.progress import ProgressLine

if TYPE_CHECKING:
    from gsched.app.import_files import Progress
    from gsched.app.import_report import ImportReport, Totals

_SHOWN_REJECTS = 5
_SHOWN_CLUSTERS = 10

_READ = {"ROWS": "rows", "REJECTED": "rejected", "SKIPPED": "skipped"}
_KEPT = {"NEW": "attempts_new", "UPDATED": "attempts_updated", "UNCHANGED": "unchanged"}
_WHERE_ANY = {"EARLIER": "earlier", "PRUNED": "pruned", "CONFLICTS": "conflicts", "STEPS": "steps"}


def emit_report(report: ImportReport, *, is_kept: bool) -> None:
    """Counts by file and in all, then the attempts by state."""
    total = report.total
    columns = _READ | (_KEPT if is_kept else {})
    columns |= {header: name for header, name in _WHERE_ANY.items() if getattr(total, name)}

    def cells(name: str, totals: Totals) -> list[str]:
        counts = [count(getattr(totals, column)) for column in columns.values()]
        gpu = count(totals.gpu_time_s) if totals.gpu_time_attempts else "-"
        cpu = count(totals.cpu_time_s) if totals.cpu_time_attempts else "-"
        return [name, *counts, gpu, cpu]

    rows = [cells(_end_of(found.file), found.totals) for found in report.files]
    if len(rows) > 1:
        rows.append(cells("total", total))
    headers = ["FILE", *columns, "GPU-SECONDS", "CPU-SECONDS"]
    emit_table(headers, rows, right=range(1, len(headers)))
    if total.states:
        print()
        states = sorted(total.states.items())
        emit_table(["STATE", "ATTEMPTS"], [(s, count(n)) for s, n in states], right={1})


def say_notes(report: ImportReport, *, is_kept: bool) -> None:
    """What is to be known of the figures."""
    files_of: dict[str, list[str]] = {}
    for found in report.files:
        if found.same_as is not None:
            say(f"{found.file} is the same as {found.same_as}: read once")
        for note in found.notes:
            files_of.setdefault(note, []).append(found.file)
    for note, files in files_of.items():
        say(f"{files[0] if len(files) == 1 else f'{len(files)} files'}: {note}")
    clusters = sorted({name for found in report.files for name in found.clusters})
    if is_kept and clusters:
        some = ", ".join(clusters[:_SHOWN_CLUSTERS])
        more = (
            ""
            if len(clusters) <= _SHOWN_CLUSTERS
            else f" and {len(clusters) - _SHOWN_CLUSTERS} more"
        )
        say(f"cluster{'s' if len(clusters) > 1 else ''}: {some}{more}")
    total = report.total
    for device, known in (("GPU", total.gpu_time_attempts), ("CPU", total.cpu_time_attempts)):
        if 0 < known < total.attempts:
            others = count(total.attempts - known)
            say(f"{device}-seconds: {others} of {count(total.attempts)} attempts do not tell them")


def say_rejects(report: ImportReport, *, is_kept: bool) -> None:
    """The first rows of each file that were not understood, and how many there are."""
    for found in report.files:
        shown = found.rejects[:_SHOWN_REJECTS]
        for reject in shown:
            say(f"{found.file}, line {reject.line}: {reject.reason}")
        more = found.totals.rejected - len(shown)
        if more:
            say(f"{found.file}: {count(more)} more rows were not understood")
    if is_kept and report.total.rejected:
        say("`gsched db stats --rejects` shows rows that were not understood")


def _end_of(name: str) -> str:
    """A path that fits into a cell; what tells paths apart is mostly at their end."""
    return name if len(name) <= MAX_CELL else f"…{name[1 - MAX_CELL :]}"


class Teller:
    """Tells somebody at a terminal how far and how fast the reading is."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._file = ""
        self._began = 0.0

    def __call__(self, progress: Progress) -> None:
        """Show `progress`."""
        if progress.file != self._file:
            self._file, self._began = progress.file, time.monotonic()
        pace = progress.rows / max(time.monotonic() - self._began, 1e-3)
        share = "" if progress.share is None else f", {progress.share:.0%}"
        self._line.show(
            f"{count(progress.rows)} rows, {count(round(pace))} rows/s{share} of {progress.file}"
        )
