"""Outputs of Slurm's commands cut into fields, so that no text of a user can shift a column.

Every field is followed by a separator that is drawn anew for each call; the whole output is cut at
it and dealt out in records of a fixed number of fields.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache

from gsched.errors import DataError
from gsched.model.job import UNLIMITED_S
from gsched.model.units import UNSET, parse_time_limit

_YEAR_S = 365 * 86400


def new_separator() -> str:
    """A separator that nobody could have put into a job: control characters and 64 random bits."""
    return f"\x1f{os.urandom(8).hex()}\x1e"


def split_records(text: str, separator: str, width: int) -> Iterator[list[str]]:
    """The records of an output as lists of `width` fields; the last one has what there is of it.

    Raises DataError when a record does not begin on a line of its own (fields are missing), and
    when the output does not end as a record does: it was cut short, or is none of Slurm's.
    """
    fields = text.split(separator)
    rest = fields.pop()  # the line end after the last record
    if rest != "\n" and (rest or len(fields) % width):
        raise DataError("output that was cut short")
    for begin in range(0, len(fields), width):
        record = fields[begin : begin + width]
        if begin:
            if not record[0].startswith("\n"):
                raise DataError(f"output with other than {width} fields a record")
            record[0] = record[0][1:]
        yield record


def parse_time(value: str) -> int | None:
    """Epoch seconds as Slurm prints them with SLURM_TIME_FORMAT=%s; None where it has none."""
    if value.isdecimal():
        return int(value) or None
    if value in UNSET:
        return None
    raise DataError(f"not an epoch time: {value!r}")


@lru_cache(maxsize=4096)
def time_limit(text: str) -> int | None:
    """Seconds, UNLIMITED_S or None. Slurm shows a year for a job that it started without limit."""
    seconds = parse_time_limit(text)
    return UNLIMITED_S if seconds == _YEAR_S else seconds
