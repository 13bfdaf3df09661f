"""The answer of ``gsched show``: everything known of a job, from all that know something of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gsched.app.job import LiveJob, find_parts
from gsched.app.lease_ends import end_when_told
from gsched.app.named_job import named_job
from gsched.app.past_sources import Found, find_jobs
from gsched.app.requests import captured_requests
from gsched.app.told_attempts import told_attempts
from gsched.app.told_progress import told_by
from gsched.app.why import num_tasks
from gsched.app.wiring import has_history, now
from gsched.config.settings import Settings
from gsched.errors import DataError, GschedError, UsageError
from gsched.model.exitcode import ExitCode
from gsched.model.job import JobState, finite_limit_s
from gsched.model.jobid import JobId
from gsched.model.past import HistoryFilter, history_document
from gsched.slurm.records import JobDetail, QueueRow

MAX_PAST = 200
"""Logical jobs of the history that are shown of one array."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The answer as JSON, when it was given, and what JSON does not tell: whether the job has no
    time limit.
    """

    document: dict[str, Any]
    at: int
    is_unlimited: bool


def show_job(settings: Settings, job: str) -> Shown:
    """Everything known of a job: of Slurm, the daemon's answer, what was asked, the history.

    Of an array or a het job, ``slurm`` is a part that waits, or else the first one; ``parts`` has
    them all. Raises UsageError when nobody shows such a job to the caller.
    """
    parts = find_parts(settings, job)
    wanted = named_job(job)
    if len(parts) == 1 and not parts[0].row.is_unsplit_array:
        row = parts[0].row  # found perhaps by Slurm's own number, under which no history is kept
        wanted = JobId(row.job_id, row.array_task, het_offset=row.het_offset)
    found, note = _history(settings, wanted)
    if not parts and (found is None or not found.jobs):
        raise UsageError(
            f"nothing is known of job {job}: it does not exist, or is not yours to see",
            "`gsched queue` lists present jobs, `gsched history` past ones",
        )
    live = next((p for p in parts if p.row.state is JobState.PENDING), parts[0] if parts else None)
    limit_s = live.row.time_limit_s if live else found.jobs[0].time_limit_s if found else None
    told = _told(settings, parts, found)
    document = {
        "job": parts[0].line.slurm_id if len(parts) == 1 else job,
        "slurm": _slurm_facts(live) if live else None,
        "parts": [_part(part) for part in parts],
        "gsched": (live.line.answer or None) if live else None,
        **told,
        "lease_end": _lease_end(settings, parts, found),
        "history_source": found.source if found else None,
        "history": [history_document(past) for past in found.jobs] if found else [],
        "history_note": note,
        "requests": _requests(settings, wanted, live, found),
    }
    is_unlimited = limit_s is not None and finite_limit_s(limit_s) is None
    return Shown(document, now(), is_unlimited)


def _lease_end(settings: Settings, parts: Sequence[LiveJob], found: Found | None) -> str | None:
    """See `end_when_told`; None where that says nothing, and of several parts."""
    if len(parts) == 1 and parts[0].row.state.is_terminal:
        row = parts[0].row
        return end_when_told(settings, row.slurm_id, row.submit_time) or None
    if not parts and found is not None and found.jobs and found.jobs[0].attempts:
        past = found.jobs[0]
        return end_when_told(settings, past.key.slurm_id, past.attempts[-1].submit_time) or None
    return None


def _told(settings: Settings, parts: Sequence[LiveJob], found: Found | None) -> dict[str, Any]:
    """What the job itself tells of its progress, attempts and GPUs, and what is not believed of it.

    Of an array nothing: each of its tasks tells its own. A het job speaks for all its components.
    """
    nothing: dict[str, Any] = {"progress": None, "attempts": [], "gpus": [], "progress_note": ""}
    rows, past = [part.row for part in parts], found.jobs if found else ()
    tasks = {row.array_task for row in rows} or {job.key.array_task for job in past}
    if len(tasks) != 1 or any(row.is_unsplit_array for row in rows):
        return nothing
    job, notes = rows[0] if rows else past[0], []
    progress = None
    try:
        progress = told_by(settings, job, now())
    except DataError as e:
        notes.append(f"what the job tells of its progress is not believed: {e.message}")
    attempts, gpus, doubt = told_attempts(settings, job)
    if doubt:
        notes.append(f"what the job tells of its attempts is not believed: {doubt}")
    return {
        "progress": progress.document() if progress else None,
        "attempts": attempts,
        "gpus": gpus,
        "progress_note": "; ".join(notes),
    }


def _part(live: LiveJob) -> dict[str, Any]:
    row = live.row
    return {
        "job": live.line.slurm_id,
        "state": row.state_text,
        "slurm_reason": row.reason,
        "num_tasks": num_tasks(live),
        "node_list": row.node_list,
    }


def _slurm_facts(live: LiveJob) -> dict[str, Any]:
    row, priority = live.row, live.priority
    detail = live.cluster.client.job_detail(row.raw_id)
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
        "start_time": live.line.start_time,
        "end_time": live.line.end_time,
        "slurm_start_time": live.line.slurm_start_time,
        "time_limit_s": live.line.time_limit_s,
        "num_nodes": row.min_nodes,
        "num_cpus": row.num_cpus,
        "num_gpus": row.num_gpus,
        "gpu_types": [o.gpu_type for o in row.gpu_options if o.gpu_type],
        "mem_bytes": row.mem_bytes,
        "nodes": row.node_list,
        "restarts": row.restarts,
        "priority": row.priority,
        "priority_parts": None
        if priority is None
        else {**priority.components, "site_factor": priority.site_factor, "nice": -priority.nice},
        **_detail_facts(detail, row),
    }


def _detail_facts(detail: JobDetail | None, row: QueueRow) -> dict[str, Any]:
    """What slurmctld knows beyond squeue; texts None where there is none."""
    if detail is None:
        return {}
    exit_code = detail.exit_code if row.state.is_terminal else None
    has_run = bool(row.node_list)  # of others Slurm shows an exit code all the same
    signal = detail.exit_signal or 0
    return {
        "command": detail.command or None,
        "work_dir": detail.work_dir or None,
        "std_in": detail.std_in or None,
        "std_out": detail.std_out or None,
        "std_err": detail.std_err or None,
        "submit_line": detail.submit_line or None,
        "container": detail.container or None,
        "features": detail.features or None,
        "preferred_features": detail.preferred_features or None,
        "dependency": detail.dependency or None,
        "licences": detail.licences or None,
        "reservation": detail.reservation or None,
        "required_nodes": detail.required_nodes or None,
        "excluded_nodes": detail.excluded_nodes or None,
        "start_nodes": detail.start_nodes or None,
        "batch_host": detail.batch_host or None,
        "node_gres": {held.node: held.gres for held in detail.node_gres},
        "deadline_time": detail.deadline,
        "last_evaluation_time": detail.last_evaluation_time,
        "exit_code": exit_code,
        "exit_signal": None if exit_code is None else signal,
        "exit_words": ExitCode(exit_code, signal).words
        if has_run and exit_code is not None
        else None,
        "admin_comment": detail.admin_comment or None,
        "system_comment": detail.system_comment or None,
    }


def _requests(
    settings: Settings, job: JobId, live: LiveJob | None, found: Found | None
) -> Sequence[dict[str, Any]]:
    """What was asked of gsched, as the daemon captured it; only the database knows.

    A job that has left the queue is known by the history alone, with its cluster.
    """
    if not has_history(settings):
        return []
    clusters = [past.key.cluster for past in found.jobs] if found else []
    if live is not None:
        clusters = [live.cluster.config.cluster]
    try:
        return [
            request
            for cluster in dict.fromkeys(clusters)
            for request in captured_requests(settings, job, cluster)
        ]
    except GschedError:
        return []  # the note on the history says why


def _history(settings: Settings, wanted: JobId) -> tuple[Found | None, str]:
    """Logical jobs of that id with their attempts, newest first; and what is to be said of them."""
    chosen = HistoryFilter.of_job(wanted, limit=MAX_PAST)
    try:
        found = find_jobs(settings, chosen, now())
    except GschedError as error:
        return None, error.message
    if len(found.jobs) == MAX_PAST:
        return found, f"the history may have more: gsched history -j {wanted.job_id}"
    if found.source != "database":
        return found, f"{found.no_database}: past attempts are of {found.source}"
    return found, ""
