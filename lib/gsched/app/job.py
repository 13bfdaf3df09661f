"""One job: everything known of it, and why it waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsched.app.explain import policy_reason, prediction_source, slurm_reason
from gsched.app.queue import NO_DAEMON, QueuedJob, QueueFilter, QueueView, list_queue
from gsched.app.wiring import has_history, open_history, slurm_client
from gsched.config.settings import Settings
from gsched.errors import GschedError, UsageError
from gsched.model.cluster import NodeView, PartitionView
from gsched.model.job import JobState
from gsched.model.jobid import parse_job_id
from gsched.slurm.records import FreeText, PriorityRow, QueueRow


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What Slurm and the daemon say of one job that Slurm still knows."""

    row: QueueRow
    text: FreeText
    priority: PriorityRow | None
    line: QueuedJob
    queue: QueueView
    nodes: tuple[NodeView, ...]
    partitions: tuple[PartitionView, ...]


def find_live(settings: Settings, job: str) -> LiveJob | None:
    """The job in Slurm's queue, None when Slurm has none of that id (any more).

    Raises DataError for text that is no job id, UsageError for an array or a het job of which a
    single task or component must be named.
    """
    wanted = parse_job_id(job)
    client = slurm_client(settings)
    rows = [r for r in client.queue(states="all").rows if r.job_id == wanted.job_id]
    if not rows:
        rows = [r for r in client.queue(states="all").rows if r.raw_id == wanted.job_id]
    if wanted.array_task is not None:
        rows = [r for r in rows if r.array_task == wanted.array_task] or [
            r for r in rows if r.is_unsplit_array
        ]
    if wanted.het_offset is not None:
        rows = [r for r in rows if r.het_offset == wanted.het_offset]
    if not rows:
        return None
    if len(rows) > 1:
        ids = ", ".join(r.slurm_id for r in rows[:5])
        raise UsageError(f"job {job} has {len(rows)} parts ({ids}, …)", "name one of them")
    row = rows[0]
    view = list_queue(settings, QueueFilter(), states="all")
    line = next((j for j in view.jobs if j.raw_id == row.raw_id), None)
    if line is None:
        return None
    return LiveJob(
        row=row,
        text=client.free_text([row.raw_id]).get(row.raw_id, FreeText("", "")),
        priority=client.priorities().get(row.raw_id),
        line=line,
        queue=view,
        nodes=client.nodes(),
        partitions=client.partitions(),
    )


def show_document(settings: Settings, job: str) -> dict[str, Any]:
    """Everything known of a job, from Slurm, the daemon's answer and the history.

    Raises UsageError when neither Slurm nor the history knows it.
    """
    live = find_live(settings, job)
    document: dict[str, Any] = {"job": job, "slurm": None, "gsched": None, "history": []}
    if live:
        document["job"] = live.line.slurm_id
        document["slurm"] = _slurm_facts(live)
        document["gsched"] = live.line.answer or None
    document["history"], document["history_note"] = _history(settings, job)
    if not live and not document["history"]:
        raise UsageError(
            f"job {job} is known neither to Slurm nor to the history",
            "`gsched queue` lists present jobs, `gsched history` past ones",
        )
    return document


def _slurm_facts(live: LiveJob) -> dict[str, Any]:
    row, priority = live.row, live.priority
    return {
        "name": live.text.name,
        "comment": live.text.comment,
        "user": row.user,
        "account": row.tenant,
        "partition": ",".join(row.partitions),
        "qos": row.qos,
        "state": row.state_text,
        "reason": row.reason,
        "submit_time": row.submit_time,
        "eligible_time": row.eligible_time,
        "start_time": row.start_time,
        "end_time": row.end_time,
        "time_limit_s": row.time_limit_s,
        "num_nodes": row.min_nodes,
        "num_cpus": row.num_cpus,
        "num_gpus": row.num_gpus,
        "gpu_types": [o.gpu_type for o in row.gpu_options if o.gpu_type],
        "nodes": row.node_list,
        "restarts": row.restarts,
        "priority": row.priority,
        "priority_parts": None
        if priority is None
        else {**priority.components, "site_factor": priority.site_factor, "nice": -priority.nice},
    }


def _history(settings: Settings, job: str) -> tuple[list[dict[str, Any]], str]:
    """Logical jobs of that id with their attempts, newest first; and why there are none."""
    if not has_history(settings):
        return [], "no history database on this host"
    from gsched_sql import HistoryFilter, history_document

    wanted = parse_job_id(job)
    try:
        with open_history(settings) as history:
            found = history.jobs(HistoryFilter(job_id=wanted.job_id))
    except GschedError as e:
        return [], e.message
    return [history_document(j) for j in found], ""


