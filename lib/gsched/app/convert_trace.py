"""Files of past jobs, or the own history, as one file in gsched's own format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched.app.import_report import FileReport, ImportReport
from gsched.app.signals import ending_by_signals
from gsched.app.trace_formats import TraceOptions, in_reading_order, reader_of
from gsched.errors import DataError, UsageError
from gsched.model.trace import AttemptColumns, TraceChunk
from gsched.traces.gsched_writer import Write, csv_writer, writing_attempts
from gsched.traces.source import STDIN, open_trace

if TYPE_CHECKING:
    from gsched_sql import History

Progress = Callable[[str, int], None]
"""Told the file that is read and the rows of it so far."""

STDOUT = "-"


def convert_files(
    files: Sequence[str], options: TraceOptions, output: str, *, replace: bool, told: Progress
) -> ImportReport:
    """Write the jobs of `files` into `output` (``-``: CSV on standard output).

    The output is there when all is read, or not at all; rejected rows are in the report. Raises
    DataError for a file that is cut off or is not of the format, UsageError as
    ``gsched_writer.writing_attempts`` does.
    """
    if list(files).count(STDIN) > 1:
        raise UsageError("standard input can be read once only")
    seen: dict[str, Any] = {}
    reports = []
    with ending_by_signals(), _writing(output, replace) as write:
        for name in in_reading_order(options.format, files):
            chunks = _chunks(name, options, seen)
            reports.append(_written(name, chunks, write, told))
    return ImportReport(tuple(reports))


def export_history(
    history: History, cluster: str | None, output: str, *, replace: bool, told: Progress
) -> ImportReport:
    """Write every attempt of the history, or those of one cluster, as `convert_files` does.

    A database into which the output is imported holds the same jobs, attempts and conflicts.
    """
    if cluster is not None and cluster not in history.clusters():
        known = ", ".join(history.clusters())
        raise DataError(f"the history has no cluster {cluster!r}", known and f"it has {known}")
    chunks = (TraceChunk(part, rows_in=part.count) for part in history.export(cluster))
    with ending_by_signals(), _writing(output, replace) as write:
        return ImportReport((_written("history", chunks, write, told),))


@contextmanager
def _writing(output: str, replace: bool) -> Iterator[Write]:
    if output != STDOUT:
        with writing_attempts(Path(output), replace=replace) as write:
            yield write
        return
    with open(1, "wb", closefd=False) as stdout, csv_writer(stdout) as write:
        yield write


def _chunks(name: str, options: TraceOptions, seen: dict[str, Any]) -> Iterator[TraceChunk]:
    with open_trace(name) as stream:
        yield from reader_of(options.format)(stream, options.for_file(name, seen))
        if stream.damage:
            raise DataError(stream.damage, "get the whole file; nothing is written")


def _written(name: str, chunks: Iterable[TraceChunk], write: Write, told: Progress) -> FileReport:
    report = FileReport("standard input" if name == STDIN else name)
    for chunk in chunks:
        report.read(chunk)
        _write(write, chunk.attempts)
        told(report.file, report.totals.rows)
    return report


def _write(write: Write, attempts: AttemptColumns) -> None:
    if attempts.count:
        write(attempts)
