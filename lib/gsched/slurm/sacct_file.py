"""Readers of what sites save of their accounting: text of ``sacct -p/-P`` and ``sacct --json``.

Whether the cluster accounts for GPUs no file says. Where it does, a job without gres/gpu among its
TRES has none, else its number of GPUs is not known. `ReadOptions.counts_gpus` decides it, for all
files of an import alike; a file that is read without it is looked through as far as its first GPU.

Fields that gsched takes nothing from stay in `extra`. Restarts is one of them: 24.11 shows how
often a job was restarted in the end on each of its attempts, so that it is no attempt's number.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from gsched.errors import DataError
from gsched.json_stream import read_members
from gsched.model.history import AttemptRecord, Reject, StepRecord
from gsched.model.trace import ReadOptions, TraceChunk, columns_of
from gsched.slurm import sacct_json
from gsched.slurm.parse_json_values import messages, raw
from gsched.slurm.rereadable import Rereadable
from gsched.slurm.sacct_rows import SOURCE, RowReader
from gsched.slurm.sacct_text import (
    Form,
    Rows,
    decoded,
    first_lines,
    form_of,
    header_words,
    read_rows,
)
from gsched.slurm.sacct_times import Clock
from gsched.slurm.sacct_values import amounts, gres_gpus
from gsched.text_lines import shortened

_FIRST_LINES = 1000
_HEAD_BYTES = 4096
_NO_GPUS = (
    "the numbers of GPUs are not known: no row tells any, or --gpus says so "
    "(with --gpus counted, jobs that tell none have none)"
)


# -- text -----------------------------------------------------------------------------------


def read_text(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The attempts in saved text of sacct; see ``sacct_text`` for what it may look like.

    Fields are found by the header, in any order and case and between any delimiter, or are
    `options.sacct_fields`. A row needs an id, a submit time and a state. Fields without a place in
    AttemptRecord go into `extra`, under sacct's names. Steps, and arrays that wait as a whole, are
    skipped; an array that ended as a whole counts as its tasks. Raises DataError, see
    ``sacct_text.form_of``, also for an empty file.
    """
    rereadable = Rereadable(stream)
    lines = first_lines(rereadable.look(), _FIRST_LINES)
    if not lines:
        raise _empty(options)
    form = form_of(lines, options.sacct_fields, options.file_name)
    counts_gpus = options.counts_gpus
    if counts_gpus is None:
        counts_gpus = _has_gpus(rereadable.look(), form)
    clock = Clock(options.timezone)
    reader = RowReader(
        form.names,
        clock.read,
        counts_gpus,
        cluster=options.cluster or SOURCE,
        is_named=options.cluster is not None,
        clock=clock,
        keeps_extra=True,
        keeps_steps=options.keep_steps,
    )
    notes = _Notes([] if counts_gpus else [_NO_GPUS])
    if options.cluster is None and "Cluster" not in form.names:
        notes.add(f"no cluster is named in the file: its jobs are those of cluster {SOURCE!r}")
    for rows in read_rows(rereadable.last_look(), form, options.chunk_rows):
        yield _text_chunk(rows, form, reader, f"{SOURCE}:{options.file_name}", notes)


def _text_chunk(
    rows: Rows, form: Form, reader: RowReader, source: str, notes: _Notes
) -> TraceChunk:
    understood = reader.read(rows.rows)
    bad = [
        (rows.lines[place], reason, form.delimiter.join(rows.rows[place]))
        for place, reason in understood.bad
    ]
    rejects = [
        Reject(source, line, _reason(why, text), shortened(text))
        for line, why, text in (*rows.broken, *bad)
    ]
    if reader.clock is not None and reader.clock.is_used:
        notes.add(f"times name no zone: they are taken as {reader.clock.zone} (see --timezone)")
    if understood.lost_steps:
        notes.add("steps that do not stand behind their job are left out")
    return TraceChunk(
        attempts=understood.attempts,
        rejects=tuple(sorted(rejects, key=lambda reject: reject.line)),
        rows_in=understood.attempts.count + len(rejects) + understood.skipped,
        rows_skipped=understood.skipped,
        notes=notes.new(),
        steps=understood.steps,
    )


def _reason(why: str, text: str) -> str:
    """Why a row is no attempt; a header that is not the file's has other files behind it."""
    words = header_words(text)
    return f"it looks like another header ({words}): split the file there" if words else why


def _empty(options: ReadOptions) -> DataError:
    return DataError(f"{options.file_name} is empty")


def text_tells_gpus(stream: BinaryIO, options: ReadOptions) -> bool:
    """Whether any row of saved text names GPUs. Raises DataError as `read_text` does."""
    rereadable = Rereadable(stream)
    lines = first_lines(rereadable.look(), _FIRST_LINES)
    if not lines:
        return False
    form = form_of(lines, options.sacct_fields, options.file_name)
    return _has_gpus(rereadable.last_look(), form)


