"""Reads traces in tests: a reader's chunks, put together and checked."""

from __future__ import annotations

import gzip
import io
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from gsched.model.history import AttemptRecord, Reject
from gsched.model.trace import AttemptColumns, ReadOptions, TraceChunk


@dataclass
class Read:
    """What one file gave."""

    records: list[AttemptRecord] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rows_in: int = 0
    rows_skipped: int = 0
    chunks: int = 0

    def add(self, chunk: TraceChunk) -> None:
        assert chunk.rows_in == chunk.attempts.count + len(chunk.rejects) + chunk.rows_skipped
        check_columns(chunk.attempts)
        self.records += chunk.attempts.records()
        self.rejects += chunk.rejects
        self.notes += chunk.notes
        self.rows_in += chunk.rows_in
        self.rows_skipped += chunk.rows_skipped
        self.chunks += 1


def check_columns(attempts: AttemptColumns) -> None:
    """Every column has as many values as there are rows, and the needed ones are there."""
    if not attempts.count:
        return
    for name in ("cluster", "job_id", "submit_time", "state", "state_text", "source"):
        assert None not in attempts.column(name), name
    assert {len(attempts.column(name)) for name in attempts.columns} == {attempts.count}


def read_bytes(name: str, data: bytes | str, file_name: str = "t.csv", **options: Any) -> Read:
    """What the reader of format `name` makes of some bytes."""
    reader = import_module(f"gsched.traces.{name}").read
    raw = data.encode() if isinstance(data, str) else data
    result = Read()
    for chunk in reader(io.BytesIO(raw), ReadOptions(file_name, **options)):
        result.add(chunk)
    return result


def read_file(name: str, path: Path, **options: Any) -> Read:
    """What the reader makes of a file, gzip'd or not."""
    return read_bytes(name, plain_bytes(path), str(path), **options)


def plain_bytes(path: Path) -> bytes:
    """The content of a file, gzip'd or not."""
    data = path.read_bytes()
    return gzip.decompress(data) if path.suffix == ".gz" else data
