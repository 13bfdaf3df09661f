"""Columns of attempts as readers deliver them → columns as the tables have them.

What is computed here of a row is what ``gsched.model.merge`` and ``logical_jobs`` make of a record
that is the only one of its job; it is done column by column because a trace has millions of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from sqlalchemy import Connection

from gsched.model.history import Tres
from gsched.model.job import JobState
from gsched.model.merge import (
    MAX_INTEGER,
    NO_PART,
    PLAIN_FIELDS,
    TRES_FIELDS,
    claim_of,
    happened,
    is_requeuing,
    sorted_tres,
)
from gsched.model.phases import PhaseRules, phase_of
from gsched.model.trace import INTEGER_FIELDS, AttemptColumns, Cells, Constant
from gsched.model.tres import tres_text
from gsched_sql.texts import TEXT_TABLES, intern_fields

_LAST_END = 2**39  # up to here a claim grows with the end
_PLAIN = tuple(name for name in PLAIN_FIELDS if name not in TEXT_TABLES)


def take(attempts: AttemptColumns, wanted: Sequence[bool]) -> AttemptColumns:
    """The rows for which `wanted` is true."""
    return AttemptColumns(sum(wanted), taken(attempts.columns, wanted))


def taken(columns: Mapping[str, Cells], wanted: Sequence[bool]) -> dict[str, Cells]:
    """The cells of the rows for which `wanted` is true."""
    return {
        name: cells if isinstance(cells, Constant) else list(compress(cells, wanted))
        for name, cells in columns.items()
    }


def fitting(attempts: AttemptColumns) -> list[bool] | None:
    """For each row whether all its numbers have 64 bits; None: those of all rows do."""
    checks = [(name, _fits) for name in INTEGER_FIELDS] + [
        (name, _tres_fit) for name in TRES_FIELDS
    ]
    bad = [
        (attempts.column(name), fits)
        for name, fits in checks
        if not _all_fit(attempts.columns.get(name), fits)
    ]
    if not bad:
        return None
    return [all(fits(column[row]) for column, fits in bad) for row in range(attempts.count)]


def _all_fit(cells: Cells | None, fits: Callable[[Any], bool]) -> bool:
    if cells is None:
        return True
    if isinstance(cells, Constant):
        return fits(cells.value)
    if fits is _tres_fit:
        return all(map(fits, {id(tres): tres for tres in cells}.values()))
    told = list(filter(None, cells))
    return not told or (max(told) <= MAX_INTEGER and min(told) >= -MAX_INTEGER)


def _fits(number: int | None) -> bool:
    return number is None or -MAX_INTEGER <= number <= MAX_INTEGER


def _tres_fit(tres: Iterable[Tres]) -> bool:
    return all(_fits(t.count) for t in tres)


def mapped(cells: Cells, change: Callable[[Any], Any]) -> Cells:
    """Each value changed."""
    if isinstance(cells, Constant):
        return Constant(change(cells.value))
    return list(map(change, cells))


def cells_of(attempts: AttemptColumns, name: str) -> Cells:
    """A column as it is given."""
    found = attempts.columns.get(name)
    if found is not None:
        return found
    return Constant(()) if name in TRES_FIELDS else Constant(None)


def keys(attempts: AttemptColumns) -> dict[str, Cells]:
    """The columns that name each attempt within its cluster, as stored."""
    parts = {
        name: mapped(cells_of(attempts, name), lambda part: NO_PART if part is None else part)
        for name in ("array_task", "het_offset")
    }
    return {
        "job_id": attempts.column("job_id"),
        **parts,
        "submit_time": attempts.column("submit_time"),
    }


def facts(attempts: AttemptColumns) -> dict[str, Cells]:
    """The columns of `attempts` that are numbers, states or texts of their own, and their claim."""
    columns: dict[str, Cells] = {name: cells_of(attempts, name) for name in _PLAIN}
    states = attempts.column("state")
    starts, ends = _times(attempts, states)
    if columns["restarts"] != Constant(None):
        told = zip(states, attempts.column("end_time"), attempts.column("restarts"), strict=True)
        columns["restarts"] = [None if is_requeuing(s, end) else count for s, end, count in told]
    return {
        **columns,
        **_states(attempts, states),
        "start_time": starts,
        "end_time": ends,
        "claim": _claims(states, ends, attempts.column("source")),
    }


def _times(
    attempts: AttemptColumns, states: Sequence[JobState]
) -> tuple[list[int | None], list[int | None]]:
    """The starts and ends that `happened`; only few rows of a trace need a closer look."""
    starts, ends = list(attempts.column("start_time")), list(attempts.column("end_time"))
    num_nodes = attempts.column("num_nodes")
    plain = {id(state) for state in _distinct(states) if state.is_terminal}
    rows = zip(map(id, states), starts, ends, num_nodes, strict=True)
    odd = [
        row
        for row, (state, start, end, nodes) in enumerate(rows)
        if start == end or nodes == 0 or state not in plain
    ]
    if odd:
        listed = attempts.column("node_list")
        for row in odd:
            starts[row], ends[row] = happened(
                states[row], starts[row], ends[row], num_nodes[row], listed[row]
            )
    return starts, ends


def _states(attempts: AttemptColumns, states: Sequence[JobState]) -> dict[str, Cells]:
    """State, its text where that is another one, and source."""
    cells, texts = cells_of(attempts, "state"), cells_of(attempts, "state_text")
    source = cells_of(attempts, "source")
    if isinstance(cells, Constant) and isinstance(texts, Constant):
        value = cells.value.value
        text = Constant(None if texts.value == value else texts.value)
        return {"state": Constant(value), "state_text": text, "source": source}
    value_of = {id(state): state.value for state in _distinct(states)}
    values = list(map(value_of.__getitem__, map(id, states)))
    listed = zip(attempts.column("state_text"), values, strict=True)
    other = [None if text == value else text for text, value in listed]
    return {"state": values, "state_text": other, "source": source}


def _claims(
    states: Sequence[JobState], ends: Sequence[int | None], sources: Sequence[str]
) -> list[int]:
    """The claim of each row; those of one state and source differ by their ends only."""
    kinds = list(zip(map(id, states), sources, strict=True))
    first_of, a_second = {}, 0
    for kind, state in dict(zip(kinds, states, strict=True)).items():
        first, second = (claim_of(state, end, kind[1]) for end in (1, 2))
        a_second = second - first  # the same for all
        first_of[kind] = first - a_second
    return [
        first_of[kind] + end * a_second
        if end and 0 < end < _LAST_END
        else claim_of(state, end, kind[1])
        for kind, state, end in zip(kinds, states, ends, strict=True)
    ]


def text_columns(conn: Connection, attempts: AttemptColumns) -> dict[str, Cells]:
    """The columns that refer to texts; texts that are new are added."""
    texts = {
        field: _tres_texts(cells_of(attempts, field))
        if field in TRES_FIELDS
        else cells_of(attempts, field)
        for field in TEXT_TABLES
    }
    distinct = {
        field: {cells.value} if isinstance(cells, Constant) else set(cells)
        for field, cells in texts.items()
    }
    ids = intern_fields(conn, distinct)
    return {f"{field}_id": mapped(cells, ids[field].get) for field, cells in texts.items()}


def _tres_texts(cells: Cells) -> Cells:
    if isinstance(cells, Constant):
        return Constant(tres_text(sorted_tres(cells.value)) or None)
    # Readers give rows with the same resources the same object.
    texts = {id(tres): tres_text(sorted_tres(tres)) or None for tres in _distinct(cells)}
    return list(map(texts.__getitem__, map(id, cells)))


def _distinct(cells: Sequence[Any]) -> Collection[Any]:
    return dict(zip(map(id, cells), cells, strict=True)).values()


def job_columns(
    attempts: AttemptColumns, stored: Mapping[str, Cells], rules: PhaseRules
) -> dict[str, Cells]:
    """The columns of `jobs` that those of `attempts` (`stored`, as `facts` gives) do not have."""
    states, starts = attempts.column("state"), listed(stored["start_time"], attempts.count)
    ends = listed(stored["end_time"], attempts.count)
    if any(state is JobState.REQUEUED for state in _distinct(states)):
        ends = [
            None if s is JobState.REQUEUED else end for s, end in zip(states, ends, strict=True)
        ]
    runs = [
        None if end is None else 0 if start is None else end - start
        for start, end in zip(starts, ends, strict=True)
    ]
    return {
        "end_time": ends,
        "queueing_s": _waits(attempts, starts),
        "duration_s": _fitting(
            [
                None if start is None or seconds is None or seconds < 0 else seconds
                for start, seconds in zip(starts, runs, strict=True)
            ]
        ),
        "gpu_time_s": _fitting(_device_times(attempts.column("num_gpus"), runs)),
        "cpu_time_s": _fitting(_device_times(attempts.column("num_cpus"), runs)),
        "phase": _phases(attempts, rules),
        "num_attempts": Constant(1),
    }


def _waits(attempts: AttemptColumns, starts: Sequence[int | None]) -> Cells:
    """Seconds from submit to start, where a start was told."""
    assumed = cells_of(attempts, "start_assumed")
    if isinstance(assumed, Constant) and assumed.value:
        return Constant(None)
    told = zip(
        attempts.column("submit_time"), starts, attempts.column("start_assumed"), strict=True
    )
    return _fitting(
        [None if start is None or no_start else max(0, start - s) for s, start, no_start in told]
    )


def _device_times(counts: Sequence[int | None], runs: Sequence[int | None]) -> Sequence[int | None]:
    return [
        None
        if seconds is None or seconds < 0 or (count is None and seconds)
        else count * seconds
        if count
        else 0
        for count, seconds in zip(counts, runs, strict=True)
    ]


def _fitting(seconds: Sequence[int | None]) -> Sequence[int | None]:
    """What can be stored: more than 64 bits come of counts and times that are none."""
    if _all_fit(seconds, _fits):
        return seconds
    return [s if _fits(s) else None for s in seconds]


def listed(cells: Cells, count: int) -> Sequence[Any]:
    """A column with a cell a row, though it be constant."""
    return [cells.value] * count if isinstance(cells, Constant) else cells


def _phases(attempts: AttemptColumns, rules: PhaseRules) -> Cells:
    told = cells_of(attempts, "phase")
    if not rules.rules:
        return told
    names = ("phase", "name", "user", "tenant", "partition", "qos", "num_gpus")
    rows = list(zip(*map(attempts.column, names), strict=True))
    phases = {
        row: phase_of(
            rules,
            row[0],
            name=row[1],
            user=row[2],
            account=row[3],
            partition=row[4],
            qos=row[5],
            num_gpus=row[6],
        )
        for row in set(rows)
    }
    return [phases[row] for row in rows]
