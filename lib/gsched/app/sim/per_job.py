"""What became of each job, as a file: ``sim --per-job OUT``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gsched.errors import UsageError
from gsched.files import writing_whole
from gsched.sim.job_figures import JobFigures
from gsched.sim.result import SimResult

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Schema

Write = Callable[[str, SimResult], None]
"""Adds the jobs of one simulation, under the policy's label."""

_MODE = 0o644
_ROWS = 100_000


@contextmanager
def writing_jobs(path: Path | None, *, replace: bool) -> Iterator[Write]:
    """A function that adds results to `path`; the file appears whole, when the block ends.

    None: nothing is written. Raises UsageError for a name that ends in neither .csv nor .parquet,
    and for a file that is there, unless `replace`.
    """
    if path is None:
        yield lambda _label, _result: None
        return
    form = path.suffix.lower()
    if form not in (".csv", ".parquet"):
        raise UsageError(f"what shall be written into {path}?", "name it .csv or .parquet")
    with writing_whole(path, _MODE, replace=replace) as file, nullcontext(_Table(file, form)) as t:
        yield t.write
        t.close()


class _Table:
    """The open file; what it looks like is decided by the first rows."""

    def __init__(self, file: Any, form: str) -> None:
        self._file = file
        self._form = form
        self._writer: Any = None

    def write(self, label: str, result: SimResult) -> None:
        """Add the jobs of a result, in their order."""
        figures = JobFigures.of(result)
        for first in range(0, len(result.jobs), _ROWS):
            batch = _batch(label, result, figures, slice(first, first + _ROWS))
            if self._writer is None:
                self._writer = self._open(batch.schema)
            self._writer.write_batch(batch)

    def close(self) -> None:
        """Write what is kept back."""
        if self._writer is not None:
            self._writer.close()

    def _open(self, schema: Schema) -> Any:
        if self._form == ".csv":
            from pyarrow.csv import CSVWriter, WriteOptions

            return CSVWriter(self._file, schema, write_options=WriteOptions(quoting_style="needed"))
        from pyarrow.parquet import ParquetWriter

        return ParquetWriter(self._file, schema, compression="zstd")


def _batch(label: str, result: SimResult, figures: JobFigures, rows: slice) -> RecordBatch:
    import pyarrow

    jobs, cluster = result.jobs, result.cluster
    count = len(jobs.submit_s[rows])

    def texts(codes: NDArray[np.int32], values: Any) -> Any:
        return pyarrow.array(
            [values[c] if c >= 0 else None for c in codes[rows].tolist()], pyarrow.string()
        )

    def reals(values: NDArray[Any]) -> Any:
        return pyarrow.array(values[rows].astype(np.float64), from_pandas=True)  # NaN: null

    return pyarrow.RecordBatch.from_pydict(
        {
            "policy": pyarrow.array([label] * count, pyarrow.string()),
            "seed": pyarrow.array(np.full(count, result.rules.seed)),
            "job": pyarrow.array(jobs.ids[rows], pyarrow.string()),
            "user": texts(jobs.user, jobs.users),
            "account": texts(jobs.tenant, jobs.tenants),
            "pool": texts(jobs.pool, cluster.pools),
            "name": texts(jobs.name, jobs.names),
            "num_gpus": pyarrow.array(jobs.num_gpus[rows]),
            "submit_time": reals(jobs.origin + jobs.submit_s),
            "duration_s": reals(jobs.duration_s),
            "predicted_duration_s": reals(jobs.predicted_duration_s),
            "start_time": reals(jobs.origin + result.start_s),
            "end_time": reals(jobs.origin + result.end_s),
            "jct_s": reals(figures.jct_s),
            "queueing_s": reals(figures.queueing_s),
            "waiting_s": reals(figures.waiting_s),
            "bounded_slowdown": reals(figures.bounded_slowdown),
            "finish_time_ratio": reals(figures.finish_time_ratio),
            "share_received": reals(figures.share_received),
            "run_s": reals(result.run_s),
            "lost_s": reals(result.lost_s),
            "preemptions": pyarrow.array(result.preemptions[rows]),
            "failures": pyarrow.array(result.failures[rows]),
            "deadline": reals(jobs.origin + jobs.deadline_s),
        }
    )


COLUMNS = (
    *("policy", "seed", "job", "user", "account", "pool", "name", "num_gpus", "submit_time"),
    *("duration_s", "predicted_duration_s", "start_time", "end_time", "jct_s", "queueing_s"),
    *("waiting_s", "bounded_slowdown", "finish_time_ratio", "share_received", "run_s", "lost_s"),
    *("preemptions", "failures", "deadline"),
)
"""The columns of the file; times are epoch seconds, durations seconds, empty: not come to that."""
