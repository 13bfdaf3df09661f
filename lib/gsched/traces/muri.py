"""Workloads and cluster runs of Muri.

Zhao et al., "Multi-Resource Interleaving for Deep Learning Training", SIGCOMM 2022, repository
Rivendile/Muri. Two tables have nearly the same columns, and not the same unit:

- a workload (trace1.csv, cluster_trace.csv): ``job_id``, ``num_gpu``, ``submit_time`` and
  ``duration`` in MILLISECONDS from the beginning, ``model_name`` → name;
- what became of it on a cluster of 64 GPUs (job.csv): ``submit_time``, ``start_time``, ``end_time``
  in SECONDS, told by the two columns that a workload has not. Jobs were preempted, so that a job
  ran less than from its start to its end: ``executed_time``, in `extra`.

All else stays in `extra`. The cluster is ``muri-`` and the name of the file; give ``--cluster``
for the job.csv of each scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from gsched.model.trace import Cells, ReadOptions, TraceChunk
from gsched.traces.cells import check_order, given
from gsched.traces.table import Table, TableFormat, read_table
from gsched.traces.workload import STATELESS, identity, say_relative, say_stateless, workload


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of one file."""
    return read_table(stream, options, _FORMAT)


def _convert(table: Table) -> dict[str, Cells]:
    if "start_time" in table and "end_time" in table:
        return _run(table)
    return workload(table, _FORMAT.name, table.reading.milliseconds)


def _run(table: Table) -> dict[str, Cells]:
    """Jobs as a scheduler has run them."""
    seconds = table.reading.seconds
    names = ("submit_time", "start_time", "end_time")
    times = {name: given(name, seconds.column(name, table.cells(name))) for name in names}
    check_order(*times.values())
    say_relative(table.reading)
    say_stateless(table.reading)
    kept = {"duration": table.cells("duration")}
    return {**identity(table, _FORMAT.name, kept), **times, **STATELESS}


_FORMAT = TableFormat(
    "muri",
    needed=("job_id", "submit_time", "duration", "num_gpu"),
    known=("model_name", "user", "start_time", "end_time"),
    convert=_convert,
)
