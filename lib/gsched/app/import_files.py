"""Bring files of past jobs into the history: saved accounting and public traces.

Every chunk of a file is one transaction that also keeps how far the file is read. An import that
ended in mid-file (Ctrl-C, kill -9, a lost server, a full disk) goes on from there when it is given
again: the file is read from its start, so that everything that depends on earlier rows is as if
nothing had happened, and the chunks that are kept already are not stored again. Without that the
result is the same, for merging a row twice changes nothing; it only takes longer.
"""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gsched import __version__
from gsched.app.format_guess import fitting_formats
from gsched.app.import_report import FileReport, ImportReport
from gsched.app.signals import ending_by_signals
from gsched.app.trace_formats import TraceOptions, in_reading_order, reader_of
from gsched.errors import DataError, GschedError, UsageError
from gsched.model.trace import AttemptColumns, TraceChunk
from gsched.traces.source import STDIN, TraceStream, flows, open_trace

if TYPE_CHECKING:
    from gsched_sql import History


_NOTHING = TraceChunk(AttemptColumns(0, {}))


@dataclass(frozen=True, slots=True)
class ImportOrder:
    """What is read, and how. `keep_steps`: job steps are kept too, where a format has them."""

    files: tuple[str, ...]
    options: TraceOptions
    keep_steps: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the reading of one file is. `share` is that of its bytes, None when not known."""

    file: str
    rows: int
    share: float | None


class ImportInterrupted(KeyboardInterrupt):
    """Ctrl-C, SIGTERM or SIGHUP; its text says what is kept."""


def import_files(
    order: ImportOrder,
    history: History | None,
    on_progress: Callable[[Progress], None] = lambda _: None,
) -> ImportReport:
    """Read the files of `order` into `history` (None: read and count only).

    A file of bad data does not keep the others from being read: its report has the error. Raises
    UsageError and others for a file that cannot be opened, before anything is read; afterwards
    ImportInterrupted and what `History` raises: the same order then goes on from what is kept.
    """
    if order.files.count(STDIN) > 1:
        raise UsageError("standard input can be read once only")
    for name in order.files:
        with suppress(DataError):
            if not flows(name):
                open_trace(name).close()
    return _Import(order, history, on_progress).run()


class _FileError(Exception):
    """A file cannot be read (on)."""

    def __init__(self, error: GschedError) -> None:
        super().__init__(error.message)
        self.error = error


class _Import:
    """One import: its reports, and what is remembered from file to file."""

    def __init__(
        self,
        order: ImportOrder,
        history: History | None,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self._order = order
        self._history = history
        self._on_progress = on_progress
        self._reader = reader_of(order.options.format)
        self._seen: dict[str, Any] = {}
        self._contents: dict[str, str] = {}  # digest of a file's content → the file
        self._reports: list[FileReport] = []
        self._places: list[_Place] = []
        self._kept_rows = 0  # of the present file, as far as is known here
        self._counts_gpus: bool | None = None

    def run(self) -> ImportReport:
        try:
            with ending_by_signals(), _rare_collections():
                self._counts_gpus = self._order.options.counts_gpus(self._order.files)
                for name in in_reading_order(self._order.options.format, self._order.files):
                    self._reports.append(FileReport(name))
                    self._read(self._reports[-1])
                self._forget_cursors()
        except KeyboardInterrupt as end:
            raise ImportInterrupted(f"interrupted: {self._how_far()}") from end
        except GschedError as error:
            error.hint = "; ".join(filter(None, (error.hint, self._how_far())))
            raise
        return ImportReport(tuple(self._reports))

    def _read(self, report: FileReport) -> None:
        self._kept_rows = 0
        try:
            digest = self._digest(report.file)
            report.same_as = self._contents.get(digest)
            if report.same_as is None:
                if digest:
                    self._contents[digest] = report.file
                self._store(report, digest)
        except _FileError as bad:
            report.error = bad.error

    def _digest(self, name: str) -> str:
        """SHA-256 of what the file says when it is unpacked, "" for what can be read only once."""
        if flows(name):
            return ""
        try:
            with open_trace(name) as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except GschedError as error:
            raise _FileError(error) from error

    def _store(self, report: FileReport, digest: str) -> None:
        """Read a file; keep the chunks that no earlier import of it has kept."""
        place = self._place(report.file, digest) if digest else None
        kept_before = self._kept_rows = self._rows_kept(place)
        with _opened(report.file) as stream:
            for chunk in self._chunks(stream, report):
                report.read(chunk)
                rows = report.totals.rows
                if rows <= kept_before:
                    report.totals.earlier += chunk.attempts.count
                elif self._history is not None:
                    cursor = place.cursor(rows) if place else ""
                    key = place.source_key if place else None
                    summary = self._history.import_chunk(chunk, source_key=key, cursor=cursor)
                    report.totals.store(chunk, summary)
                self._kept_rows = max(rows, kept_before)
                share = stream.position / stream.size if stream.size else None
                self._on_progress(Progress(report.file, rows, share))
        if stream.damage:
            raise _FileError(_damaged(stream.damage, report.totals.rows))
        if report.totals.rejected and not report.totals.attempts:
            report.notes.append(f"no row is understood{self._other_formats(report.file, '; ')}")

    def _chunks(self, stream: TraceStream, report: FileReport) -> Iterator[TraceChunk]:
        told = self._order.options.for_file(report.file, self._seen, self._counts_gpus)
        options = replace(told, keep_steps=self._order.keep_steps)
        try:
            yield from self._reader(stream, options)
        except GschedError as error:
            if not report.totals.rows:
                error.hint = self._other_formats(report.file) or error.hint
            raise _FileError(error) from error

    def _other_formats(self, name: str, before: str = "") -> str:
        found = [] if flows(name) else fitting_formats(name, self._order.options.format)
        return f"{before}it looks like --format {' or '.join(found)}" if found else ""

    def _place(self, name: str, digest: str) -> _Place:
        options = self._order.options
        key = f"import:{options.format}:{options.cluster or ''}:{Path(name).resolve()}"
        told = f"{__version__} {replace(self._order, files=(digest,))} {self._counts_gpus}"
        place = _Place(key, hashlib.sha256(told.encode(errors="replace")).hexdigest())
        self._places.append(place)
        return place

    def _rows_kept(self, place: _Place | None) -> int:
        """How many rows of the file an import that did not come to its end has kept."""
        if self._history is None or place is None:
            return 0
        return place.rows(self._history.cursor(place.source_key))

    def _forget_cursors(self) -> None:
        """The order is carried out: given again, it is read and merged anew."""
        for place in self._places:
            if self._history is not None and self._history.cursor(place.source_key):
                self._history.import_chunk(_NOTHING, source_key=place.source_key, cursor="")

    def _how_far(self) -> str:
        if not self._reports:
            return "nothing is read yet"
        name = self._reports[-1].file
        if self._history is None:
            return f"{self._kept_rows:,} rows of {name} were read"
        if self._places and not flows(name):
            # A signal may have come when a chunk was kept and not yet counted here.
            with suppress(GschedError):
                self._kept_rows = max(self._kept_rows, self._rows_kept(self._places[-1]))
        if not self._kept_rows:
            return f"nothing of {name} is kept yet"
        again = "give the input again" if flows(name) else "the same command goes on from there"
        return f"{self._kept_rows:,} rows of {name} are kept; {again}"


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the history keeps how far a file is read.

    `fingerprint` stands for the file's content and for all that decides what a reader makes of it.
    """

    source_key: str
    fingerprint: str

    def cursor(self, rows: int) -> str:
        """What is kept when so many rows are."""
        return json.dumps({"fingerprint": self.fingerprint, "rows": rows})

    def rows(self, cursor: str) -> int:
        """How many rows `cursor` says are kept of this very content, read in this very way."""
        found = json.loads(cursor) if cursor else {}
        return int(found["rows"]) if found.get("fingerprint") == self.fingerprint else 0


@contextmanager
def _rare_collections() -> Iterator[None]:
    """A chunk is many small objects in no cycle: to look for cycles takes an eighth of the time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _opened(name: str) -> TraceStream:
    try:
        return open_trace(name)
    except GschedError as error:
        raise _FileError(error) from error


def _damaged(damage: str, rows: int) -> GschedError:
    return DataError(
        f"{damage}; the {rows:,} rows before it are read", "get the whole file and import it again"
    )
