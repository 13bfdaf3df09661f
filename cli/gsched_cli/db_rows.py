"""What `gsched db stats` prints, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gsched_cli.output import count, local_time, memory

if TYPE_CHECKING:
    from gsched_sql import HistoryStats

_MONTHS = 12
"""So many of the last months are shown; JSON has all."""


def stats_rows(found: HistoryStats) -> list[tuple[str, str]]:
    """(what, is) of everything that there is to say."""
    of = f"{count(found.gpu_time_jobs)} of {count(found.finished_jobs)} finished jobs"
    a_job = "" if found.bytes_a_job is None else f", {found.bytes_a_job:,.0f} bytes a job"
    rows = [
        ("database", found.location),
        ("schema", found.revision),
        ("size", memory(found.size_bytes) + a_job),
        ("first submit", local_time(found.first_submit)),
        ("last end", local_time(found.last_end)),
        ("GPU time", f"{gpu_hours(found.gpu_time_s)} over {of}"),
    ]
    rows += [(f"jobs {state}", count(number)) for state, number in found.states.items()]
    rows += [
        (f"attempts in the unknown state {text}", count(number))
        for text, number in found.unknown_states.items()
    ]
    rows += _phase_rows(found)
    months = list(found.jobs_by_month.items())[-_MONTHS:]
    rows += [(f"jobs submitted in {month}", count(number)) for month, number in months]
    rows += [(f"conflicts about {field}", count(n)) for field, n in found.conflicts.items()]
    rows += [(f"rejects of {r.source}", f"{count(r.count)}: {r.reason}") for r in found.rejects]
    rows += [
        (f"pruned on {cluster}", f"what ended before {local_time(before)}")
        for cluster, before in found.prune_marks.items()
    ]
    rows += [(f"last read of {told.source}", local_time(told.at)) for told in found.last_ingests]
    return rows + [
        (f"rows of {table}", f"{count(number)}{_size(found, table)}")
        for table, number in found.rows.items()
    ]


def gpu_hours(gpu_time_s: int) -> str:
    """GPU-time in the unit of accounts, beyond what a duration shows."""
    return f"{gpu_time_s / 3600:,.1f} GPU-hours"


def _phase_rows(found: HistoryStats) -> list[tuple[str, str]]:
    total = sum(phase.jobs for phase in found.phases)
    return [
        (
            f"jobs of phase {phase.phase}" if phase.phase else "jobs unclassified",
            f"{count(phase.jobs)}, {phase.jobs / total:.1%}",
        )
        for phase in found.phases
    ]


def _size(found: HistoryStats, table: str) -> str:
    size = found.bytes_by_table.get(table)
    return "" if size is None else f", {memory(size)}"
