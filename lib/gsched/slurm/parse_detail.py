"""One job in all detail: ``scontrol show job --json``, or on older releases texts. Pure.

JSON is the better source here: one small document, fields by name, and no text of the owner's can
take another's place. Only scontrol of 23.11 and later gives it. What is left before that:

- ``squeue --json`` of 22.05 ignores every filter and dumps the whole queue: 0.65 s and 6 MB for
  2,000 jobs, where the texts of one take 0.03 s;
- ``scontrol show job`` prints a job's name and paths unquoted among its fields, so that
  ``-J $'x\\n   Nodes=gn01 … GRES=gpu:a100:8'`` looks like fields of Slurm's own.

So the texts come from squeue, between separators that nobody can guess, and scontrol's record is
asked only for what squeue does not know (GPUs on each node, excluded nodes): behind the name, which
is known by then and cut off, and before the next text that a user can choose.
"""

from __future__ import annotations

import re

from gsched.errors import DataError
from gsched.model.exitcode import ExitCode, parse_exit_code
from gsched.model.hostlist import expand
from gsched.model.units import UNSET, count_gres, parse_gres
from gsched.slurm.fields import parse_time, split_records
from gsched.slurm.parse_json import exit_code, pending_reason
from gsched.slurm.parse_json_values import (
    Record,
    count,
    listed,
    load,
    moment,
    number,
    record,
    text,
    words,
)
from gsched.slurm.records import JobDetail, NodeGres
from gsched.slurm.states import parse_state, parse_state_list

DETAIL_FIELDS = (
    "JobID", "ArrayJobID", "ArrayTaskID", "UserName", "Name", "Account", "State", "Comment",
    "admin_comment", "system_comment", "Command", "WorkDir", "STDIN", "STDOUT", "STDERR",
    "Container", "Reason", "Feature", "Prefer", "Dependency", "Licenses", "Reservation", "ReqNodes",
    "SchedNodes", "BatchHost", "NodeList", "exit_code", "Deadline", "LastSchedEval", "RestartCnt",
    "BatchFlag", "WCKey", "AllocNodes",
)  # fmt: skip

_NOT_ENDED = ExitCode(None, None)
_GPU_INDEXES = re.compile(r"gpu[^()]*\(IDX:([\d,-]+)\)", re.ASCII)
_MOST_GPUS = 4096


def parse_job_json(json_text: str, raw_id: int) -> JobDetail | None:
    """The job with Slurm's own number `raw_id` in ``scontrol show job --json``; None if absent.

    The document of an array's or het job's id holds all of its parts. Raises DataError.
    """
    for item in load(json_text, "jobs").records:
        job = record(item)
        if number(job.get("job_id")) == raw_id:
            return _detail(job, raw_id)
    return None


def _detail(job: Record, raw_id: int) -> JobDetail:
    has_ended = parse_state_list(words(job.get("job_state")))[0].is_terminal
    code, signal = exit_code(job.get("exit_code")) if has_ended else _NOT_ENDED
    node_list = text(job.get("nodes"))
    std_out = _path(job, "stdout_expanded", "standard_output")
    return JobDetail(
        raw_id=raw_id,
        name=text(job.get("name")),
        comment=text(job.get("comment")),
        admin_comment=text(job.get("admin_comment")),
        system_comment=text(job.get("system_comment")),
        command=text(job.get("command")),
        work_dir=text(job.get("current_working_directory")),
        std_in=_path(job, "stdin_expanded", "standard_input"),
        std_out=std_out,
        std_err=_path(job, "stderr_expanded", "standard_error") or std_out,
        submit_line=text(job.get("submit_line")),
        container=text(job.get("container")),
        reason=pending_reason(job),
        features=text(job.get("features")),
        preferred_features=text(job.get("prefer")),
        dependency=text(job.get("dependency")),
        licences=text(job.get("licenses")),
        reservation=text(job.get("resv_name")),
        required_nodes=text(job.get("required_nodes")),
        excluded_nodes=text(job.get("excluded_nodes")),
        start_nodes=text(job.get("scheduled_nodes")),
        batch_host=text(job.get("batch_host")),
        node_list=node_list,
        node_gres=() if has_ended else _node_gres_of(job, node_list),
        exit_code=code,
        exit_signal=signal,
        deadline=moment(job.get("deadline")),
        last_evaluation_time=moment(job.get("last_sched_evaluation")),
        restarts=count(job.get("restart_cnt")),
    )


