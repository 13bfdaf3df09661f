"""Output of squeue(1) and sprio(1) → records. Pure functions.

Every field is followed by a separator that is drawn anew for each call, so that no text of a user
can imitate it; the whole output is cut at it and dealt out in records of a fixed number of fields.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from gsched.errors import DataError
from gsched.model.history import Reject, Tres
from gsched.model.job import GpuOption
from gsched.model.units import (
    UNSET,
    Gres,
    count_gres,
    parse_count,
    parse_gres,
    parse_time_limit,
    parse_tres,
    tres_gres,
)
from gsched.slurm.records import FreeText, PriorityRow, QueueListing, QueueRow
from gsched.slurm.states import parse_state

QUEUE_FIELDS = (
    "JobID", "JobArrayID", "ArrayJobID", "ArrayTaskID", "HetJobID", "HetJobOffset", "State",
    "Reason", "UserName", "Account", "QOS", "Partition", "PriorityLong", "Nice", "SubmitTime",
    "EligibleTime", "StartTime", "EndTime", "TimeLimit", "NumNodes", "MaxNodes", "NumCPUs",
    "tres-alloc", "tres-per-job", "tres-per-node", "tres-per-socket", "tres-per-task", "NumTasks",
    "Sockets", "RestartCnt", "BatchFlag", "Requeue", "Reservation", "Feature", "NodeList",
    "Dependency", "Licenses",
)  # fmt: skip
FREE_TEXT_FIELDS = ("JobID", "Name", "Comment")
PRIORITY_COMPONENTS = ("age", "assoc", "fairshare", "jobsize", "partition", "qos", "tres")
_PRIORITY_LETTERS = ("i", "Y", "S", "N", "A", "B", "F", "J", "P", "Q", "T")


def new_separator() -> str:
    """A separator that nobody could have put into a job: control characters and 64 random bits."""
    return f"\x1f{os.urandom(8).hex()}\x1e"


def squeue_format(fields: Sequence[str], separator: str) -> str:
    """The argument of ``squeue -O``."""
    return ",".join(f"{field}:{separator}" for field in fields)


def sprio_format(separator: str) -> str:
    """The argument of ``sprio -o``."""
    return "".join(f"%{letter}{separator}" for letter in _PRIORITY_LETTERS)


def split_records(text: str, separator: str, width: int) -> Iterator[list[str]]:
    """The records of an output as lists of `width` fields; the last one is shorter when cut."""
    fields = text.split(separator)
    fields.pop()  # the line end after the last record
    for begin in range(0, len(fields), width):
        record = fields[begin : begin + width]
        record[0] = record[0].removeprefix("\n")
        yield record


def parse_queue(text: str, separator: str) -> QueueListing:
    """The jobs of ``squeue -h -a -O`` with `QUEUE_FIELDS`. A record in disorder is a reject."""
    rows: list[QueueRow] = []
    rejects: list[Reject] = []
    for number, record in enumerate(split_records(text, separator, len(QUEUE_FIELDS)), 1):
        try:
            rows.append(_queue_row(record))
        except (DataError, ValueError) as error:
            rejects.append(Reject("squeue", number, str(error), "|".join(record)))
    return QueueListing(tuple(rows), tuple(rejects))


def _queue_row(record: list[str]) -> QueueRow:
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
    nodes, tasks = _count(num_nodes, 1), _count(num_tasks, 1)
    tres, num_gpus, gpu_options, shards, mem_bytes = _resources(
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
        time_limit_s=_time_limit(limit),
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
    )


def _text(value: str) -> str:
    return "" if value in {"(null)", "N/A"} else value


@lru_cache(maxsize=4096)
def _list(value: str) -> tuple[str, ...]:
    return tuple(item for item in _text(value).split(",") if item)


def parse_time(value: str) -> int | None:
    """Epoch seconds as Slurm prints them with SLURM_TIME_FORMAT=%s; None where it has none."""
    if value.isdecimal():
        return int(value) or None
    if value in UNSET:
        return None
    raise DataError(f"not an epoch time: {value!r}")


_time_limit = lru_cache(maxsize=4096)(parse_time_limit)


@lru_cache(maxsize=4096)
def _count(value: str, default: int) -> int:
    """A count; of ``2-4`` the first. `default` where Slurm shows none."""
    return default if value in UNSET else parse_count(value.partition("-")[0])


@lru_cache(maxsize=4096)
def _resources(
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
    the request. ``--gpus`` is the total whatever else is asked for.
    """
    tres = parse_tres(tres_text)
    accounted = tres_gres(tres)
    requested = next(
        (
            _times(parse_gres(text), factor)
            for text, factor in (
                (per_job, 1),
                (per_node, nodes),
                (per_task, tasks),
                (per_socket, nodes * _sockets(sockets)),
            )
            if count_gres(parse_gres(text), "gpu")[0]
        ),
        (),
    )
    num_gpus, kinds = count_gres(accounted, "gpu")
    if not num_gpus:
        num_gpus, kinds = count_gres(requested, "gpu")
    elif not kinds:  # the site accounts for gres/gpu but not for its types
        kinds = count_gres(requested, "gpu")[1]
    shards = (
        count_gres(accounted, "shard")[0]
        or count_gres(_times(parse_gres(per_node), nodes), "shard")[0]
    )
    options = tuple(GpuOption(kind, count) for kind, count in kinds)
    if num_gpus and not options:
        options = (GpuOption(None, num_gpus),)
    return (
        tuple(Tres(name, count) for name, count in tres.items()),
        num_gpus,
        options,
        shards,
        tres.get("mem", 0),
    )


