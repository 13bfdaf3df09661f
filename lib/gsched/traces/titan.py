"""Workloads of Titan: fine-tuning jobs that are to be run.

Gao et al., "Titan: A Scheduler for Foundation Model Fine-tuning Workloads", SoCC 2022, repository
gaow0007/TitanSched. Columns: ``name`` (the job, unique in its file), ``submission_time`` (seconds
from the beginning), ``application`` (model and data set, which recur) → name, ``num_gpus``; what
the training aims at (``target_batch_size``, ``target_lr``, …) stays in `extra`.

The files tell no run times, these come from profiles: the jobs are PENDING. The cluster is
``titan-`` and the name of the file, which several folders of the artifact share: read one of them
at a time under a ``--cluster`` of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from gsched.model.job import JobState
from gsched.model.trace import Cells, Constant, ReadOptions, TraceChunk
from gsched.traces.cells import given
from gsched.traces.identity import cluster_of_file, texts_only
from gsched.traces.table import Table, TableFormat, read_table
from gsched.traces.workload import say_named_after_file, say_relative


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of one file."""
    return read_table(stream, options, _FORMAT)


def _convert(table: Table) -> dict[str, Cells]:
    reading = table.reading
    submits = reading.seconds.column("submission_time", table.cells("submission_time"))
    job_ids, source_ids = texts_only(table.ids("name"))
    say_relative(reading)
    cluster = cluster_of_file(reading.options, _FORMAT.name)
    say_named_after_file(reading, cluster)
    reading.note("the file has no run times: its jobs are stored as PENDING")
    return {
        "cluster": Constant(cluster),
        "source": Constant(_FORMAT.name),
        "job_id": job_ids,
        "source_id": source_ids,
        "submit_time": given("submission_time", submits),
        "state": Constant(JobState.PENDING),
        "state_text": Constant(""),
        "name": table.texts("application"),
        "num_gpus": given("num_gpus", reading.counts.column("num_gpus", table.cells("num_gpus"))),
        "extra": table.extras(),
    }


_FORMAT = TableFormat(
    "titan",
    needed=("name", "submission_time", "num_gpus"),
    known=("application",),
    convert=_convert,
)