def _path(job: Record, *names: str) -> str:
    """The first of these that has a value: file patterns are filled in from 25.05 on."""
    return next((path for path in (text(job.get(name)) for name in names) if path), "")


def _node_gres_of(job: Record, node_list: str) -> tuple[NodeGres, ...]:
    """What the job holds on each node; nothing where Slurm's list does not fit the nodes."""
    held = [text(item) for item in listed(job.get("gres_detail"))]
    nodes = _node_names(node_list)
    if len(held) != len(nodes):
        return ()
    return tuple(_node_gres(node, gres) for node, gres in zip(nodes, held, strict=True) if gres)


def _node_names(node_list: str) -> list[str]:
    try:
        return list(expand(node_list))
    except DataError:
        return []  # in a grammar of its own


def _node_gres(node: str, gres: str) -> NodeGres:
    """``gpu:a100:2(IDX:0-1),shard:3`` on a node. What is not understood stays in `gres` alone."""
    try:
        total, kinds = count_gres(parse_gres(gres), "gpu")
        # index lists of other GRES are not GPUs' indexes; they stand behind the GRES's own name
        lists = [match[1] for match in _GPU_INDEXES.finditer(gres)]
        indexes = {number for ranges in lists for number in _numbers(ranges)}
    except DataError:
        return NodeGres(node, 0, (), (), gres)
    untyped = total - sum(amount for _, amount in kinds)
    types = ((("", untyped),) if untyped else ()) + kinds
    return NodeGres(node, total, types, tuple(sorted(indexes)), gres)


def _numbers(ranges: str) -> list[int]:
    """``0-2,5`` → 0, 1, 2, 5. Raises DataError for more than a node can have."""
    found: list[int] = []
    for item in ranges.split(","):
        first, _, last = item.partition("-")
        if not first.isdecimal() or (last and not last.isdecimal()):
            raise DataError(f"not a list of GPU indexes: {ranges!r}")
        begin, end = int(first), int(last or first)
        if end >= _MOST_GPUS:
            raise DataError(f"GPU index {end} is beyond {_MOST_GPUS}")
        found += range(begin, end + 1)
    return found


# -- texts ----------------------------------------------------------------------------------


def parse_job_texts(squeue: str, separator: str, scontrol: str, raw_id: int) -> JobDetail | None:
    """The job `raw_id` in ``squeue -O`` with `DETAIL_FIELDS` and ``scontrol -d -o show job``.

    None when squeue does not list it. Raises DataError for a record in disorder.
    """
    for fields in split_records(squeue, separator, len(DETAIL_FIELDS)):
        if len(fields) != len(DETAIL_FIELDS):
            raise DataError(f"squeue gave {len(fields)} fields instead of {len(DETAIL_FIELDS)}")
        if fields[0] == str(raw_id):
            return _detail_of(dict(zip(DETAIL_FIELDS, fields, strict=True)), scontrol, raw_id)
    return None


def _detail_of(row: dict[str, str], scontrol: str, raw_id: int) -> JobDetail:
    has_ended = parse_state(row["State"])[0].is_terminal
    code, signal = _exit_code(row["exit_code"]) if has_ended else _NOT_ENDED
    own = _own_fields(scontrol, row)
    reason = _text(row["Reason"])
    return JobDetail(
        raw_id=raw_id,
        name=row["Name"],
        comment=_text(row["Comment"]),
        admin_comment=_text(row["admin_comment"]),
        system_comment=_text(row["system_comment"]),
        command=_text(row["Command"]),
        work_dir=_text(row["WorkDir"]),
        std_in=_file(row["STDIN"], row),
        std_out=_file(row["STDOUT"], row),
        std_err=_file(row["STDERR"], row) or _file(row["STDOUT"], row),
        submit_line="",
        container=_text(row["Container"]),
        reason="" if reason == "None" else reason,
        features=_text(row["Feature"]),
        preferred_features=_text(row["Prefer"]),
        dependency=_text(row["Dependency"]),
        licences=_text(row["Licenses"]),
        reservation=_text(row["Reservation"]),
        required_nodes=_text(row["ReqNodes"]),
        excluded_nodes=_excluded_nodes(own),
        start_nodes=_text(row["SchedNodes"]),
        batch_host=_text(row["BatchHost"]),
        node_list=_text(row["NodeList"]),
        node_gres=() if has_ended else _node_gres_in(own),
        exit_code=code,
        exit_signal=signal,
        deadline=parse_time(row["Deadline"]),
        last_evaluation_time=parse_time(row["LastSchedEval"]),
        restarts=_number(row["RestartCnt"]) or 0,
    )


