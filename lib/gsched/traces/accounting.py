"""What Helios and Acme share: tables made of a scheduler's accounting, one row a job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from gsched.model.job import JobState
from gsched.model.trace import Cells, Constant
from gsched.traces.cells import check_order, given, settled
from gsched.traces.identity import numbers_or_texts
from gsched.traces.table import Table
from gsched.traces.workload import disagreeing, say_start_is_submit

NEEDED = ("job_id", "state", "submit_time", "gpu_num")
TIMES = ("start_time", "end_time", "duration", "queue", "gpu_time")
OTHERS = ("cpu_num", "node_num", "user")

STATE_WORDS: Mapping[str, JobState] = MappingProxyType(
    {
        "pass": JobState.COMPLETED,
        "killed": JobState.CANCELLED,
        "canceled": JobState.CANCELLED,
        "succeeded": JobState.COMPLETED,
    }
)
"""States of derived tables, which use the words of Philly's original log."""

Seconds = Sequence[int | None]


def accounted(
    table: Table,
    format_name: str,
    cluster: str,
    kept: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Cells]:
    """Everything but tenant, name and phase.

    `extra` has the derived columns where they disagree, and `kept`.
    """
    reading = table.reading
    states = table.states("state")
    submits = given("submit_time", table.times("submit_time"))
    starts, ends = _run(table, submits, states["state"])
    check_order(submits, starts, ends)
    gpus = given("gpu_num", reading.counts.column("gpu_num", table.cells("gpu_num")))
    durations = _less(ends, starts)
    job_ids, source_ids = numbers_or_texts(table.ids("job_id"))
    derived = {
        "duration": durations,
        "queue": _less(starts, submits),
        "gpu_time": [d if d is None else d * n for d, n in zip(durations, gpus, strict=True)],
    }
    return {
        "cluster": Constant(cluster),
        "source": Constant(format_name),
        "job_id": job_ids,
        "source_id": source_ids,
        **states,
        "submit_time": submits,
        "start_time": starts,
        "end_time": ends,
        "num_gpus": gpus,
        "num_cpus": table.counts("cpu_num"),
        "num_nodes": table.counts("node_num"),
        "user": table.texts("user"),
        "extra": table.extras({**disagreeing(table, derived), **(kept or {})}),
    }


def _run(table: Table, submits: Sequence[int], states: Cells) -> tuple[Seconds, Seconds]:
    """Starts and ends. An end that is missing follows from the duration of a job that has ended."""
    seconds = table.reading.seconds
    durations: Seconds = seconds.column("duration", table.cells("duration"))
    if "start_time" in table:
        starts: Seconds = table.times("start_time")
    else:
        say_start_is_submit(table.reading)
        starts = submits
    told: Seconds = table.times("end_time") if "end_time" in table else [None] * table.count
    if "start_time" in table:
        starts, told = settled(table.reading.clock, submits, starts, told, durations)
    if None not in told:
        return starts, told
    state_of = [states.value] * table.count if isinstance(states, Constant) else states
    ends = [
        start + duration
        if end is None and start is not None and duration is not None and state.is_terminal
        else end
        for end, start, duration, state in zip(told, starts, durations, state_of, strict=True)
    ]
    return starts, ends


def _less(later: Seconds, earlier: Seconds) -> list[int | None]:
    return [None if a is None or b is None else a - b for a, b in zip(later, earlier, strict=True)]
