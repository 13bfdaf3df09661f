"""Output of sprio(1) → priorities. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gsched.errors import DataError
from gsched.slurm.line_cache import LineCache
from gsched.slurm.records import PriorityRow

# Job id, total, SiteFactor ("admin priority"), nice and the weighted components, see sprio(1).
_LETTERS = ("i", "Y", "S", "N", "A", "B", "F", "J", "P", "Q", "T")
_COMPONENTS = ("age", "assoc", "fairshare", "jobsize", "partition", "qos", "tres")
_NONE_OF_THEM = "Unable to find jobs"  # said on stdout, of jobs asked for by their ids

PriorityCache = LineCache[PriorityRow]
"""What was read of the jobs in sprio's last output."""


def sprio_format(separator: str) -> str:
    """The argument of ``sprio -o``."""
    return "".join(f"%{letter}{separator}" for letter in _LETTERS)


def priority_cache() -> PriorityCache:
    """An empty one."""
    return LineCache(_priority_row)


def parse_priorities(
    text: str, separator: str, cache: PriorityCache | None = None
) -> dict[int, PriorityRow]:
    """The rows of ``sprio -h -o`` by raw id. Raises DataError when the output is cut short.

    A job in several partitions has a line for each: the one with the highest total counts, for
    that is the one by which Slurm looks at it first. Their SiteFactor is one, the job's. A job
    array that waits as a whole has the line of the array's own number, a task that was split off
    it and each part of a heterogeneous job one of its own. With `cache`, rows that stood in the
    output before are the same objects as then.
    """
    if text.startswith(_NONE_OF_THEM):
        return {}
    rows: dict[int, PriorityRow] = {}
    for row in (cache or priority_cache()).values(text, separator, len(_LETTERS)):
        known = rows.get(row.raw_id)
        if known is None or known.total < row.total:
            rows[row.raw_id] = row
    return rows


def _priority_row(record: Sequence[str]) -> PriorityRow:
    if len(record) != len(_LETTERS):
        raise DataError(f"sprio gave a broken record: {record!r}")
    try:
        raw_id, total, site_factor, nice = map(int, record[:4])
        *plain, tres = (field.strip() for field in record[4:])
        points = [round(float(value)) for value in plain] + [_tres_points(tres)]
        return PriorityRow(
            raw_id=raw_id,
            total=total,
            site_factor=site_factor,
            nice=nice,
            components=dict(zip(_COMPONENTS, points, strict=True)),
            is_manual=_is_manual(total, points, site_factor - nice),
        )
    except ValueError:
        raise DataError(f"sprio gave a row that is none: {record!r}") from None


def _tres_points(text: str) -> int:
    """Sum of ``cpu=0,gres/gpu=125``: the weighted TRES component is a list."""
    return sum(round(float(value)) for value in re.findall(r"=(-?\d+(?:\.\d+)?)", text))


def _is_manual(total: int, points: list[int], adjustment: int) -> bool:
    """Whether an admin has set this priority: no factor counts, and the total is not their sum.

    Slurm never lets a computed priority fall below 1, and rounds every factor to a whole point.
    """
    return not any(points) and abs(total - max(1, adjustment)) > len(points)