def _text(value: str) -> str:
    return "" if value in {"(null)", "N/A", "n/a"} else value


def _number(value: str) -> int | None:
    return int(value) if re.fullmatch(r"\d{1,10}", value, re.ASCII) else None


def _exit_code(value: str) -> ExitCode:
    """``3:0``, or the status of wait(2) as 22.05 prints it."""
    return parse_exit_code(value) if ":" in value else exit_code(_number(value))


def _file(pattern: str, row: dict[str, str]) -> str:
    """A file with its pattern filled in as sbatch(1) says, which scontrol's JSON has done.

    What only a step knows (``%s``, ``%t``, …) and what is not decided yet stays as it is.
    """
    array_task, nodes = row["ArrayTaskID"], _node_names(_text(row["NodeList"]))
    known = {
        "%": "%",
        "j": row["JobID"],
        "A": row["ArrayJobID"],
        "u": row["UserName"],
        "x": row["Name"],
        "a": array_task if array_task.isdecimal() else None,
        "N": nodes[0].partition(".")[0] if nodes else None,
    }

    def fill(match: re.Match[str]) -> str:
        value = known.get(match["letter"])
        if value is None:
            return match[0]
        return value.zfill(int(match["width"] or 0)) if value.isdecimal() else value

    path = re.sub(r"%(?P<width>\d?)(?P<letter>.)", fill, _text(pattern))
    is_relative = path and not path.startswith("/") and row["BatchFlag"] == "1"
    return f"{_text(row['WorkDir'])}/{path}" if is_relative else path


_BEHIND_NAME = re.compile(r" (?:(?:SLUID|HetJobIdSet)=\S+ )*UserId=", re.ASCII)


def _own_fields(scontrol: str, row: dict[str, str]) -> str:
    """The part of the job's record that Slurm alone writes; "" when it is not found.

    Before it stand texts of the owner's, in an order that never changes: the name, the account (on
    clusters without slurmdbd), the workload key, and the host that the client program said it was
    on. squeue has told them, so that each is cut off whole. Behind it stand command and paths.
    """
    start = rf"^JobId={row['JobID']} (?:(?:Array|Het)[A-Za-z]+=\S+ )*JobName="
    begin = re.search(start, scontrol, re.MULTILINE | re.ASCII)
    rest = scontrol[begin.end() :] if begin else ""
    if not rest.startswith(row["Name"]):
        return ""
    rest = rest[len(row["Name"]) :]
    head, _, rest = rest.partition(f" Account={row['Account']} QOS=")
    if _BEHIND_NAME.match(head) is None or "\n" in head:
        return ""
    qos, _, rest = rest.partition(" ")
    rest = rest.removeprefix(f"WCKey={row['WCKey']} ")
    head, _, rest = rest.partition(f" AllocNode:Sid={row['AllocNodes']}:")
    if "=" in qos or not head.startswith("JobState=") or "\n" in head:
        return ""
    return rest.partition(" Command=")[0]


def _excluded_nodes(own: str) -> str:
    match = re.search(r" ReqNodeList=\S+ ExcNodeList=(\S+) NodeList=", own)
    return "" if match is None or match[1] in UNSET else match[1]


_NODES = re.compile(r" Nodes=(\S+) CPU_IDs=\S* Mem=\d+ GRES=(\S*)", re.ASCII)


def _node_gres_in(own: str) -> tuple[NodeGres, ...]:
    _, found, rest = own.partition(" CoreSpec=")
    lines = _NODES.findall(rest.partition(" MinCPUsNode=")[0]) if found else []
    return tuple(
        _node_gres(node, gres) for nodes, gres in lines if gres for node in _node_names(nodes)
    )
