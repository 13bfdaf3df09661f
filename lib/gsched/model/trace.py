"""Attempts by column, as readers of files deliver them: chunks of a trace or of saved accounting.

A trace has millions of rows and most columns of it hold one value or few, so that a chunk keeps a
list a column instead of an object a row, and one `Constant` for a column that is everywhere the
same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, tzinfo
from typing import Any, BinaryIO

from gsched.model.history import AttemptRecord, Reject, StepRecord

CHUNK_ROWS = 20_000
"""Rows that a reader gathers before it hands them on."""

ATTEMPT_FIELDS = tuple(field.name for field in fields(AttemptRecord))

INTEGER_FIELDS = frozenset(
    field.name for field in fields(AttemptRecord) if field.type in ("int", "int | None")
)
"""Fields of AttemptRecord that are whole numbers."""


@dataclass(frozen=True, slots=True)
class Constant:
    """The value that a column has in every row."""

    value: Any


Cells = Sequence[Any] | Constant
"""One column: a value for each row, or one for all."""


@dataclass(frozen=True, slots=True)
class AttemptColumns:
    """Some attempts, column by column.

    `columns` go by the fields of `AttemptRecord` and hold what those would; a field without a
    column has its default (None, or no TRES). `count` is the number of rows.
    """

    count: int
    columns: Mapping[str, Cells]

    def column(self, name: str) -> Sequence[Any]:
        """The values of a field, row by row."""
        cells = self.columns.get(name, _DEFAULTS.get(name, Constant(None)))
        return [cells.value] * self.count if isinstance(cells, Constant) else cells

    def records(self) -> Iterator[AttemptRecord]:
        """The same as records."""
        listed = [self.column(name) for name in ATTEMPT_FIELDS]
        return (AttemptRecord(*row) for row in zip(*listed, strict=True))


_DEFAULTS = {"requested": Constant(()), "allocated": Constant(())}


def columns_of(records: Sequence[AttemptRecord]) -> AttemptColumns:
    """Records as columns."""
    return AttemptColumns(
        len(records), {name: [getattr(r, name) for r in records] for name in ATTEMPT_FIELDS}
    )


@dataclass(frozen=True, slots=True)
class TraceChunk:
    """What some rows of a file gave. rows_in = attempts.count + len(rejects) + rows_skipped.

    A reject's `line` is the line of the file (the element, from 1, of a JSON list) where its row
    begins. `rows_skipped` are rows that are understood and no attempts: job steps, comments that
    stand for rows; `steps` are those steps where they are wanted. `notes` are one-line remarks for
    the person who imports, each said once.
    """

    attempts: AttemptColumns
    rejects: tuple[Reject, ...] = ()
    rows_in: int = 0
    rows_skipped: int = 0
    notes: tuple[str, ...] = ()
    steps: tuple[StepRecord, ...] = ()


@dataclass(slots=True)
class ReadOptions:
    """What a reader is told beside the bytes.

    `file_name` is the name in messages and in `Reject.source` (``philly:philly.csv.gz``), ``-`` for
    standard input. `cluster` is the cluster of every row; None: the file's own, else the format's
    name. `timezone` holds for times without one. `sacct_fields` are the columns of sacct text
    without header, `keep_steps` whether a chunk of sacct's carries job steps, `counts_gpus`
    whether a job for which sacct tells no gres/gpu has none (None: where any row of the file tells
    some), else its number is not known. `column_map` is the
    parsed MAP.toml of format ``csv``. `seen` is what readers keep from file to file of one import,
    each by a name of its own: rows of formats that number no jobs (``gsched.traces.identity``),
    tables that belong together (``gsched.traces.pai``).
    """

    file_name: str
    cluster: str | None = None
    timezone: tzinfo = UTC
    sacct_fields: tuple[str, ...] | None = None
    keep_steps: bool = False
    counts_gpus: bool | None = None
    column_map: Mapping[str, Any] | None = None
    chunk_rows: int = CHUNK_ROWS
    seen: dict[str, Any] = field(default_factory=dict)


Reader = Callable[[BinaryIO, ReadOptions], Iterator[TraceChunk]]
"""Reads the uncompressed bytes of one file. Raises DataError for a file that is not the format."""
