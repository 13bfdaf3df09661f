"""When the attempts of a slot were submitted: one must have ended before the next began."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection, select

from gsched.model.merge import Part
from gsched_sql.attempt_rows import in_slots
from gsched_sql.names import chunks
from gsched_sql.schema import attempts


def submits_of(
    conn: Connection, cluster: int, parts: Collection[Part]
) -> Mapping[Part, Sequence[int]]:
    """The submit times of all attempts in these slots, by slot, in order."""
    a = attempts.c
    found: dict[Part, list[int]] = {}
    query = select(a.job_id, a.array_task, a.het_offset, a.submit_time).order_by(a.submit_time)
    for some in chunks(sorted(parts), 2000):
        for *part, submit_time in conn.execute(query.where(in_slots(attempts, cluster, some))):
            found.setdefault(Part(*part), []).append(submit_time)
    return found


def next_submit(submits: Sequence[int], submit_time: int) -> int | None:
    """That of the attempt after the one submitted then; None where there is none."""
    later = submits[bisect_right(submits, submit_time) :]
    return later[0] if later else None
