"""Reads a file of node counts over time: a CSV file with a moment and counts in each row.

The first row names the columns. ``time`` is ISO 8601, without an offset in the zone that the caller
names; `busy` and `total` are the caller's names of the columns with the nodes that run something
and with all nodes there are. The Helios artifact has Philly's as ``time,active,total``, a row a
minute (``framework/CES Service/data``), and Earth's GPUs as ``running_gpu_num,total_gpu_num``.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from gsched.demand.series import DemandSeries
from gsched.errors import DataError
from gsched.text_lines import text_lines

MAX_STEPS = 6_000_000
"""Steps from the first to the last row: eleven years of minutes. More are a wrong moment."""

MAX_COUNT = 10_000_000
"""Nodes or GPUs; more are a wrong number."""


@dataclass(frozen=True, slots=True)
class NodeSeries:
    """How many were in use and how many there were, at the same steps."""

    busy: DemandSeries
    total: DemandSeries


def read_node_series(
    stream: BinaryIO,
    *,
    busy: str = "active",
    total: str = "total",
    step_s: int = 60,
    zone: tzinfo = UTC,
    unit: str = "nodes",
) -> NodeSeries:
    """The series of a file, in steps of `step_s`.

    Rows may come in any order and leave gaps; of several in one step the greatest counts. Raises
    DataError, with the line, for a missing column, a wrong moment, or a count that is none.
    """
    rows = _rows(stream, ("time", busy, total), zone)
    found = np.array(list(rows), dtype=np.float64).reshape(-1, 3)
    if not len(found):
        raise DataError("the node series has no rows")
    steps = (found[:, 0] // step_s).astype(np.int64)
    first, count = int(steps.min()), int(steps.max() - steps.min()) + 1
    if count > MAX_STEPS:
        raise DataError(
            f"the node series spans {count:,} steps of {step_s} s",
            hint=f"at most {MAX_STEPS:,} are read: look for a row with a wrong moment",
        )
    columns = (_greatest(steps - first, found[:, column], count) for column in (1, 2))
    return NodeSeries(*(DemandSeries(first * step_s, step_s, each, unit) for each in columns))


def _greatest(
    steps: NDArray[np.int64], values: NDArray[np.float64], count: int
) -> NDArray[np.float64]:
    found = np.full(count, -np.inf)
    np.fmax.at(found, steps, values)  # NaN, an empty field, is less than any number
    return np.where(np.isinf(found), np.nan, found)


def _rows(
    stream: BinaryIO, columns: Sequence[str], zone: tzinfo
) -> Iterator[tuple[float, float, float]]:
    reader = csv.reader(text_lines(stream))
    try:
        header = next(reader, [])
        missing = [name for name in columns if name not in header]
        if missing:
            raise DataError(
                f"the node series has no column {', '.join(missing)}",
                hint=f"its first line names {', '.join(header)[:200] or 'nothing'}",
            )
        places = [header.index(name) for name in columns]
        for row in reader:
            if not row:
                continue
            if len(row) <= max(places):
                raise DataError(f"line {reader.line_num} of the node series is cut off")
            moment, busy, total = (row[place] for place in places)
            yield (
                _moment(moment, zone, reader.line_num),
                _count(busy, reader.line_num),
                _count(total, reader.line_num),
            )
    except csv.Error as error:
        raise DataError(f"line {reader.line_num} of the node series: {error}") from error


def _moment(text: str, zone: tzinfo, line: int) -> float:
    try:
        moment = datetime.fromisoformat(text.strip())
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError) as error:
        raise DataError(f"line {line} of the node series: {text[:60]!r} is no moment") from error


def _count(text: str, line: int) -> float:
    """A count, NaN where the field is empty."""
    if not text.strip():
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MAX_COUNT:
        raise DataError(f"line {line} of the node series: {text[:60]!r} is no count")
    return value
