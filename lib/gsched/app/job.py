"""One job: everything known of it, and why it waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsched.app.explain import policy_reason, prediction_source, slurm_reason
from gsched.app.named_job import named_job
from gsched.app.queue import NO_DAEMON, QueuedJob, QueueView, view_queue
from gsched.app.wiring import has_history, open_history, slurm_client
from gsched.config.settings import Settings
from gsched.errors import GschedError, UsageError
from gsched.model.cluster import NodeView, PartitionView
from gsched.model.job import JobState
from gsched.model.jobid import JobId
from gsched.slurm.records import FreeText, PriorityRow, QueueRow


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What Slurm and the daemon say of one job that Slurm still knows.

    In `queue` only this job has its name.
    """

    row: QueueRow
    text: FreeText
    priority: PriorityRow | None
    line: QueuedJob
    queue: QueueView
    nodes: tuple[NodeView, ...]
    partitions: tuple[PartitionView, ...]


def find_live(settings: Settings, job: str) -> LiveJob | None:
    """The job in Slurm's queue, None when Slurm has none of that id (any more).

    Raises UsageError for text that is no job id, and for an array or a het job of which a
    single task or component must be named.
    """
    wanted = named_job(job)
    client = slurm_client(settings)
    rows = client.queue(states="all").rows
    found = _rows_of(wanted, rows)
    if not found:
        return None
    if len(found) > 1:
        ids = ", ".join(r.slurm_id for r in found[:5])
        raise UsageError(f"job {job} has {len(found)} parts ({ids}, …)", "name one of them")
    row = found[0]
    texts = client.free_text([row.raw_id])
    queue = view_queue(settings, rows, texts, client.config().cluster)
    return LiveJob(
        row=row,
        text=texts.get(row.raw_id, FreeText("", "")),
        priority=client.priorities().get(row.raw_id),
        line=next(j for j in queue.jobs if j.raw_id == row.raw_id),
        queue=queue,
        nodes=client.nodes(),
        partitions=client.partitions(),
    )


