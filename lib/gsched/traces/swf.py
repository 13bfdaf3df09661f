"""The Standard Workload Format, 2.2, of the Parallel Workloads Archive → attempts.

Source: https://www.cs.huji.ac.il/labs/parallel/workload/swf.html. A row has 18 fields, -1 for what
is not known; ``;`` begins a comment. Times count from the header's UnixStartTime, else from 1970.

- Numbers of users, groups and executables become names: ``user12``, ``group3`` (the tenant),
  ``executable7`` (the job's name). A queue is the QOS and a partition the partition, by their
  names in the header where it has them.
- The format knows processors only: GPUs are 0, nodes are not known. Requested memory is told in
  KB a processor; what would be more than 16 TiB a processor stays as it is in `extra`.
- A job without waiting time (the log has none) starts when it is submitted; one that was cancelled
  without having run has no start. One without status that has ended is stored as COMPLETED, with an
  empty text of its state.
- A job that was swapped out has a line that sums it up and, behind it, a line for each of its
  partial executions (status 2, 3, 4). The first is the job, the others are skipped, as the standard
  asks of those who study workloads.
- Fields that gsched has no place for, and those behind the 18th, are kept in `extra`.
- A file has one header. Where a second one that says otherwise follows rows, two logs were put
  together, whose job numbers would be taken for the same jobs: it is refused from that line on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import BinaryIO

from gsched.errors import DataError
from gsched.model.history import Reject, Tres
from gsched.model.job import JobState
from gsched.model.trace import AttemptColumns, Cells, Constant, ReadOptions, TraceChunk
from gsched.text_lines import MAX_LINE_CHARS, TOO_LONG, shortened, text_lines
from gsched.traces.cells import MAX_TIME, number_of, shown
from gsched.traces.identity import cluster_of_file
from gsched.traces.table import Reading, Table, TableFormat, converted, empty
from gsched.traces.workload import say_named_after_file

FIELDS = (
    "job_number",
    "submit_time",
    "wait_time_s",
    "run_time_s",
    "allocated_processors",
    "average_cpu_time_s",
    "used_memory_kb",
    "requested_processors",
    "requested_time_s",
    "requested_memory_kb",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding_job",
    "think_time_s",
)
"""The fields of a row, in their order."""

_EXTRA = ("average_cpu_time_s", "used_memory_kb", "preceding_job", "think_time_s")
_STATES = {0: JobState.FAILED, 1: JobState.COMPLETED, 5: JobState.CANCELLED}
_PARTIAL = frozenset({"2", "3", "4"})
_MOST = 2**53
_MAX_MEMORY_KB = 2**34  # 16 TiB
_HEADER = re.compile(r";+\s*([A-Za-z]\w*):\s*(.*)")
_NAMED = re.compile(r"(\d{1,18})\s+(\S+)", re.ASCII)
_TOLD = frozenset(
    {
        "Computer",
        "Installation",
        "Acknowledge",
        "Conversion",
        "UnixStartTime",
        "TimeZoneString",
        "MaxNodes",
        "MaxProcs",
        "MaxJobs",
        "Preemption",
    }
)
"""Lines of the header that the person who imports is told."""


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of one file.

    Raises DataError when none of its first rows has 18 fields, for an empty file, and for a second
    log behind the first, after the rows before it.
    """
    log = _Log(options)
    lines = text_lines(stream)
    first = 1
    while block := list(islice(lines, options.chunk_rows)):
        yield log.chunk(block, first)
        first += len(block)
        if log.fault is not None:
            raise log.fault
    if log.is_blank:
        raise empty(options)


class _Rows:
    """Rows that are left, each with its line, and those that are not understood."""

    def __init__(self, source: str) -> None:
        self.fields: list[list[str]] = []
        self.lines: list[int] = []
        self.rejects: list[Reject] = []
        self._source = source

    def reject(self, line: int, reason: str, fields: Sequence[str]) -> None:
        self.rejects.append(Reject(self._source, line, reason, shortened(" ".join(fields))))


