"""Acme of Shanghai AI Laboratory: clusters Seren (Slurm) and Kalos (Kubernetes), March–August 2023.

Hu et al., "Characterization of Large Language Model Development in the Datacenter", NSDI 2024,
repository InternLM/AcmeTrace, ``trace_seren.csv`` and ``trace_kalos.csv``. Columns: ``job_id`` (a
number in Seren, a text in Kalos), ``user``, ``node_num``, ``gpu_num``, ``cpu_num``, ``type``,
``state`` (Slurm's names), ``submit_time``, ``start_time``, ``end_time`` with their offset (+08:00
in Seren, +00:00 in Kalos); ``duration``, ``queue`` and ``gpu_time`` follow from those and are kept
in `extra` where they do not (Kalos counts ``duration`` from the submission). Kalos also has
``mem_per_pod_GB``, ``shared_mem_per_pod``, ``fail_time`` and ``stop_time``: `extra`.

``type`` is what the job does in the development of a model → phase; a type that is none of gsched's
phases is kept in `extra`. The cluster is ``acme-seren`` or ``acme-kalos`` by the file's name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from gsched.model.trace import Cells, ReadOptions, TraceChunk
from gsched.traces.accounting import NEEDED, OTHERS, STATE_WORDS, TIMES, accounted
from gsched.traces.source import file_stem
from gsched.traces.table import Table, TableFormat, read_table
from gsched.traces.workload import say_named_after_file

_CLUSTERS = ("seren", "kalos")

_PHASES = {
    "pretrain": "pretrain",
    "pretraining": "pretrain",
    "evaluation": "eval",
    "eval": "eval",
    "sft": "sft",
    "debug": "debug",
    "other": "other",
}
"""Phases by `type` in lower case."""


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The jobs of one file."""
    return read_table(stream, options, _FORMAT)


def _convert(table: Table) -> dict[str, Cells]:
    options = table.reading.options
    types = table.cells("type")
    phases = [_PHASES.get(cell.strip().casefold()) for cell in types]
    others = [cell if phase is None else "" for cell, phase in zip(types, phases, strict=True)]
    kept = {"type": others} if any(others) else {}
    cluster = options.cluster or _cluster(options.file_name)
    say_named_after_file(table.reading, cluster)
    return {**accounted(table, _FORMAT.name, cluster, kept), "phase": phases}


def _cluster(file_name: str) -> str:
    stem = file_stem(file_name).casefold()
    known = [name for name in _CLUSTERS if name in stem]
    return f"{_FORMAT.name}-{known[0]}" if len(known) == 1 else _FORMAT.name


_FORMAT = TableFormat(
    "acme",
    needed=(*NEEDED, "start_time", "end_time"),
    known=(*TIMES, *OTHERS, "type"),
    convert=_convert,
    words=STATE_WORDS,
)
