"""The calendar of deadlines as a chart in plain characters."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from gsched.explain.start_words import clock
from gsched.explain.words import short_time
from gsched_cli.output import cut, safe_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gsched.app.pool_plan import PoolPlan
    from gsched.app.queued_job import QueuedJob
    from gsched.app.target_calendar import TargetCalendar

COLUMNS = 60
_TICK = 20
_DAY_S = 86400
_STEPS_S = (
    1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 10800, 14400, 21600, 43200,
)  # fmt: skip
_MOST_LABEL = 24


def plan_chart(calendar: TargetCalendar) -> list[str]:
    """A line a target, and one a pool with what is left of it; [] without a target.

    ``#`` where the job is to hold GPUs, ``|`` its last deadline, ``:`` an earlier soft one. Of a
    pool the least share of its GPUs that is free in a column, in tenths, rounded down.
    """
    if not calendar.targets:
        return []
    at = calendar.view.at
    step = _step_s(calendar.end - at)
    begin = _floor(at, step)
    labels = [_label(job.slurm_id, f"{job.num_gpus} GPUs") for job in calendar.targets]
    labels += [_label(f"free in {pool.name}", f"of {pool.num_gpus}") for pool in calendar.pools]
    margin = max(map(len, labels))
    lines = [_heading(begin, step, at, margin)]
    rows = [_target_cells(job, begin, step) for job in calendar.targets]
    rows += [_pool_cells(pool, begin, step) for pool in calendar.pools]
    lines += [f"{label:<{margin}}  {cells}" for label, cells in zip(labels, rows, strict=True)]
    told = "# it is to hold its GPUs, | its last deadline, : an earlier one"
    if calendar.pools:
        told += "; free: tenths of the GPUs"
    return [*lines, f"(a column is {short_time(step)}; {told})"]


def _step_s(span_s: int) -> int:
    """The time of a column, so that all of `span_s` is shown, begun anywhere within a column."""
    whole = COLUMNS - 1
    days = -(-span_s // (whole * _DAY_S))
    return next((step for step in _STEPS_S if span_s <= whole * step), days * _DAY_S)


def _floor(epoch: int, step: int) -> int:
    """The last full `step` of local time."""
    offset = datetime.fromtimestamp(epoch).astimezone().utcoffset()
    shift = round(offset.total_seconds()) if offset else 0
    return (epoch + shift) // step * step - shift


def _label(name: str, rest: str) -> str:
    return f"{cut(safe_text(name), _MOST_LABEL)}  {rest}"


def _heading(begin: int, step: int, at: int, margin: int) -> str:
    times = (clock(begin + column * step, at) for column in range(0, COLUMNS, _TICK))
    return " " * (margin + 2) + "".join(f"{time:<{_TICK}}" for time in times).rstrip()


def _target_cells(job: QueuedJob, begin: int, step: int) -> str:
    target = job.target or {}
    cells = ["."] * COLUMNS
    for start, end, _ in target.get("plan", ()):
        for column in _columns(start, end, begin, step):
            cells[column] = "#"
    times = [time for time, _ in target.get("deadlines", ())]
    for time, sign in [*((time, ":") for time in times[:-1]), *((t, "|") for t in times[-1:])]:
        column = int(time - begin) // step
        if 0 <= column < COLUMNS:
            cells[column] = sign
    return "".join(cells)


def _columns(start: int, end: int, begin: int, step: int) -> Iterable[int]:
    """The columns that a span touches."""
    first = max(0, int(start - begin) // step)
    last = min(COLUMNS - 1, int(end - 1 - begin) // step)
    return range(first, last + 1)


def _pool_cells(pool: PoolPlan, begin: int, step: int) -> str:
    return "".join(_tenths(pool, begin, step)).rstrip()


def _tenths(pool: PoolPlan, begin: int, step: int) -> Iterator[str]:
    for column in range(COLUMNS):
        free = pool.least_free(begin + column * step, begin + (column + 1) * step)
        if free is None or pool.num_gpus <= 0:
            yield " "
        else:
            yield str(min(9, max(0, 10 * free // pool.num_gpus)))