def never_starts(
    row: QueueRow, nodes: Sequence[NodeView], partitions: Sequence[PartitionView]
) -> str:
    """Why a waiting job can never start as it asks, "" when it can (as far as can be seen)."""
    mine = [p for p in partitions if p.name in row.partitions]
    if not mine:
        return ""
    names = ", ".join(p.name for p in mine)
    in_reach = [n for n in nodes if set(n.partitions) & {p.name for p in mine}]
    per_node = -(-row.num_gpus // max(1, row.min_nodes))
    largest = max((n.num_gpus for n in in_reach), default=0)
    if in_reach and per_node > largest:
        return (
            f"it asks for {per_node} GPUs on one node; the largest node of {names} has {largest}. "
            "Change --nodes or --gres, or cancel it"
        )
    if in_reach and row.min_nodes > len(in_reach):
        return f"it asks for {row.min_nodes} nodes; {names} has {len(in_reach)}"
    limits = [p.max_time_s for p in mine]
    if row.time_limit_s is not None and all(m is not None and row.time_limit_s > m for m in limits):
        return f"its time limit exceeds that of {names}. Shorten --time, or cancel it"
    if row.reason == "DependencyNeverSatisfied":
        return "the job that it depends on ended the wrong way. Cancel it, or update its dependency"
    return ""


def why_lines(live: LiveJob) -> list[tuple[str, str]]:
    """Why a job waits: (what, words) lines, the first one the answer in short."""
    row, line = live.row, live.line
    if row.state is not JobState.PENDING:
        return [("", f"{line.slurm_id} does not wait: it is {row.state_text}")]
    impossible = never_starts(row, live.nodes, live.partitions)
    if impossible:
        return [("", f"{line.slurm_id} can never start: {impossible}.")]
    free = sum(n.num_gpus - n.gpus_used for n in live.nodes if n.is_usable and _serves(n, row))
    lines = [
        ("", f'{line.slurm_id} "{live.text.name}" {slurm_reason(row.reason)}'),
        ("asks for", f"{_ask(row)}; {free} GPUs free in {','.join(row.partitions)} now"),
    ]
    lines += _ahead(live)
    if row.start_time:
        lines.append(("Slurm expects", f"@{row.start_time}"))  # a moment: shown in local time
    lines += _order(live)
    return lines


def _serves(node: NodeView, row: QueueRow) -> bool:
    return bool(set(node.partitions) & set(row.partitions))


def _ask(row: QueueRow) -> str:
    nodes = f"{row.min_nodes} node" + ("s" if row.min_nodes > 1 else "")
    if row.num_gpus:
        return f"{row.num_gpus} GPU{'s' if row.num_gpus > 1 else ''} on {nodes}"
    return f"{row.num_cpus} CPU{'s' if row.num_cpus > 1 else ''} on {nodes}"


def _ahead(live: LiveJob) -> list[tuple[str, str]]:
    """Waiting jobs that the order puts before this one, and their predicted GPU-time."""
    mine = live.line.rank
    if not mine:
        return []
    ahead = [
        j
        for j in live.queue.jobs
        if j.rank and j.rank["queue"] == mine["queue"] and j.rank["position"] < mine["position"]
    ]
    known = [j for j in ahead if j.predicted_duration_s is not None]
    hours = sum(j.num_gpus * (j.predicted_duration_s or 0.0) for j in known) / 3600
    own = sum(1 for j in ahead if j.user == live.row.user)
    return [
        ("ahead of it", f"{len(ahead)} jobs, {hours:.2g} GPU-hours predicted ({own} of its user)")
    ]


def _order(live: LiveJob) -> list[tuple[str, str]]:
    line, answer = live.line, live.line.answer
    lines = []
    if not answer:
        lines.append(("order", live.queue.note or NO_DAEMON))
    elif answer.get("excluded"):
        lines.append(("order", f"gsched leaves it alone: {answer['excluded'].get('detail')}"))
    elif line.rank:
        reason = answer.get("reason") or {}
        text = policy_reason(reason.get("code", ""), reason.get("params", {}))
        lines.append(("order", f"rank {line.rank['position']} of {line.rank['of']}: {text}"))
    if answer.get("duration_s"):
        lines.append(("predicted", _predicted(answer["duration_s"])))
    if live.priority:
        parts = {**live.priority.components, "gsched": live.priority.site_factor}
        shown = ", ".join(f"{name} {value:+}" for name, value in parts.items() if value)
        lines.append(("priority", f"{live.priority.total} = {shown or 'no factor counts'}"))
    if live.queue.note and answer:
        lines.append(("note", live.queue.note))
    return lines


def _predicted(duration: dict[str, Any]) -> str:
    quantiles = duration.get("quantiles") or []
    text = f"{float(duration['mean']):.0f} s"
    if len(quantiles) >= 2:
        (low_p, low), (high_p, high) = quantiles[0], quantiles[-1]
        text += f" ({100 * (high_p - low_p):.0f} %: {low:.0f}–{high:.0f} s)"
    source = prediction_source(str(duration.get("source")), int(duration.get("similar_jobs") or 0))
    return f"{text}, {source}"