class _Log:
    """One file: what its header says, and the job that a partial execution belongs to."""

    def __init__(self, options: ReadOptions) -> None:
        self._format = TableFormat("swf", FIELDS, (), self._columns)
        self._reading = Reading(options, {})
        self._cluster = cluster_of_file(options, "swf")
        say_named_after_file(self._reading, self._cluster)
        self._start_time = 0
        self._names: dict[tuple[str, int], str] = {}
        self._header: list[str] = []
        self._has_rows = False
        self._last_job = ""
        self._computer = ""
        self.is_blank = True  # nothing but blank lines so far
        self.fault: DataError | None = None  # what ends the reading

    def chunk(self, block: Sequence[str], first: int) -> TraceChunk:
        """The jobs of some lines; `first` is the number of the first of them."""
        rows = _Rows(self._format.source_of(self._reading.options))
        num_rows = 0
        for line, text in enumerate(block, first):
            fields = text.split()
            if not fields:
                continue
            self.is_blank = False
            if fields[0].startswith(";"):
                self._take_comment(text, line, is_late=self._has_rows or num_rows > 0)
                if self.fault is not None:
                    break
                continue
            num_rows += 1
            if len(text) >= MAX_LINE_CHARS:
                rows.reject(line, TOO_LONG, fields)
            elif len(fields) < len(FIELDS):
                reason = f"{len(fields)} fields where SWF has {len(FIELDS)}"
                rows.reject(line, reason, fields)
            else:
                rows.fields.append(fields)
                rows.lines.append(line)
        self._check_is_swf(rows, num_rows)
        num_partial = self._skip_partial(rows)
        attempts = self._attempts(rows)
        rejects = tuple(sorted(rows.rejects, key=lambda reject: reject.line))
        return TraceChunk(attempts, rejects, num_rows, num_partial, self._reading.new_notes())

    def _take_comment(self, text: str, line: int, *, is_late: bool) -> None:
        match = _HEADER.match(text)
        if match is None:
            return
        key, told = match[1], match[2].strip()
        before = self._start_time, self._computer, dict(self._names)
        if key == "UnixStartTime" and (start := number_of(told)) is not None:
            self._start_time = int(start)
        if key == "Computer":
            self._computer = told
        if key in ("Queue", "Partition") and (named := _NAMED.match(told)):
            self._names[key.lower(), int(named[1])] = named[2]
        if is_late:
            if before != (self._start_time, self._computer, self._names):
                self._start_time, self._computer, self._names = before
                self.fault = self._second_header(line, f"{key}: {shown(told)[1:-1]}")
        elif key in _TOLD and told:
            self._header.append(f"{key}: {shown(told)[1:-1]}")

    def _second_header(self, line: int, told: str) -> DataError:
        return DataError(
            f"{self._reading.options.file_name}: line {line} begins another log ({told}): its jobs "
            "have the numbers of other jobs",
            "split the file there, and import each log under a --cluster of its own",
        )

    def _check_is_swf(self, rows: _Rows, num_rows: int) -> None:
        if num_rows and not self._has_rows:
            self._has_rows = True
            if not rows.fields:
                raise DataError(
                    f"{self._reading.options.file_name}: not an SWF log: "
                    f"{rows.rejects[0].reason} in line {rows.rejects[0].line}",
                    "a row of SWF has 18 numbers with blanks between them",
                )
            if self._header:
                self._reading.note(f"header: {'; '.join(self._header)}")
            if not self._start_time:
                self._reading.note("no UnixStartTime: times are taken to count from 1970")

    def _skip_partial(self, rows: _Rows) -> int:
        """Take the partial executions out of `rows`; how many of them have their job's row."""
        status = FIELDS.index("status")
        if not rows.fields:
            return 0
        if _PARTIAL.isdisjoint(fields[status] for fields in rows.fields):
            self._last_job = rows.fields[-1][0]
            return 0
        kept, num_partial = _Rows(""), 0
        for line, fields in zip(rows.lines, rows.fields, strict=True):
            if fields[status] not in _PARTIAL:
                self._last_job = fields[0]
                kept.fields.append(fields)
                kept.lines.append(line)
            elif fields[0] == self._last_job:
                num_partial += 1
            else:
                rows.reject(line, "a partial execution without the row of its whole job", fields)
        rows.fields, rows.lines = kept.fields, kept.lines
        if num_partial:
            self._reading.note("partial executions (status 2 to 4) are skipped: see their jobs")
        return num_partial

    def _attempts(self, rows: _Rows) -> AttemptColumns:
        width = max(map(len, rows.fields), default=len(FIELDS))
        names = (*FIELDS, *(f"column_{number}" for number in range(len(FIELDS) + 1, width + 1)))
        if any(len(fields) < width for fields in rows.fields):
            padded = [fields + [""] * (width - len(fields)) for fields in rows.fields]
        else:
            padded = rows.fields
        columns = dict(zip(names, zip(*padded, strict=True), strict=False))
        table = Table(self._reading, columns, names[len(FIELDS) :], len(padded))
        attempts, bad = converted(table, self._format)
        for row, reason in bad.items():
            rows.reject(rows.lines[row], reason, rows.fields[row])
        return AttemptColumns(table.count - len(bad), attempts)

    def _columns(self, table: Table) -> dict[str, Cells]:
        numbers = {name: _numbers(name, table.cells(name)) for name in FIELDS}
        submits = [self._start_time + after for after in numbers["submit_time"]]
        _check("submit_time", submits, 0, MAX_TIME)
        _check("job_number", numbers["job_number"], 0, _MOST)
        starts, ends, assumed = self._times(submits, numbers)
        allocated, requested = numbers["allocated_processors"], numbers["requested_processors"]
        states, state_texts = self._states(numbers["status"], ends)
        memory = numbers["requested_memory_kb"]
        more = {name: _known(numbers[name]) for name in _EXTRA}
        more["requested_memory_kb"] = [kb if kb > _MAX_MEMORY_KB else None for kb in memory]
        return {
            "cluster": Constant(self._cluster),
            "source": Constant("swf"),
            "job_id": numbers["job_number"],
            "submit_time": submits,
            "start_time": starts,
            "start_assumed": assumed if any(assumed) else Constant(None),
            "end_time": ends,
            "state": states,
            "state_text": state_texts,
            "user": self._named("user", numbers["user"]),
            "tenant": self._named("group", numbers["group"]),
            "name": self._named("executable", numbers["executable"]),
            "qos": self._named("queue", numbers["queue"]),
            "partition": self._named("partition", numbers["partition"]),
            "time_limit_s": _known(numbers["requested_time_s"]),
            "num_cpus": [
                a if a > 0 else (r if r > 0 else None)
                for a, r in zip(allocated, requested, strict=True)
            ],
            "num_gpus": Constant(0),
            "requested": list(map(_requested, requested, memory)),
            "allocated": list(map(_allocated, allocated)),
            "extra": table.extras(more),
        }

    def _times(
        self, submits: Sequence[int], numbers: dict[str, list[int]]
    ) -> tuple[list[int | None], list[int | None], list[int | None]]:
        """When jobs started and ended, and 1 where the start is an assumption."""
        waits, runs = numbers["wait_time_s"], numbers["run_time_s"]
        starts: list[int | None] = []
        ends: list[int | None] = []
        assumed: list[int | None] = []
        for submit, wait, run, status, processors in zip(
            submits, waits, runs, numbers["status"], numbers["allocated_processors"], strict=True
        ):
            left_queue = submit + max(wait, 0)
            never_ran = _STATES.get(status) is JobState.CANCELLED and run <= 0 and processors <= 0
            knows_start = run >= 0 or wait >= 0
            starts.append(left_queue if knows_start and not never_ran else None)
            ends.append(left_queue + max(run, 0) if run >= 0 or (never_ran and wait >= 0) else None)
            is_assumed = wait < 0 <= run and not never_ran
            assumed.append(1 if is_assumed else None)
            if is_assumed:
                self._reading.note("no waiting time in some rows: start is taken to be submit")
        return starts, ends, assumed

    def _states(
        self, status: Sequence[int], ends: Sequence[int | None]
    ) -> tuple[list[JobState], list[str]]:
        """States and their texts; a job that has ended without one is stored as others are."""
        if not _STATES.keys() >= set(status) - {-1}:
            raise DataError("status is none of -1 to 5")
        if -1 in status:
            self._reading.note("some rows have no status: their jobs are stored as COMPLETED")
        ended_or_not = (JobState.UNKNOWN, JobState.COMPLETED)
        states = [
            _STATES.get(code) or ended_or_not[end is not None]
            for code, end in zip(status, ends, strict=True)
        ]
        texts = ["" if c < 0 else state.value for c, state in zip(status, states, strict=True)]
        return states, texts

    def _named(self, kind: str, numbers: Sequence[int]) -> Cells:
        """Names of numbered things."""
        names = {n: self._names.get((kind, n), f"{kind}{n}") for n in set(numbers) - {-1}}
        return [names.get(n) for n in numbers] if names else Constant(None)


