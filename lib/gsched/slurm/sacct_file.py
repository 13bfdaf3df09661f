"""Readers of what sites save of their accounting: text of ``sacct -p/-P`` and ``sacct --json``.

Whether the cluster accounts for GPUs no file says. Where no job of a file has gres/gpu among its
TRES, numbers of GPUs are not known; else a job without it has none. So a file is looked through
as far as its first GPU before it is read, and a part of it that has none tells less than the whole.
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
from gsched.slurm.replay import Replay
from gsched.slurm.sacct_rows import SOURCE, RowReader
from gsched.slurm.sacct_text import Form, Rows, first_lines, form_of, read_rows
from gsched.slurm.sacct_times import Clock
from gsched.slurm.sacct_values import amounts, gres_gpus

_FIRST_LINES = 1000
_NO_GPUS = "no job has gres/gpu among its TRES: the numbers of GPUs are not known"


# -- text -----------------------------------------------------------------------------------


def read_text(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The attempts in saved text of sacct; see ``sacct_text`` for what it may look like.

    Fields are found by the header, in any order and case and between any delimiter, or are
    `options.sacct_fields`. A row needs an id, a submit time and a state. Fields without a place in
    AttemptRecord go into `extra`, under sacct's names. Steps, and arrays that wait as a whole, are
    skipped; an array that ended as a whole is one attempt. Raises DataError, see
    ``sacct_text.form_of``.
    """
    replay = Replay(stream)
    lines = first_lines(replay.look(), _FIRST_LINES)
    if not lines:
        return
    form = form_of(lines, options.sacct_fields, options.file_name)
    counts_gpus = _text_has_gpus(replay.look(), form)
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
    notes = _Notes() if counts_gpus else _Notes([_NO_GPUS])
    if options.cluster is None and "Cluster" not in form.names:
        notes.add(f"no cluster is named in the file: its jobs are those of cluster {SOURCE!r}")
    for rows in read_rows(replay.last_look(), form, options.chunk_rows):
        yield _text_chunk(rows, form, reader, f"{SOURCE}:{options.file_name}", notes)


def _text_chunk(
    rows: Rows, form: Form, reader: RowReader, source: str, notes: _Notes
) -> TraceChunk:
    understood = reader.read(rows.rows)
    rejects = [Reject(source, *broken) for broken in rows.broken]
    for place, reason in understood.bad:
        text = form.delimiter.join(rows.rows[place])
        rejects.append(Reject(source, rows.lines[place], reason, text))
    if reader.clock is not None and reader.clock.is_used:
        notes.add(f"times name no zone: they are taken as {reader.clock.zone} (see --timezone)")
    if understood.lost_steps:
        notes.add("steps that do not stand behind their job are left out")
    return TraceChunk(
        attempts=understood.attempts,
        rejects=tuple(sorted(rejects, key=lambda reject: reject.line)),
        rows_in=len(rows.rows) + len(rows.broken),
        rows_skipped=understood.skipped,
        notes=notes.new(),
        steps=understood.steps,
    )


def _text_has_gpus(stream: BinaryIO, form: Form) -> bool:
    """Whether any row names GPUs among what it asked for or was given."""
    tres = [form.names.index(n) for n in ("ReqTRES", "AllocTRES") if n in form.names]
    gres = [form.names.index(n) for n in ("AllocGRES",) if n in form.names]
    for line in stream:
        if b"gpu" not in line:
            continue
        fields = form.cut(line.decode("utf-8", "replace").rstrip("\r\n"))
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
    replay = Replay(stream)
    counts_gpus = any(map(sacct_json.has_gpus, _jobs_until_damage(replay.look())))
    gathered = _Gathered(options, _Notes() if counts_gpus else _Notes([_NO_GPUS]), counts_gpus)
    try:
        for name, value in read_members(replay.last_look(), "jobs"):
            gathered.add(name, value)
            if gathered.rows_in >= options.chunk_rows:
                yield gathered.chunk()
    except DataError:
        if gathered.rows_in:
            yield gathered.chunk()
        raise
    yield from gathered.rest()


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
        self.rows_in += 1
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
            self._reject(self.num_jobs, error.message, raw(job))
            return
        if entry.attempt is not None:
            self.records.append(entry.attempt)
            self.steps += entry.steps

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
