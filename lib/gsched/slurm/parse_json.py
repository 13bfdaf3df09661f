"""JSON of squeue, sacct, sinfo and scontrol → the same records as their text gives. Pure.

Where gsched reads JSON, and where not. The hot listings stay text: read and parsed, 2,000 waiting
jobs of 22.05 take 0.09 s as text, 0.65 s and 6 MB as JSON, and an unbounded ``sacct --json`` of a
busy month is hundreds of megabytes. JSON is better for one job in all detail:
``gsched.slurm.parse_detail`` reads it, with `exit_code` and `pending_reason` from here.

`parse_squeue_json` and `parse_nodes_json` no command of gsched calls today. They are for what
others hand over, documents that a site has kept and the answers of slurmrestd, and held to the
text's meaning on recorded output of each release. The JSON of sacct is in ``sacct_json``.

22.05 writes null for an unlimited time.
"""

from __future__ import annotations

import re

from gsched.errors import DataError
from gsched.model.cluster import NodeView
from gsched.model.exitcode import ExitCode
from gsched.model.history import Reject
from gsched.model.job import UNLIMITED_S, JobState
from gsched.model.units import (
    count_gres,
    parse_gres,
    parse_requested_gres,
    parse_tres,
    tres_gres,
)
from gsched.slurm.fields import time_limit
from gsched.slurm.parse_json_values import (
    Record,
    count,
    flag,
    load,
    moment,
    number,
    numbered,
    part,
    raw,
    record,
    required,
    text,
    words,
)
from gsched.slurm.parse_queue import resources
from gsched.slurm.records import FreeText, QueueListing, QueueRow
from gsched.slurm.states import parse_node_state, parse_state_list

_MIB = 2**20
_LONGEST_MIN = UNLIMITED_S // 60


def parse_squeue_json(json_text: str) -> QueueListing:
    """The jobs of ``squeue --json``, ``scontrol show job --json`` or slurmrestd's ``/jobs``.

    With their names and comments. Raises DataError for a document that is none, see
    ``parse_json_values.load``; a record that cannot be understood is a reject.
    """
    document = load(json_text, "jobs")
    rows: list[QueueRow] = []
    texts: dict[int, FreeText] = {}
    rejects = document.rejects("squeue")
    for line, item in numbered(document):
        try:
            job = record(item)
            row = _queue_row(job)
            texts[row.raw_id] = FreeText(text(job.get("name")), text(job.get("comment")))
        except DataError as error:
            rejects.append(Reject(document.source("squeue"), line, error.message, raw(item)))
            continue
        rows.append(row)
    return QueueListing(tuple(rows), tuple(rejects), texts)


def _queue_row(job: Record) -> QueueRow:
    raw_id = required(number(job.get("job_id")), "job id")
    state, state_text = state_of(job.get("job_state"))
    task, tasks = number(job.get("array_task_id")), text(job.get("array_task_string"))
    array_id, het_id = count(job.get("array_job_id")), count(job.get("het_job_id"))
    is_unsplit = bool(tasks)
    tres_text = text(job.get("tres_alloc_str")) or text(job.get("tres_req_str"))
    counts = parse_tres(tres_text)
    nodes = counts.get("node") or count(job.get("node_count"), 1)
    per_node = text(job.get("tres_per_node"))
    tres, num_gpus, gpu_options, shards, mem_bytes = resources(
        tres_text,
        text(job.get("tres_per_job")),
        per_node,
        text(job.get("tres_per_socket")),
        text(job.get("tres_per_task")),
        nodes,
        count(job.get("tasks"), 1),
        str(count(job.get("sockets_per_node"), 1)),
    )
    time_limit_s, end_time = limit_s(job.get("time_limit")), moment(job.get("end_time"))
    if time_limit_s == UNLIMITED_S and not state.is_terminal:
        end_time = None  # a year after its start, which squeue's text does not show
    return QueueRow(
        raw_id=raw_id,
        job_id=array_id or het_id or raw_id,
        array_task=task if array_id and not is_unsplit else None,
        het_offset=count(job.get("het_job_offset")) if het_id else None,
        array_tasks=tasks,
        is_unsplit_array=is_unsplit,
        state=state,
        state_text=state_text,
        reason=pending_reason(job),
        user=text(job.get("user_name")),
        tenant=text(job.get("account")),
        qos=text(job.get("qos")),
        partitions=words(job.get("partition")),
        priority=count(job.get("priority")),
        nice=number(job.get("nice")) or 0,
        submit_time=required(moment(job.get("submit_time")), "submit time"),
        eligible_time=moment(job.get("eligible_time")),
        start_time=moment(job.get("start_time")),
        end_time=end_time,
        time_limit_s=time_limit_s,
        min_nodes=nodes,
        max_nodes=max(nodes, count(job.get("max_nodes")) or count(job.get("node_count"))),
        num_cpus=count(job.get("cpus"), counts.get("cpu", 0)),
        num_gpus=num_gpus,
        gpu_options=gpu_options,
        shards=shards,
        mem_bytes=mem_bytes,
        features=text(job.get("features")),
        licences=text(job.get("licenses")),
        reservation=text(job.get("resv_name")),
        dependency=text(job.get("dependency")),
        restarts=count(job.get("restart_cnt")),
        is_batch=flag(job.get("batch_flag")),
        node_list=text(job.get("nodes")),
        can_requeue=flag(job.get("requeue")),
        tres=tres,
        gpus_per_node=count_gres(parse_requested_gres(per_node), "gpu")[0],
    )


