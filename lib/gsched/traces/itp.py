"""Microsoft ITP: one table a cluster, ten clusters, March to May 2021.

Gu et al., "ElasticFlow: An Elastic Serverless Training Platform for Distributed Deep Learning",
ASPLOS 2023, repository microsoft/elasticflow-traces. Columns: ``job_id`` (a UUID),
``submission_time`` (seconds from the beginning of the trace), ``duration`` (seconds), ``num_gpu``.
The files that were made from them for the experiments (195job.csv) have ``model_name`` → name, and
``num_iteration``, ``deadline`` (seconds, as submission_time) and ``batch_size``, kept in `extra`.

The cluster is ``itp-`` and the name of the file. There are no users, start times or states.
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
    seconds = table.reading.seconds
    return workload(table, _FORMAT.name, seconds, submit="submission_time", has_text_ids=True)


_FORMAT = TableFormat(
    "itp",
    needed=("job_id", "submission_time", "duration", "num_gpu"),
    known=("model_name", "user"),
    convert=_convert,
)
