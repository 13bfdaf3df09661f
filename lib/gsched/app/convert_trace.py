"""Files of past jobs, or the own history, as one file in gsched's own format."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched.app.import_report import FileReport, ImportReport
from gsched.app.signals import ending_by_signals
from gsched.app.trace_formats import TraceOptions, in_reading_order, reader_of
from gsched.errors import DataError, UsageError
from gsched.model.history import AttemptRecord
from gsched.model.merge import AttemptKey, fold, key_of, value
from gsched.model.progress import Progress
from gsched.model.trace import AttemptColumns, ReadOptions, TraceChunk, columns_of
from gsched.traces.gsched_writer import Write, csv_writer, writing_attempts
from gsched.traces.source import STDIN, open_trace

if TYPE_CHECKING:
    from gsched_sql import History

STDOUT = "-"

_SUMMED = ("start_time", "end_time", "num_gpus", "num_cpus")


def convert_files(
    files: Sequence[str], options: TraceOptions, output: str, *, force: bool, told: Progress
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
    with ending_by_signals(), writing(output, force) as write:
        counts_gpus = options.counts_gpus(files)
        for name in in_reading_order(options.format, files):
            chunks = _chunks(name, options.for_file(name, seen, counts_gpus), options.format)
            reports.append(_written(name, ((chunk, chunk) for chunk in chunks), write, told))
    return ImportReport(tuple(reports))


def export_history(
    history: History, cluster: str | None, output: str, *, force: bool, told: Progress
) -> ImportReport:
    """Write every attempt of the history, or those of one cluster, as `convert_files` does.

    A database into which the output is imported holds the same jobs, attempts and conflicts.
    """
    if cluster is not None and cluster not in history.clusters():
        known = ", ".join(history.clusters())
        raise DataError(f"the history has no cluster {cluster!r}", known and f"it has {known}")
    chunks = (map(_whole_chunk, (part, _merged(part))) for part in history.export(cluster))
    with ending_by_signals(), writing(output, force) as write:
        return ImportReport((_written("history", chunks, write, told),))


@contextmanager
def writing(output: str, force: bool) -> Iterator[Write]:
    """A function that adds attempts to `output` (``-``: CSV on standard output)."""
    if output != STDOUT:
        with writing_attempts(Path(output), replace=force) as write:
            yield write
        return
    with open(1, "wb", closefd=False) as stdout, csv_writer(stdout) as write:
        yield write


def _chunks(name: str, options: ReadOptions, format_name: str) -> Iterator[TraceChunk]:
    with open_trace(name) as stream:
        yield from reader_of(format_name)(stream, options)
        if stream.damage:
            raise DataError(stream.damage, "get the whole file; nothing is written")


def _whole_chunk(attempts: AttemptColumns) -> TraceChunk:
    return TraceChunk(attempts, rows_in=attempts.count)


def _merged(part: AttemptColumns) -> AttemptColumns:
    """One record an attempt, where `part` has one for each claim and each value in conflict."""
    told: dict[AttemptKey, list[AttemptRecord]] = {}
    for record in part.records():
        told.setdefault(key_of(record), []).append(record)
    if len(told) == part.count:
        return part
    return columns_of([_one(records) for records in told.values()])


def _one(records: Sequence[AttemptRecord]) -> AttemptRecord:
    """What the history shows of an attempt, as far as it is summed."""
    if len(records) == 1:
        return records[0]
    (fields,) = fold(records).values()
    facts: dict[str, Any] = {name: value(fields, name) for name in _SUMMED}
    return replace(records[0], **facts)


def _written(
    name: str, chunks: Iterable[Iterable[TraceChunk]], write: Write, told: Progress
) -> FileReport:
    """Write the first of each two chunks; the second is what the report counts of it."""
    report = FileReport("standard input" if name == STDIN else name)
    for chunk, counted in chunks:
        report.read(counted)
        _write(write, chunk.attempts)
        told(report.file, report.totals.rows)
    return report


def _write(write: Write, attempts: AttemptColumns) -> None:
    if attempts.count:
        write(attempts)
