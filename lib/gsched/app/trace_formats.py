"""The formats in which past jobs can be read from files, and what a reader is told beside the file.

This module is loaded for the names alone (help, completion): readers are imported on first use.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from gsched.errors import DataError, UsageError

if TYPE_CHECKING:
    from gsched.model.trace import Reader, ReadOptions

FORMATS: dict[str, str] = {
    "sacct": "gsched.slurm.sacct_file:read_text",
    "sacct-json": "gsched.slurm.sacct_file:read_json",
    "helios": "gsched.traces.helios:read",
    "philly": "gsched.traces.philly:read",
    "acme": "gsched.traces.acme:read",
    "pai": "gsched.traces.pai:read",
    "swf": "gsched.traces.swf:read",
    "itp": "gsched.traces.itp:read",
    "openb": "gsched.traces.openb:read",
    "chronus": "gsched.traces.chronus:read",
    "elasticflow": "gsched.traces.elasticflow:read",
    "titan": "gsched.traces.titan:read",
    "muri": "gsched.traces.muri:read",
    "gsched": "gsched.traces.gsched_format:read",
    "csv": "gsched.traces.mapped:read",
}
"""Format → ``module:function`` of its reader."""


def reader_of(format_name: str) -> Reader:
    """The reader of a format in FORMATS."""
    reader: Reader = getattr(_module(format_name), FORMATS[format_name].partition(":")[2])
    return reader


def in_reading_order(format_name: str, files: Sequence[str]) -> list[str]:
    """Files of one import, those first without which a reader does not understand the others."""
    order_of = getattr(_module(format_name), "order_of", None)
    return sorted(files, key=order_of) if order_of else list(files)


def _module(format_name: str) -> ModuleType:
    return importlib.import_module(FORMATS[format_name].partition(":")[0])


@dataclass(frozen=True)
class TraceOptions:
    """What a command line says of the files to be read, the same for each of them.

    `timezone` is a name of the IANA database (``Europe/Berlin``) for times without a zone; None:
    UTC. `columns` is the MAP.toml of format ``csv``, `fields` a file with the names of the columns
    of ``sacct`` text that has no header.

    Raises UsageError where the options do not fit together, DataError for what a named file holds.
    """

    format: str
    cluster: str | None = None
    timezone: str | None = None
    columns: Path | None = None
    fields: Path | None = None
    _zone: tzinfo = field(init=False, default=UTC)
    _column_map: Mapping[str, Any] | None = field(init=False, default=None)
    _sacct_fields: tuple[str, ...] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.format == "csv" and self.columns is None:
            raise UsageError(
                "format csv needs --columns MAP.toml", "gsched-columns(5) says what it holds"
            )
        if self.format != "csv" and self.columns is not None:
            raise UsageError(f"--columns is for format csv, not {self.format}")
        if self.format != "sacct" and self.fields is not None:
            raise UsageError(f"--fields is for format sacct, not {self.format}")
        if self.cluster == "":
            raise UsageError("--cluster: the name of a cluster is not empty")
        read: dict[str, Any] = {
            "_zone": UTC if self.timezone is None else _zone(self.timezone),
            "_sacct_fields": None if self.fields is None else _sacct_fields(self.fields),
        }
        if self.columns is not None:
            from gsched.traces.column_map import load

            read["_column_map"] = load(self.columns)
        for name, value in read.items():
            object.__setattr__(self, name, value)

    def for_file(self, file_name: str, seen: dict[str, Any]) -> ReadOptions:
        """What the reader of one file is told; `seen` is shared by all files of one import."""
        from gsched.model.trace import ReadOptions

        return ReadOptions(
            file_name,
            cluster=self.cluster,
            timezone=self._zone,
            sacct_fields=self._sacct_fields,
            column_map=self._column_map,
            seen=seen,
        )


def _zone(name: str) -> tzinfo:
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a key, a folder of the zone database
        raise UsageError(
            f"--timezone: no such time zone: {name!r}", "write a name such as Europe/Berlin or UTC"
        ) from None


def _sacct_fields(path: Path) -> tuple[str, ...]:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as e:
        raise UsageError(f"--fields: cannot read {path}: {e.strerror}") from e
    names = tuple(filter(None, re.split(r"[|,\s]+", text)))
    if not names:
        raise DataError(f"--fields: {path} names no column", "one name a line, as sacct -o takes")
    return names
