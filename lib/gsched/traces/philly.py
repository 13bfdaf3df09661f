"""Microsoft Philly: the table that goes around, one row a job, or the JSON log as published.

The cluster of Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training
Workloads", USENIX ATC 2019. The CSV that goes around (artifacts of Sia, SOSP 2023) has the columns

- ``timestamp``: when the job was submitted, local time without a zone (the utilisation files of
  the original say PDT and PST: ``--timezone America/Los_Angeles``);
- ``duration``: run time in seconds; ``num_gpus``; ``gpu_time``: their product;
- ``cluster``: the virtual cluster → tenant. A text: ``6214e9`` is no number.

It has neither job ids nor users, states or start times. Ids are made of the content
(`gsched.traces.identity`: the files of one command are parts of one file); jobs are taken to start
when they are submitted, and to have completed. A file that begins with ``[`` is the log
(`gsched.traces.philly_log`), which tells all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, cast

from gsched.model.trace import AttemptColumns, Cells, Constant, ReadOptions, TraceChunk
from gsched.traces.cells import given
from gsched.traces.identity import content_ids
from gsched.traces.philly_log import read_log
from gsched.traces.table import Table, TableFormat, read_table
from gsched.traces.workload import (
    STATELESS,
    add_run,
    disagreeing,
    say_start_is_submit,
    say_stateless,
)

_HEAD_BYTES = 4096


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of one file."""
    head = stream.read(_HEAD_BYTES)
    whole = cast(BinaryIO, _Rejoined(head, stream))
    if head.lstrip().startswith(b"["):
        return read_log(whole, options)
    return read_table(whole, options, _FORMAT)


class _Rejoined:
    """A stream whose head was read already."""

    def __init__(self, head: bytes, stream: BinaryIO) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int) -> bytes:
        """The next bytes, `size` of them at most."""
        taken, self._head = self._head[:size], self._head[size:]
        return taken or self._stream.read(size)


def _convert(table: Table) -> dict[str, Cells]:
    reading = table.reading
    submits = given("timestamp", table.times("timestamp"))
    durations = given("duration", reading.seconds.column("duration", table.cells("duration")))
    gpus = given("num_gpus", reading.counts.column("num_gpus", table.cells("num_gpus")))
    gpu_times = [d * n for d, n in zip(durations, gpus, strict=True)]
    say_start_is_submit(reading)
    say_stateless(reading)
    return {
        "cluster": Constant(reading.options.cluster or _FORMAT.name),
        "source": Constant(_FORMAT.name),
        **add_run(submits, durations),
        **STATELESS,
        "tenant": table.texts("cluster"),
        "num_gpus": gpus,
        "extra": table.extras(disagreeing(table, {"gpu_time": gpu_times})),
    }


def _numbers(jobs: AttemptColumns, options: ReadOptions) -> dict[str, Cells]:
    """The ids of jobs that have none."""
    told = ("end_time", "num_gpus", "tenant", "extra")
    rows = zip(*map(jobs.column, told), strict=True)
    contents = (f"{end}\x1f{gpus}\x1f{tenant}\x1f{extra}" for end, gpus, tenant, extra in rows)
    return {"job_id": content_ids(jobs.column("submit_time"), contents, options.seen)}


_FORMAT = TableFormat(
    "philly",
    needed=("timestamp", "duration", "num_gpus"),
    known=("gpu_time", "cluster"),
    convert=_convert,
    finish=_numbers,
)
