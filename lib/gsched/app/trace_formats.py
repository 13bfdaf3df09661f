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

from gsched.errors import DataError, GschedError, UsageError

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

_GPU_TELLERS = {
    "sacct": "gsched.slurm.sacct_file:text_tells_gpus",
    "sacct-json": "gsched.slurm.sacct_file:json_tells_gpus",
}
"""Formats that tell GPUs only where the cluster accounts for them → which looks whether it does."""


def reader_of(format_name: str) -> Reader:
    """The reader of a format in FORMATS."""
    reader: Reader = _named(FORMATS[format_name])
    return reader


def in_reading_order(format_name: str, files: Sequence[str]) -> list[str]:
    """Files of one import, those first without which a reader does not understand the others."""
    order_of = getattr(_module(format_name), "order_of", None)
    return sorted(files, key=order_of) if order_of else list(files)


def _module(format_name: str) -> ModuleType:
    return importlib.import_module(FORMATS[format_name].partition(":")[0])


def _named(target: str) -> Any:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class TraceOptions:
    """What a command line says of the files to be read, the same for each of them.

    `timezone` is a name of the IANA database (``Europe/Berlin``) for times without a zone; None:
    UTC. `columns` is the MAP.toml of format ``csv``, `fields` a file with the names of the columns
    of ``sacct`` text that has no header. `gpus` is ``counted`` where the accounting that was saved
    as ``sacct`` or ``sacct-json`` tells GPUs, ``uncounted`` where it does not, None where the files
    show it.

    Raises UsageError where the options do not fit together, DataError for what a named file holds.
    """

    format: str
    cluster: str | None = None
    timezone: str | None = None
    columns: Path | None = None
    fields: Path | None = None
    gpus: str | None = None
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
        if self.format not in _GPU_TELLERS and self.gpus is not None:
            raise UsageError(f"--gpus is for formats {', '.join(_GPU_TELLERS)}, not {self.format}")
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

    def counts_gpus(self, files: Sequence[str]) -> bool | None:
        """Whether the accounting that all these files were saved of tells GPUs.

        So it does where any row does; None where that need not be decided, or by the reader of the
        only file. Raises UsageError where it cannot be: with several files of which one can be
        read only once.
        """
        if self.gpus is not None or self.format not in _GPU_TELLERS:
            return None if self.gpus is None else self.gpus == "counted"
        from gsched.traces.source import flows

        if any(self._tells_gpus(name) for name in files if not flows(name)):
            return True
        flowing = [name for name in files if flows(name)]
        if flowing and len(files) > 1:
            raise UsageError(
                f"{flowing[0]} can be read only once, and whether the accounting tells GPUs is to "
                "be decided by all files before the first is read",
                "say --gpus counted or --gpus uncounted, or save it into a file",
            )
        return None if flowing else False

    def _tells_gpus(self, name: str) -> bool:
        """A file that cannot be read tells nothing; its reading will tell why."""
        from gsched.traces.source import open_trace

        try:
            with open_trace(name) as stream:
                tells: bool = _named(_GPU_TELLERS[self.format])(stream, self.for_file(name, {}))
                return tells
        except GschedError:
            return False

    def for_file(
        self, file_name: str, seen: dict[str, Any], counts_gpus: bool | None = None
    ) -> ReadOptions:
        """What the reader of one file is told.

        `seen` is shared by all files of one import, and `counts_gpus` is theirs.
        """
        from gsched.model.trace import ReadOptions

        return ReadOptions(
            file_name,
            cluster=self.cluster,
            timezone=self._zone,
            sacct_fields=self._sacct_fields,
            counts_gpus=counts_gpus,
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
