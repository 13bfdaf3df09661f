"""Output of squeue(1) → records. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gsched.errors import DataError
from gsched.model.history import Reject, Tres
from gsched.model.job import GpuOption
from gsched.model.units import (
    UNSET,
    Gres,
    count_gres,
    parse_count,
    parse_requested_gres,
    parse_tres,
    tres_gres,
)
from gsched.slurm.fields import parse_time, split_records, time_limit
from gsched.slurm.line_cache import LineCache
from gsched.slurm.records import FreeText, QueueListing, QueueRow
from gsched.slurm.states import parse_state

QUEUE_FIELDS = (
    "JobID", "JobArrayID", "ArrayJobID", "ArrayTaskID", "HetJobID", "HetJobOffset", "State",
    "Reason", "UserName", "Account", "QOS", "Partition", "PriorityLong", "Nice", "SubmitTime",
    "EligibleTime", "StartTime", "EndTime", "TimeLimit", "NumNodes", "MaxNodes", "NumCPUs",
    "tres-alloc", "tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task", "NumTasks",
    "Sockets", "RestartCnt", "BatchFlag", "Requeue", "Reservation", "Feature", "NodeList",
    "Dependency", "Licenses",
)  # fmt: skip
TEXT_FIELDS = ("Name", "Comment")
FREE_TEXT_FIELDS = ("JobID", *TEXT_FIELDS)
PINNED_FIELDS = ("JobID", "ReqNodes")


def squeue_format(fields: Sequence[str], separator: str) -> str:
    """The argument of ``squeue -O``."""
    return ",".join(f"{field}:{separator}" for field in fields)


def parse_pinned(text: str, separator: str) -> frozenset[int]:
    """Raw ids of the jobs of ``squeue -h -O`` with `PINNED_FIELDS` that name nodes."""
    records = split_records(text, separator, len(PINNED_FIELDS))
    return frozenset(
        int(each[0])
        for each in records
        if len(each) == len(PINNED_FIELDS) and each[0].isdecimal() and _text(each[1]).strip()
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """One record: a job, with its texts where they were asked for, or why it is none."""

    row: QueueRow | None
    text: FreeText | None = None
    problem: str = ""
    record: str = ""


QueueCache = LineCache[_Job]
"""What was read of the jobs in the last listing."""


def queue_cache(*, with_texts: bool = False) -> QueueCache:
    """An empty one, for listings with texts or without."""
    return LineCache(_job_with_texts if with_texts else _job)


def parse_queue(
    text: str, separator: str, *, with_texts: bool = False, cache: QueueCache | None = None
) -> QueueListing:
    """The jobs of ``squeue -h -a -O`` with `QUEUE_FIELDS`. A record in disorder is a reject.

    `with_texts`: `TEXT_FIELDS` were asked for as well. With `cache`, rows and texts of records
    that stood in the listing before are the same objects as then.
    """
    width = len(QUEUE_FIELDS) + (len(TEXT_FIELDS) if with_texts else 0)
    jobs = (cache or queue_cache(with_texts=with_texts)).values(text, separator, width)
    return QueueListing(
        rows=tuple([job.row for job in jobs if job.row is not None]),
        rejects=tuple(
            Reject("squeue", number, job.problem, job.record)
            for number, job in enumerate(jobs, 1)
            if job.row is None
        ),
        texts={job.row.raw_id: job.text for job in jobs if job.row and job.text},
    )


def _job(record: Sequence[str]) -> _Job:
    try:
        return _Job(_queue_row(record))
    except (DataError, ValueError) as error:
        return _Job(None, problem=str(error), record="|".join(record))


def _job_with_texts(record: Sequence[str]) -> _Job:
    try:
        row = _queue_row(record[: len(QUEUE_FIELDS)])
        return _Job(row, _free_text(record[len(QUEUE_FIELDS) :]))
    except (DataError, ValueError) as error:
        return _Job(None, problem=str(error), record="|".join(record))


def _free_text(fields: Sequence[str]) -> FreeText:
    if len(fields) != len(TEXT_FIELDS):
        raise DataError(f"record has {len(fields)} texts instead of {len(TEXT_FIELDS)}")
    name, comment = fields
    return FreeText(name, "" if comment == "(null)" else comment)


def _queue_row(record: Sequence[str]) -> QueueRow:
    if len(record) != len(QUEUE_FIELDS):
        raise DataError(f"record has {len(record)} fields instead of {len(QUEUE_FIELDS)}")
    (
        job_id, array_job_id_text, array_job_id, array_task, het_job_id, het_offset, state_text,
        reason, user, account, qos, partition, priority, nice, submit, eligible, start, end, limit,
        num_nodes, max_nodes, num_cpus, tres_text, per_job, per_node, per_socket, per_task,
        num_tasks, sockets, restarts, batch, requeue, reservation, feature, node_list, dependency,
        licences,
    ) = record  # fmt: skip
    submit_time = parse_time(submit)
    if submit_time is None:
        raise DataError(f"no submit time: {submit!r}")
    is_array = array_task not in UNSET
    is_unsplit = "[" in array_job_id_text or (is_array and not array_task.isdecimal())
    is_het = het_offset not in UNSET
    # While a job waits, NumNodes is squeue's guess; its TRES hold the least that it asks for.
    nodes = _tres(tres_text).get("node") or _count(num_nodes, 1)
    tasks = _count(num_tasks, 1)
    tres, num_gpus, gpu_options, shards, mem_bytes = resources(
        tres_text, per_job, per_node, per_socket, per_task, nodes, tasks, sockets
    )
    return QueueRow(
        raw_id=int(job_id),
        job_id=int(array_job_id if is_array else het_job_id if is_het else job_id),
        array_task=int(array_task) if is_array and not is_unsplit else None,
        het_offset=int(het_offset) if is_het else None,
        array_tasks=array_task if is_unsplit else "",
        is_unsplit_array=is_unsplit,
        state=parse_state(state_text)[0],
        state_text=state_text,
        reason="" if reason == "None" else _text(reason),
        user=_text(user),
        tenant=_text(account),
        qos=_text(qos),
        partitions=_list(partition),
        priority=int(priority),
        nice=int(nice),
        submit_time=submit_time,
        eligible_time=parse_time(eligible),
        start_time=parse_time(start),
        end_time=parse_time(end),
        time_limit_s=time_limit(limit),
        min_nodes=nodes,
        max_nodes=max(nodes, _count(max_nodes, nodes)),
        num_cpus=_count(num_cpus, 0),
        num_gpus=num_gpus,
        gpu_options=gpu_options,
        shards=shards,
        mem_bytes=mem_bytes,
        features=_text(feature),
        licences=_text(licences),
        reservation=_text(reservation),
        dependency=_text(dependency),
        restarts=_count(restarts, 0),
        is_batch=batch == "1",
        node_list=_text(node_list),
        can_requeue=requeue == "1",
        tres=tres,
        gpus_per_node=_gpus_of(per_node),
    )


def _text(value: str) -> str:
    return "" if value in {"(null)", "N/A"} else value


@lru_cache(maxsize=4096)
def _list(value: str) -> tuple[str, ...]:
    return tuple(item for item in _text(value).split(",") if item)


@lru_cache(maxsize=4096)
def _count(value: str, default: int) -> int:
    """A count; of ``2-4`` the first. `default` where Slurm shows none."""
    return default if value in UNSET else parse_count(value.partition("-")[0])


_tres = lru_cache(maxsize=4096)(parse_tres)


@lru_cache(maxsize=4096)
def _gpus_of(gres: str) -> int:
    return count_gres(parse_requested_gres(gres), "gpu")[0]


@lru_cache(maxsize=4096)
def resources(
    tres_text: str,
    per_job: str,
    per_node: str,
    per_socket: str,
    per_task: str,
    nodes: int,
    tasks: int,
    sockets: str,
) -> tuple[tuple[Tres, ...], int, tuple[GpuOption, ...], int, int]:
    """TRES, GPUs, their types, shards and bytes of memory: totals over all nodes.

    `tres_text` holds GPUs only on a cluster that accounts for them (slurmdbd); else they come from
    the request.
    """
    tres = _tres(tres_text)
    accounted = tres_gres(tres)
    num_gpus, kinds = count_gres(accounted, "gpu")
    if not kinds:  # the site does not account for GPUs, or not for their types
        wanted, kinds = count_gres(
            _requested(per_job, per_node, per_socket, per_task, nodes, tasks, sockets), "gpu"
        )
        num_gpus = num_gpus or wanted
    untyped = num_gpus - sum(count for _, count in kinds)
    options = tuple(GpuOption(kind, count) for kind, count in kinds)
    if untyped > 0:
        options += (GpuOption(None, untyped),)
    shards, _ = count_gres(accounted, "shard")
    if not shards:
        shards, _ = count_gres(_times(parse_requested_gres(per_node), nodes), "shard")
    records = tuple(Tres(name, count) for name, count in tres.items())
    return records, num_gpus, options, shards, tres.get("mem", 0)


def _requested(
    per_job: str,
    per_node: str,
    per_socket: str,
    per_task: str,
    nodes: int,
    tasks: int,
    sockets: str,
) -> tuple[Gres, ...]:
    """The GPUs of the first spelling that names some: ``--gpus`` is the total, if given at all."""
    num_sockets = nodes * (int(sockets) if sockets.isdecimal() else 1)
    for text, factor in (
        (per_job, 1),
        (per_node, nodes),
        (per_task, tasks),
        (per_socket, num_sockets),
    ):
        entries = _times(parse_requested_gres(text), factor)
        if count_gres(entries, "gpu")[0]:
            return entries
    return ()


def _times(entries: tuple[Gres, ...], factor: int) -> tuple[Gres, ...]:
    return tuple(Gres(entry.name, entry.kind, entry.count * factor) for entry in entries)


def parse_free_text(text: str, separator: str) -> dict[int, FreeText]:
    """Name and comment by raw id, of ``squeue -O`` with `FREE_TEXT_FIELDS`.

    Raises DataError when the output is cut short.
    """
    texts: dict[int, FreeText] = {}
    for record in split_records(text, separator, len(FREE_TEXT_FIELDS)):
        if len(record) != len(FREE_TEXT_FIELDS) or not record[0].isdecimal():
            raise DataError(f"squeue gave a broken record: {record!r}")
        texts[int(record[0])] = _free_text(record[1:])
    return texts
