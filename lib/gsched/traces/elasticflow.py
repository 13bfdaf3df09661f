"""Deadline workloads of ElasticFlow: one table a workload.

Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning",
ASPLOS 2023, repository pkusys/ElasticFlow. Columns: ``job_id``, ``submit_time`` and ``duration``
(seconds from the beginning), ``num_gpu``, ``model_name`` → name; ``ddl`` (the deadline, seconds as
submit_time), ``iteration``, ``batch_size`` and, in some files, ``real_duration`` and
``real_iteration`` stay in `extra`.

The cluster is ``elasticflow-`` and the name of the file. There are no users or states.
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
    return workload(table, _FORMAT.name, table.reading.seconds)


_FORMAT = TableFormat(
    "elasticflow",
    needed=("job_id", "submit_time", "duration", "num_gpu"),
    known=("model_name", "user"),
    convert=_convert,
)