def _has_gpus(stream: BinaryIO, form: Form) -> bool:
    """Whether any row names GPUs among what it asked for or was given."""
    tres = [form.names.index(n) for n in ("ReqTRES", "AllocTRES") if n in form.names]
    gres = [form.names.index(n) for n in ("AllocGRES",) if n in form.names]
    for line in decoded(stream):
        if "gpu" not in line:
            continue
        fields = form.cut(line)
        if len(fields) != len(form.names):
            continue
        try:
            if any(amounts(fields[place]).num_gpus for place in tres):
                return True
            if any(gres_gpus(fields[place]) for place in gres):
                return True
        except DataError:
            continue
    return False


# -- JSON -----------------------------------------------------------------------------------


def read_json(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The attempts in ``sacct --json`` of any release, and of slurmrestd's ``/slurmdb/…/jobs``.

    One job is parsed at a time, so that a document may be of any length. What ``sacct_json`` keeps
    besides an attempt's fields goes into `extra`. Raises DataError for what is no JSON, for a
    document without jobs, and for one that ends in the middle, after the jobs before that.
    """
    rereadable = Rereadable(stream)
    counts_gpus = options.counts_gpus
    if counts_gpus is None:
        counts_gpus = json_tells_gpus(rereadable.look(), options)
    if not rereadable.look().read(_HEAD_BYTES).strip():
        raise _empty(options)
    gathered = _Gathered(options, _Notes([] if counts_gpus else [_NO_GPUS]), counts_gpus)
    try:
        for name, value in read_members(rereadable.last_look(), "jobs"):
            gathered.add(name, value)
            if gathered.rows_in >= options.chunk_rows:
                yield gathered.chunk()
    except DataError:
        if gathered.rows_in:
            yield gathered.chunk()
        raise
    yield from gathered.rest()


def json_tells_gpus(stream: BinaryIO, _: ReadOptions) -> bool:
    """Whether any job of a document names GPUs, as far as the document can be read."""
    return any(map(sacct_json.has_gpus, _jobs_until_damage(stream)))


def _jobs_until_damage(stream: BinaryIO) -> Iterator[Any]:
    """The second reading comes to a fault as well, and tells of it."""
    with suppress(DataError):
        yield from (value for name, value in read_members(stream, "jobs") if name == "jobs[]")


@dataclass
class _Notes:
    """Remarks, each to be said once."""

    waiting: list[str] = field(default_factory=list)
    said: set[str] = field(default_factory=set)

    def add(self, note: str) -> None:
        """Have a note said, unless it was."""
        if note not in self.said and note not in self.waiting:
            self.waiting.append(note)

    def new(self) -> tuple[str, ...]:
        """What is to be said now."""
        notes, self.waiting = tuple(self.waiting), []
        self.said.update(notes)
        return notes


@dataclass
class _Gathered:
    """What was read of a document since the last chunk, and what it said beside its jobs."""

    options: ReadOptions
    notes: _Notes
    counts_gpus: bool
    members: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    num_jobs: int = 0
    rows_in: int = 0
    records: list[AttemptRecord] = field(default_factory=list)
    steps: list[StepRecord] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)

    def add(self, name: str, value: Any) -> None:
        """A member of the document, or one of its jobs."""
        if name == "jobs[]":
            self._add_job(value)
        elif name == "errors":
            self.errors += messages(value)
        elif name == "warnings":
            self.warnings += messages(value)
        else:
            self.members.add(name)

    def _add_job(self, job: Any) -> None:
        self.num_jobs += 1
        if self.options.cluster is not None and isinstance(job, dict):
            job = job | {"cluster": self.options.cluster}
        try:
            entry = sacct_json.entry_of(
                job,
                counts_gpus=self.counts_gpus,
                keeps_steps=self.options.keep_steps,
                keeps_extra=True,
                cluster=SOURCE,
            )
        except DataError as error:
            self.rows_in += 1
            self._reject(self.num_jobs, error.message, raw(job))
            return
        self.records += entry.attempts
        self.steps += entry.steps
        self.rows_in += max(1, len(entry.attempts))

    def _reject(self, line: int, reason: str, text: str) -> None:
        self.rejects.append(Reject(f"sacct-json:{self.options.file_name}", line, reason, text))

    def chunk(self) -> TraceChunk:
        """All of it; from now on there is nothing."""
        made = TraceChunk(
            attempts=columns_of(self.records),
            rejects=tuple(self.rejects),
            rows_in=self.rows_in,
            rows_skipped=self.rows_in - len(self.records) - len(self.rejects),
            notes=self.notes.new(),
            steps=tuple(self.steps),
        )
        self.rows_in, self.records, self.steps, self.rejects = 0, [], [], []
        return made

    def rest(self) -> Iterator[TraceChunk]:
        """What is left at the end. Raises DataError when the document was none of jobs."""
        if self.num_jobs == 0 and (self.errors or "jobs" not in self.members):
            told = f"an error: {'; '.join(self.errors)}" if self.errors else "no list of jobs"
            raise DataError(
                f"{self.options.file_name} holds {told}; its members are "
                f"{', '.join(sorted(self.members)) or 'none'}",
                "save it with `sacct --json`",
            )
        # a warning beside no jobs says that none was found; beside jobs, some may be missing
        for complaint in self.errors + self.warnings if self.num_jobs else ():
            self.rows_in += 1
            self._reject(0, complaint, "")
        if self.rows_in:
            yield self.chunk()
