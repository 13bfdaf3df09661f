"""Pods of Alibaba's cluster trace of 2023, which shares GPUs.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, repository alibaba/clusterdata, ``openb_pod_list_*.csv``. Columns:
``name``, ``cpu_milli`` (thousandths of a CPU), ``memory_mib``, ``num_gpu``, ``gpu_milli``
(thousandths of each GPU, below 1000 only where num_gpu is 1), ``gpu_spec`` (types that will do,
``A|B``), ``qos``, ``pod_phase``, ``creation_time`` → submit, ``scheduled_time`` → start,
``deletion_time`` → end (seconds from the beginning; a pod never scheduled has no start).

**Shares of GPUs**: `num_gpus` counts the GPUs that a pod has *wholly or in part*, so that sums of
it count a shared GPU once a pod; its share is the TRES ``gres/gpu_milli``, thousandths of a GPU in
all. `num_cpus` is rounded up; where ``cpu_milli`` is no whole CPU it stays in `extra`. A
``gpu_spec`` of one type is the type that was given; one of several stays in `extra`.

**States**: a phase is what the pod was in when it was deleted. Succeeded → COMPLETED, Failed →
FAILED; Running and Pending were deleted then → CANCELLED. Without a deletion they are RUNNING and
PENDING. The text of the phase is kept.

The cluster is ``openb``; there are no users.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import BinaryIO

from gsched.model.history import Tres
from gsched.model.job import JobState
from gsched.model.trace import AttemptColumns, Cells, Constant, ReadOptions, TraceChunk
from gsched.traces.cells import check_order, given, is_missing
from gsched.traces.identity import texts_only
from gsched.traces.resources import shared_tres, whole
from gsched.traces.table import Table, TableFormat, read_table
from gsched.traces.workload import say_relative

_MIB = 2**20
_DELETED = {JobState.RUNNING: JobState.CANCELLED, JobState.PENDING: JobState.CANCELLED}


def read(stream: BinaryIO, options: ReadOptions) -> Iterator[TraceChunk]:
    """The pods of one file."""
    return read_table(stream, options, _FORMAT)


def _convert(table: Table) -> dict[str, Cells]:
    reading = table.reading
    seconds, counts = reading.seconds, reading.counts
    times = ("creation_time", "scheduled_time", "deletion_time")
    submits, starts, ends = (seconds.column(name, table.cells(name)) for name in times)
    check_order(given("creation_time", submits), starts, ends)
    sizes = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    cpus, memory, gpus, shares = (
        given(name, counts.column(name, table.cells(name))) for name in sizes
    )
    specs = table.cells("gpu_spec")
    requested = list(map(_resources, cpus, memory, gpus, shares, specs))
    job_ids, source_ids = texts_only(table.ids("name"))
    say_relative(reading)
    return {
        "cluster": Constant(reading.options.cluster or _FORMAT.name),
        "source": Constant(_FORMAT.name),
        "job_id": job_ids,
        "source_id": source_ids,
        **_states(table, ends),
        "submit_time": submits,
        "start_time": starts,
        "end_time": ends,
        "qos": table.texts("qos"),
        "num_cpus": list(map(whole, cpus)),
        "num_gpus": gpus,
        "requested": requested,
        "allocated": [
            () if start is None else tres for start, tres in zip(starts, requested, strict=True)
        ],
        "extra": table.extras(
            {
                "cpu_milli": _only(table.cells("cpu_milli"), [n % 1000 != 0 for n in cpus]),
                "gpu_spec": _only(specs, ["|" in spec for spec in specs]),
            }
        ),
    }


def _resources(
    cpu_milli: int, mem_mib: int, num_gpus: int, share_milli: int, spec: str
) -> tuple[Tres, ...]:
    kind = "" if "|" in spec or is_missing(spec) else spec.strip()
    return shared_tres(cpu_milli, mem_mib * _MIB, ((kind, num_gpus * share_milli),))


def _states(table: Table, ends: Sequence[int | None]) -> dict[str, Cells]:
    """The state of a pod that was deleted is not the phase that it was deleted in."""
    told = table.states("pod_phase")
    states = zip(AttemptColumns(table.count, told).column("state"), ends, strict=True)
    ended = [state if end is None else _DELETED.get(state, state) for state, end in states]
    return {**told, "state": ended}


def _only(cells: Sequence[str], where: Sequence[bool]) -> list[str]:
    return [cell if kept else "" for cell, kept in zip(cells, where, strict=True)]


_FORMAT = TableFormat(
    "openb",
    needed=(
        *("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli"),
        *("creation_time", "pod_phase"),
    ),
    known=("gpu_spec", "qos", "scheduled_time", "deletion_time"),
    convert=_convert,
    words={"succeeded": JobState.COMPLETED},
)
