"""Jobs by column: what policies compute on. With ``ranks`` all of the model that uses numpy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import is_
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gsched.model.job import Capability, JobKey, JobState, JobView, PredictionKind

FloatColumn = NDArray[np.float64]
IntColumn = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]
TextColumn = NDArray[np.object_]

_NO_INDEX = -1  # before every task and offset that there is


@dataclass(frozen=True, eq=False)
class JobTable:
    """Pending and running jobs, one element a job in every column. Columns are read-only.

    ``views`` holds the whole record of each row for what has no column; columns hold what the
    arithmetic of a policy needs. Missing floats are NaN. `predicted_duration_s` is the mean, made
    by the rule `prediction_source` ('' = no prediction) from `similar_jobs` past jobs. `tie` rises
    with the first submit and then with the key: it tells apart jobs that are equal otherwise.
    `deadline` is an epoch time, `tenant` the place of the job's tenant in `tenants`.
    """

    keys: Sequence[JobKey]
    views: Sequence[JobView]
    pending: BoolColumn
    running: BoolColumn
    reorderable: BoolColumn  # pending and not excluded from REORDER
    num_gpus: IntColumn
    num_cpus: IntColumn
    num_nodes: IntColumn
    first_submit: IntColumn
    waiting_since: FloatColumn  # see `waiting_since`
    time_limit_s: FloatColumn
    predicted_duration_s: FloatColumn
    prediction_source: TextColumn
    similar_jobs: IntColumn
    tie: IntColumn
    attained_gpu_s: FloatColumn
    deadline: FloatColumn
    tenant: IntColumn
    tenants: tuple[str, ...]
    _key_parts: IntColumn = field(repr=False)  # a row of numbers a job
    _row: Mapping[JobKey, int] = field(repr=False)

    @classmethod
    def from_views(cls, views: Iterable[JobView], before: JobTable | None = None) -> JobTable:
        """Build the columns from whole records; the row order is the order of `views`.

        What the table `before` holds of the very same records is copied from its columns.
        """
        rows = tuple(views)
        if before is not None and len(rows) == len(before) and all(map(is_, rows, before.views)):
            return before
        columns = _columns(rows) if before is None else _updated_columns(rows, before)
        keys = tuple([v.key for v in rows])
        columns["tie"] = _tie(columns["first_submit"], keys, columns["_key_parts"])
        names = [v.tenant for v in rows]
        tenants = tuple(sorted(set(names)))
        code = {name: number for number, name in enumerate(tenants)}
        columns["tenant"] = _ints(map(code.__getitem__, names))
        for column in columns.values():
            column.flags.writeable = False
        return cls(
            keys=keys,
            views=rows,
            tenants=tenants,
            _row={key: row for row, key in enumerate(keys)},
            **columns,
        )

    def with_predictions(self, views: Sequence[JobView]) -> JobTable:
        """The same jobs in the same order; in `views` they hold predictions."""
        columns = _prediction_columns(views)
        for column in columns.values():
            column.flags.writeable = False
        return replace(self, views=tuple(views), **columns)

    def take(self, rows: IntColumn) -> JobTable:
        """A table of these rows alone."""
        chosen = rows.tolist()
        keys = tuple([self.keys[row] for row in chosen])
        columns = {f.name: getattr(self, f.name)[rows] for f in fields(self) if _is_column(f.name)}
        present, columns["tenant"] = np.unique(columns["tenant"], return_inverse=True)
        for column in columns.values():
            column.flags.writeable = False
        return JobTable(
            keys=keys,
            views=tuple([self.views[row] for row in chosen]),
            tenants=tuple([self.tenants[number] for number in present.tolist()]),
            _row={key: row for row, key in enumerate(keys)},
            **columns,
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: object) -> bool:
        return key in self._row

    def row(self, key: JobKey) -> int:
        """The row of `key`. Raises KeyError when the job is not in the table."""
        return self._row[key]

    def view(self, key: JobKey) -> JobView:
        """The whole record of `key`. Raises KeyError when the job is not in the table."""
        return self.views[self._row[key]]

    def holders(self) -> list[JobView]:
        """The records of jobs that hold GPUs or other resources now."""
        rows = np.flatnonzero(~self.pending).tolist()
        return [view for view in (self.views[row] for row in rows) if view.holds_gpus]

    def no_longer_holding(self, now: JobTable) -> tuple[JobView, ...]:
        """The records of `holders` that hold nothing any more in the later table `now`."""
        if now is self:
            return ()
        return tuple(
            [v for v in self.holders() if not (v.key in now and now.view(v.key).holds_gpus)]
        )

    def select(self, mask: BoolColumn) -> IntColumn:
        """Row numbers where `mask` holds, rising."""
        return np.flatnonzero(mask).astype(np.int64)


def waiting_since(view: JobView) -> int | None:
    """Since when (epoch) a job waits for resources; None when it may not start at all (held, a
    dependency). A requeued job has waited since its first submit: it does not begin anew.
    """
    if view.state is not JobState.PENDING or view.eligible is None:
        return None
    is_requeued = view.attempt != view.first_submit
    return view.first_submit if is_requeued else max(view.first_submit, view.eligible)


def _is_column(name: str) -> bool:
    return name not in {"keys", "views", "tenants", "_row"}


def _floats(values: Iterable[float | None]) -> FloatColumn:
    return np.array([np.nan if v is None else v for v in values], dtype=np.float64)


def _ints(values: Iterable[int]) -> IntColumn:
    return np.array(list(values), dtype=np.int64)


def _bools(values: Iterable[bool]) -> BoolColumn:
    return np.array(list(values), dtype=np.bool_)


def _columns(rows: Sequence[JobView]) -> dict[str, Any]:
    """All columns but those that depend on the other jobs, from the records."""
    pending = _bools(v.state is JobState.PENDING for v in rows)
    free = _bools(not v.exclusions or v.exclusion(Capability.REORDER) is None for v in rows)
    return {
        "pending": pending,
        "running": _bools(v.state is JobState.RUNNING for v in rows),
        "reorderable": pending & free,
        "num_gpus": _ints(v.request.gpus.minimum for v in rows),
        "num_cpus": _ints(v.request.num_cpus for v in rows),
        "num_nodes": _ints(v.request.nodes.minimum for v in rows),
        "first_submit": _ints(v.first_submit for v in rows),
        "waiting_since": _floats(waiting_since(v) for v in rows),
        "time_limit_s": _floats(v.time_limit_s for v in rows),
        "attained_gpu_s": _floats(v.attained_gpu_s for v in rows),
        "deadline": _floats(v.wants.deadline for v in rows),
        **_prediction_columns(rows),
        "_key_parts": np.array([_parts(v.key) for v in rows], dtype=np.int64).reshape(-1, 4),
    }


def _prediction_columns(rows: Sequence[JobView]) -> dict[str, Any]:
    predictions = [v.prediction(PredictionKind.DURATION) if v.predictions else None for v in rows]
    return {
        "predicted_duration_s": _floats(None if p is None else p.mean for p in predictions),
        "prediction_source": np.array(
            ["" if p is None else p.source for p in predictions], dtype=np.object_
        ),
        "similar_jobs": _ints(0 if p is None else p.similar_jobs for p in predictions),
    }


def _updated_columns(rows: Sequence[JobView], before: JobTable) -> dict[str, Any]:
    """Columns of which those records that `before` holds too are copied."""
    known = {id(view): row for row, view in enumerate(before.views)}
    get: Callable[[int, int], int] = known.get
    source = _ints(get(id(view), -1) for view in rows)
    new = np.flatnonzero(source < 0)
    fresh = _columns([rows[row] for row in new.tolist()])
    if len(new) == len(rows):
        return fresh
    columns = {}
    for name, values in fresh.items():
        column = getattr(before, name)[source]  # a copy; rows with -1 are filled in below
        column[new] = values
        columns[name] = column
    return columns


def _parts(key: JobKey) -> tuple[int, int, int, int]:
    task = _NO_INDEX if key.array_task is None else key.array_task
    offset = _NO_INDEX if key.het_offset is None else key.het_offset
    return key.job_id, task, offset, key.epoch


def _tie(first_submit: IntColumn, keys: Sequence[JobKey], parts: IntColumn) -> IntColumn:
    names = sorted({key.cluster for key in keys})
    code = {name: i for i, name in enumerate(names)}
    cluster = _ints(code[key.cluster] for key in keys) if len(names) > 1 else np.zeros(len(keys))
    ordered = np.lexsort((*parts.T[::-1], cluster, first_submit))
    place = np.empty(len(keys), dtype=np.int64)
    place[ordered] = np.arange(len(keys))
    return place
