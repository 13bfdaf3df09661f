"""Workloads of CHRONUS: jobs with deadlines beside best-effort jobs, counted in MINUTES.

Gao et al., "Chronus: A Novel Deadline-aware Scheduler for Deep Learning Training Jobs", SoCC 2021,
repository S-Lab-System-Group/ChronusArtifact. Columns: ``job_id``, ``num_gpu``, ``submit_time`` and
``duration`` (minutes from the beginning), ``model_name`` → name. ``user`` holds the label of a
virtual cluster and is user and tenant here. The deadlines (``expect_time_list``, minutes),
``expect_value_list``, ``best_effort``, ``job_type``, ``iterations`` and ``interval`` (minutes) stay
in `extra` as they are.

The cluster is ``chronus-`` and the name of the file. Jobs without a GPU are jobs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from gsched.model.trace import Cells, ReadOptions, TraceChunk
from gsched.traces.table import Table, TableFormat, read_table
from gsched.traces.workload import workload


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of one file."""
    return read_table(stream, options, _FORMAT)


def _convert(table: Table) -> dict[str, Cells]:
    jobs = workload(table, _FORMAT.name, table.reading.minutes)
    return {**jobs, "tenant": jobs["user"]}


_FORMAT = TableFormat(
    "chronus",
    needed=("job_id", "submit_time", "duration", "num_gpu"),
    known=("model_name", "user"),
    convert=_convert,
)
