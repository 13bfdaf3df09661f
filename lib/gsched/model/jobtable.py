"""Jobs by column: what policies compute on. The one module of the model that uses numpy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gsched.model.job import Capability, JobKey, JobState, JobView, PredictionKind

FloatColumn = NDArray[np.float64]
IntColumn = NDArray[np.int64]
BoolColumn = NDArray[np.bool_]


@dataclass(frozen=True)
class JobTable:
    """Pending and running jobs, one element a job in every column.

    ``views`` holds the whole record of each row for what has no column; columns hold what the
    arithmetic of a policy needs. Missing floats are NaN. `predicted_duration_s` is the mean.
    """

    keys: tuple[JobKey, ...]
    views: Sequence[JobView]
    pending: BoolColumn
    running: BoolColumn
    reorderable: BoolColumn  # pending and not excluded from REORDER
    num_gpus: IntColumn
    num_cpus: IntColumn
    num_nodes: IntColumn
    first_submit: IntColumn
    time_limit_s: FloatColumn
    predicted_duration_s: FloatColumn
    _row: dict[JobKey, int] = field(repr=False)

    @classmethod
    def from_views(cls, views: Iterable[JobView]) -> JobTable:
        """Build the columns from whole records; the row order is the order of `views`."""
        rows = tuple(views)

        def floats(values: Iterable[float | None]) -> FloatColumn:
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64)

        def ints(values: Iterable[int]) -> IntColumn:
            return np.array(list(values), dtype=np.int64)

        def bools(values: Iterable[bool]) -> BoolColumn:
            return np.array(list(values), dtype=np.bool_)

        keys = tuple(v.key for v in rows)
        pending = bools(v.state is JobState.PENDING for v in rows)
        free = bools(v.exclusion(Capability.REORDER) is None for v in rows)
        durations = [v.prediction(PredictionKind.DURATION) for v in rows]
        return cls(
            keys=keys,
            views=rows,
            pending=pending,
            running=bools(v.state is JobState.RUNNING for v in rows),
            reorderable=pending & free,
            num_gpus=ints(v.request.gpus.minimum for v in rows),
            num_cpus=ints(v.request.num_cpus for v in rows),
            num_nodes=ints(v.request.nodes.minimum for v in rows),
            first_submit=ints(v.first_submit for v in rows),
            time_limit_s=floats(v.time_limit_s for v in rows),
            predicted_duration_s=floats(None if p is None else p.mean for p in durations),
            _row={key: i for i, key in enumerate(keys)},
        )

    def __len__(self) -> int:
        return len(self.keys)

    def __contains__(self, key: JobKey) -> bool:
        return key in self._row

    def row(self, key: JobKey) -> int:
        """The row of `key`. Raises KeyError when the job is not in the table."""
        return self._row[key]

    def view(self, key: JobKey) -> JobView:
        """The whole record of `key`. Raises KeyError when the job is not in the table."""
        return self.views[self._row[key]]

    def select(self, mask: BoolColumn) -> IntColumn:
        """Row numbers where `mask` holds, rising."""
        return np.flatnonzero(mask).astype(np.int64)