def _rows_of(wanted: JobId, rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows that an id means: Slurm's own number of an array task counts where none is shown."""
    found = [r for r in rows if r.job_id == wanted.job_id]
    found = found or [r for r in rows if r.raw_id == wanted.job_id]
    if wanted.array_task is not None:
        whole = [r for r in found if r.is_unsplit_array]
        found = [r for r in found if r.array_task == wanted.array_task] or whole
    if wanted.het_offset is not None:
        found = [r for r in found if r.het_offset == wanted.het_offset]
    return found


def show_document(settings: Settings, job: str) -> dict[str, Any]:
    """Everything known of a job, from Slurm, the daemon's answer and the history.

    Raises UsageError when neither Slurm nor the history knows it.
    """
    live = find_live(settings, job)
    wanted = named_job(job)
    if live and not live.row.is_unsplit_array:
        row = live.row  # found perhaps by Slurm's own number, under which no history is kept
        wanted = JobId(row.job_id, row.array_task, het_offset=row.het_offset)
    document: dict[str, Any] = {"job": job, "slurm": None, "gsched": None, "history": []}
    if live:
        document["job"] = live.line.slurm_id
        document["slurm"] = _slurm_facts(live)
        document["gsched"] = live.line.answer or None
    document["history"], document["history_note"] = _history(settings, wanted)
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


def _history(settings: Settings, wanted: JobId) -> tuple[list[dict[str, Any]], str]:
    """Logical jobs of that id with their attempts, newest first; and why there are none."""
    if not has_history(settings):
        return [], "no history database on this host"
    from gsched_sql import HistoryFilter, history_document

    chosen = HistoryFilter(
        job_id=wanted.job_id, array_task=wanted.array_task, het_offset=wanted.het_offset
    )
    try:
        with open_history(settings) as history:
            found = history.jobs(chosen)
    except GschedError as e:
        return [], e.message
    return [history_document(j) for j in found], ""


def never_starts(
    row: QueueRow, nodes: Sequence[NodeView], partitions: Sequence[PartitionView]
) -> str:
    """Why a waiting job can never start as it asks, "" when it can (as far as can be seen)."""
    if row.reason == "DependencyNeverSatisfied":
        return "the job that it depends on ended the wrong way. Cancel it, or update its dependency"
    mine = [p for p in partitions if p.name in row.partitions]
    # A job starts in one of its partitions, whole: it is lost only when none of them can take it.
    misfits = [_misfit(row, partition, nodes) for partition in mine]
    return misfits[0] if misfits and all(misfits) and len(mine) == len(row.partitions) else ""


def _misfit(row: QueueRow, partition: PartitionView, nodes: Sequence[NodeView]) -> str:
    """Why a partition can never take a job, "" when it can or part of its nodes is not shown."""
    name, limit_s = partition.name, partition.max_time_s
    if limit_s is not None and row.time_limit_s is not None and row.time_limit_s > limit_s:
        return f"its time limit exceeds that of {name}. Shorten --time, or cancel it"
    gpus = sorted((n.num_gpus for n in nodes if n.name in partition.nodes), reverse=True)
    if not gpus or len(gpus) != len(partition.nodes):
        return ""
    if row.gpus_per_node > gpus[0]:
        return (
            f"it asks for {row.gpus_per_node} GPUs on one node; the largest node of {name} has "
            f"{gpus[0]}. Change --gres, or cancel it"
        )
    if row.min_nodes > len(gpus):
        return f"it asks for {row.min_nodes} nodes; {name} has {len(gpus)}"
    # No most of nodes looks like a most of min_nodes: nothing follows from it.
    limits = (row.max_nodes if row.max_nodes > row.min_nodes else None, partition.max_nodes)
    most = min([len(gpus), *(limit for limit in limits if limit is not None)])
    if row.num_gpus > sum(gpus[:most]):
        return (
            f"it asks for {row.num_gpus} GPUs; {name} can give it {sum(gpus[:most])} on "
            f"{_count_nodes(most)}. Ask for fewer, or cancel it"
        )
    return ""


@dataclass(frozen=True, slots=True)
class WhyLine:
    """One line of ``gsched why``: `what` it is about ("" in the first) and the answer in `words`.

    With `at`, an epoch time, that moment is the answer and `words` say how to take it.
    """

    what: str
    words: str
    at: int | None = None


def why_lines(live: LiveJob) -> list[WhyLine]:
    """Why a job waits; the first line is the answer in short."""
    row, line = live.row, live.line
    if row.state is not JobState.PENDING:
        return [WhyLine("", f"{line.slurm_id} does not wait: it is {row.state_text}")]
    impossible = never_starts(row, live.nodes, live.partitions)
    if impossible:
        return [WhyLine("", f"{line.slurm_id} can never start: {impossible}.")]
    free = sum(n.num_gpus - n.gpus_used for n in live.nodes if n.is_usable and _serves(n, row))
    lines = [
        WhyLine("", f'{line.slurm_id} "{live.text.name}" {slurm_reason(row.reason)}'),
        WhyLine("asks for", f"{_ask(row)}; {free} GPUs free in {','.join(row.partitions)} now"),
        *_ahead(live),
    ]
    if row.start_time:
        lines.append(WhyLine("Slurm expects", "reckons with time limits", at=row.start_time))
    return lines + _order(live)


def _serves(node: NodeView, row: QueueRow) -> bool:
    return bool(set(node.partitions) & set(row.partitions))


def _ask(row: QueueRow) -> str:
    nodes = _count_nodes(row.min_nodes)
    if row.num_gpus:
        return f"{row.num_gpus} GPU{'s' if row.num_gpus > 1 else ''} on {nodes}"
    return f"{row.num_cpus} CPU{'s' if row.num_cpus > 1 else ''} on {nodes}"


def _count_nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _ahead(live: LiveJob) -> list[WhyLine]:
    """Waiting jobs of its partitions that Slurm puts before it, and their predicted GPU-time.

    By Slurm's own priority: jobs that gsched leaves alone (arrays, others' values) count too.
    """
    mine = (-live.line.priority, live.line.raw_id)
    ahead = [
        j
        for j in live.queue.jobs
        if j.is_pending
        and j.priority > 0  # not held
        and (-j.priority, j.raw_id) < mine
        and set(j.partition.split(",")) & set(live.row.partitions)
    ]
    known = [j for j in ahead if j.predicted_duration_s is not None]
    hours = sum(j.num_gpus * (j.predicted_duration_s or 0.0) for j in known) / 3600
    own = sum(1 for j in ahead if j.user == live.row.user)
    jobs = f"{len(ahead)} job" + ("" if len(ahead) == 1 else "s")
    others = len(ahead) - len(known)
    rest = f"; {others} without a prediction" if others else ""
    words = f"{jobs}, {hours:.2g} GPU-hours predicted ({own} of its user{rest})"
    return [WhyLine("ahead of it", words)]


def _order(live: LiveJob) -> list[WhyLine]:
    line, answer = live.line, live.line.answer
    lines: list[WhyLine] = []
    if not answer:
        lines.append(WhyLine("order", live.queue.note or NO_DAEMON))
    elif answer.get("excluded"):
        lines.append(
            WhyLine("order", f"gsched leaves it alone: {answer['excluded'].get('detail')}")
        )
    elif line.rank:
        reason = answer.get("reason") or {}
        text = policy_reason(reason.get("code", ""), reason.get("params", {}))
        lines.append(WhyLine("order", f"rank {line.rank['position']} of {line.rank['of']}: {text}"))
    if answer.get("duration_s"):
        lines.append(WhyLine("predicted", _predicted(answer["duration_s"])))
    if live.priority:
        foreign = (answer.get("excluded") or {}).get("code") == "foreign-site-factor"
        name = "SiteFactor (another hand's)" if foreign else "gsched"
        parts = {
            **live.priority.components,
            name: live.priority.site_factor,
            "nice": -live.priority.nice,
        }
        shown = ", ".join(f"{name} {value:+}" for name, value in parts.items() if value)
        lines.append(WhyLine("priority", f"{live.priority.total} = {shown or 'no factor counts'}"))
    if live.queue.note and answer:
        lines.append(WhyLine("note", live.queue.note))
    return lines


def _predicted(duration: dict[str, Any]) -> str:
    quantiles = duration.get("quantiles") or []
    text = f"{float(duration['mean']):.0f} s"
    if len(quantiles) >= 2:
        (low_p, low), (high_p, high) = quantiles[0], quantiles[-1]
        text += f" ({100 * (high_p - low_p):.0f} %: {low:.0f}–{high:.0f} s)"
    source = prediction_source(str(duration.get("source")), int(duration.get("similar_jobs") or 0))
    return f"{text}, {source}"