def _numbers(name: str, cells: Sequence[str]) -> list[int]:
    """A column of numbers, -1 where it is not known; fractions are rounded."""
    try:
        if "_" in "".join(cells):  # which Python takes within numbers
            raise ValueError
        numbers = list(map(int, cells))
    except ValueError:
        numbers = [_number(name, cell) for cell in cells]
    _check(name, numbers, -1, _MOST)
    return numbers


def _number(name: str, cell: str) -> int:
    try:
        number = number_of(cell)
    except DataError as e:
        raise DataError(f"{name}: {e.message}") from None
    if number is None:
        raise DataError(f"{name}: not a number: {shown(cell)}")
    return round(number)


def _check(name: str, numbers: Sequence[int], least: int, most: int) -> None:
    if min(numbers) < least or max(numbers) > most:
        wrong = next(n for n in numbers if not least <= n <= most)
        raise DataError(f"{name}: {str(wrong)[:30]} is not within {least} and {most}")


def _known(numbers: Sequence[int]) -> list[int | None]:
    return [None if number < 0 else number for number in numbers]


@lru_cache(maxsize=10_000)
def _requested(processors: int, memory_kb: int) -> tuple[Tres, ...]:
    """What a job asked for; memory is told for each processor."""
    if processors <= 0:
        return ()
    if not 0 < memory_kb <= _MAX_MEMORY_KB:
        return (Tres("cpu", processors),)
    return (Tres("cpu", processors), Tres("mem", processors * memory_kb * 1024))


@lru_cache(maxsize=10_000)
def _allocated(processors: int) -> tuple[Tres, ...]:
    return (Tres("cpu", processors),) if processors > 0 else ()