def state_of(value: object) -> tuple[JobState, str]:
    """State and the text that squeue would print. Raises DataError for no state at all."""
    names = words(value)
    if not names:
        raise DataError("no state")
    state, shown = parse_state_list(names)
    known = "" if state is JobState.UNKNOWN else state.value
    return state, shown.upper() or known or "+".join(names)


def pending_reason(job: Record) -> str:
    """Why a job waits or ended, as squeue prints it: the longer description where there is one."""
    reason = re.sub(r"\s", "_", text(job.get("state_description"))) or text(job.get("state_reason"))
    return "" if reason == "None" else reason


def limit_s(value: object) -> int | None:
    """Seconds of a limit in minutes. A plain null is what 22.05 writes for unlimited."""
    minutes = UNLIMITED_S if value is None else number(value, infinite=UNLIMITED_S)
    if minutes is None:
        return None
    if minutes < 0:
        raise DataError(f"negative time limit: {minutes}")
    return time_limit(str(min(minutes, _LONGEST_MIN)) if minutes < _LONGEST_MIN else "UNLIMITED")


# -- exit codes ---------------------------------------------------------------------------


def exit_code(value: object) -> ExitCode:
    """Exit code and signal. 22.05's squeue gives the status of wait(2) as one number."""
    if not isinstance(value, dict) or "number" in value:
        status = number(value)
        return ExitCode(None, None) if status is None else ExitCode(status >> 8 & 255, status & 127)
    by_number = part(value, "signal", "id"), part(value, "signal", "signal_id")
    signal = next((n for n in map(number, by_number) if n is not None), None)
    code = number(value.get("return_code"))
    if code is None and signal is None:
        return ExitCode(None, None)
    return ExitCode(code or 0, signal or 0)


# -- nodes ----------------------------------------------------------------------------------


def parse_nodes_json(json_text: str) -> tuple[NodeView, ...]:
    """The nodes of ``scontrol show node --json`` (24.11 on), of 22.05's ``sinfo --json``, and of
    slurmrestd. Raises DataError for what no node can be, and names the record.

    From 23.02 on, ``sinfo --json`` gives groups of like nodes: they are refused.
    """
    document = load(json_text, "nodes", "sinfo")
    if document.complaints:
        raise DataError(f"Slurm's JSON holds an error: {'; '.join(document.complaints)}")
    found = []
    for line, item in numbered(document):
        try:
            found.append(_node(record(item)))
        except DataError as error:
            raise DataError(f"node {line} in Slurm's JSON: {error.message}", error.hint) from None
    return tuple(found)


def _node(node: Record) -> NodeView:
    if isinstance(node.get("nodes"), dict):
        raise DataError("it is a group of nodes", "use `scontrol show node --json`")
    name = text(node.get("name"))
    if not name:
        raise DataError("no name")
    names = (*words(node.get("state")), *words(node.get("state_flags")))
    state, flags = parse_node_state("+".join(names))
    total, kinds = count_gres(parse_gres(text(node.get("gres"))), "gpu")
    used, _ = count_gres(parse_gres(text(node.get("gres_used"))), "gpu")
    if not used:
        used, _ = count_gres(tres_gres(parse_tres(text(node.get("tres_used")))), "gpu")
    untyped = total - sum(amount for _, amount in kinds)
    return NodeView(
        name=name,
        state=state,
        flags=flags,
        num_cpus=number(node.get("effective_cpus")) or count(node.get("cpus")),
        mem_bytes=count(node.get("real_memory")) * _MIB,
        gpus=((("", untyped),) if untyped else ()) + kinds,
        partitions=words(node.get("partitions")),
        features=words(node.get("active_features")),
        gpus_used=used,
        available_features=words(node.get("features")),
        cpus_used=count(node.get("alloc_cpus")),
        mem_used_bytes=count(node.get("alloc_memory")) * _MIB,
    )
