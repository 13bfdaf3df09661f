"""SenseTime Helios: the accounting of Slurm, one table a cluster.

Hu et al., "Characterization and Prediction of Deep Learning Workloads in Large-Scale GPU
Datacenters", SC 2021, repository S-Lab-System-Group/HeliosData, ``data/<cluster>/cluster_log.csv``.
Columns: ``job_id`` (Slurm's), ``user``, ``vc`` (virtual cluster → tenant), ``gpu_num``,
``cpu_num``, ``node_num``, ``state``, ``submit_time``, ``start_time``, ``end_time``; ``duration``
and ``queue`` (seconds) follow from the times and are kept in `extra` where they do not. Some
versions have ``jobname``. States are Slurm's; ``Pass`` and ``Killed`` of derived files are known.

Times have no zone and the publication names none; as the clusters stood in China,
``--timezone Asia/Shanghai`` is the likely one. Ids repeat between the clusters: the cluster is
``helios-venus`` where the file lies in a folder of that name (Earth, Saturn, Uranus, Venus), else
``helios``.

Simulators take tables of the same columns with ``duration`` and without start and end: then a job
is taken to start when it is submitted.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import BinaryIO

from gsched.model.trace import Cells, ReadOptions, TraceChunk
from gsched.traces.accounting import NEEDED, OTHERS, STATE_WORDS, TIMES, accounted
from gsched.traces.table import Table, TableFormat, read_table
from gsched.traces.workload import say_named_after_file

_CLUSTERS = ("earth", "saturn", "uranus", "venus")


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of one file."""
    return read_table(stream, options, _FORMAT)


def _convert(table: Table) -> dict[str, Cells]:
    options = table.reading.options
    cluster = options.cluster or _cluster(options.file_name)
    say_named_after_file(table.reading, cluster)
    return {
        **accounted(table, _FORMAT.name, cluster),
        "tenant": table.texts("vc"),
        "name": table.texts("jobname"),
    }


def _cluster(file_name: str) -> str:
    folder = PurePath(file_name).parent.name.casefold()
    return f"{_FORMAT.name}-{folder}" if folder in _CLUSTERS else _FORMAT.name


_FORMAT = TableFormat(
    "helios",
    needed=NEEDED,
    known=(*TIMES, *OTHERS, "vc", "jobname"),
    one_of=("start_time", "duration"),
    convert=_convert,
    words=STATE_WORDS,
)