def _times(entries: tuple[Gres, ...], factor: int) -> tuple[Gres, ...]:
    return tuple(Gres(entry.name, entry.kind, entry.count * factor) for entry in entries)


def _sockets(text: str) -> int:
    return int(text) if text.isdecimal() else 1


def parse_free_text(text: str, separator: str) -> dict[int, FreeText]:
    """Name and comment by raw id, of ``squeue -O`` with `FREE_TEXT_FIELDS`.

    Raises DataError when the output is cut short.
    """
    texts: dict[int, FreeText] = {}
    for record in split_records(text, separator, len(FREE_TEXT_FIELDS)):
        if len(record) != len(FREE_TEXT_FIELDS) or not record[0].isdecimal():
            raise DataError(f"squeue gave a broken record: {record!r}")
        raw_id, name, comment = record
        texts[int(raw_id)] = FreeText(name, "" if comment == "(null)" else comment)
    return texts


def parse_priorities(text: str, separator: str) -> dict[int, PriorityRow]:
    """The rows of ``sprio -h -o`` by raw id. Raises DataError when the output is cut short."""
    rows: dict[int, PriorityRow] = {}
    for record in split_records(text, separator, len(_PRIORITY_LETTERS)):
        if len(record) != len(_PRIORITY_LETTERS):
            raise DataError(f"sprio gave a broken record: {record!r}")
        row = _priority_row([field.strip() for field in record])
        rows[row.raw_id] = row
    return rows


def _priority_row(record: list[str]) -> PriorityRow:
    try:
        raw_id, total, site_factor, nice, *weighted = record
        *plain, tres = weighted
        points = [round(float(value or 0)) for value in plain] + [_tres_points(tres)]
        return PriorityRow(
            raw_id=int(raw_id),
            total=round(float(total)),
            site_factor=round(float(site_factor)),
            nice=int(nice),
            components=dict(zip(PRIORITY_COMPONENTS, points, strict=True)),
            is_manual=_is_manual(round(float(total)), points, int(site_factor) - int(nice)),
        )
    except ValueError:
        raise DataError(f"sprio gave a row that is none: {record!r}") from None


def _tres_points(text: str) -> int:
    """Sum of ``cpu=0,gres/gpu=125``: the weighted TRES component is a list."""
    return sum(round(float(value)) for value in re.findall(r"=(-?\d+(?:\.\d+)?)", text))


def _is_manual(total: int, points: list[int], adjustment: int) -> bool:
    """Whether an admin has set this priority: no factor counts, and the total is not their sum.

    Slurm never lets a computed priority fall below 1.
    """
    return not any(points) and abs(total - max(1, adjustment)) > 1
