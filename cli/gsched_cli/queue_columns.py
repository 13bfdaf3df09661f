"""The columns of ``gsched queue`` and ``gsched top``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gsched.explain.start_words import OVERDUE, clock, is_overdue, soon
from gsched.explain.target_words import (
    AT_RISK,
    LATE,
    chance_words,
    end_clock,
    plan_words,
    planned_end,
    state_words,
)
from gsched.model.job import JobState
from gsched_cli.output import count, duration, local_time, memory
from gsched_cli.progress_rows import eta_words
from gsched_cli.tables import Column, Layout, choose_columns

if TYPE_CHECKING:
    from gsched.app.queued_job import QueuedJob

DEFAULT = "rank,jobid,partition,name,user,state,gpus,predicted,expected,time,why"
PLAN = "jobid,user,state,gpus,deadline,target,planned_end,plan"
"""The columns of ``--plan``."""

_FAILED = frozenset(
    {
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
    }
)


def state_style(job: QueuedJob) -> str | None:
    """Green runs, red has failed, yellow is being stopped or cleaned up."""
    if job.row.state is JobState.RUNNING:
        return "green"
    if job.row.state in _FAILED:
        return "red"
    return "yellow" if job.row.state in (JobState.SUSPENDED, JobState.COMPLETING) else None


def _why_style(job: QueuedJob) -> str | None:
    return "red" if job.is_pending and "can never start" in job.reason else None


def _text(name: str, heading: str, value: Callable[[QueuedJob], str]) -> Column[QueuedJob]:
    """A text, ``-`` where there is none."""
    return Column(name, heading, lambda job: value(job) or "-", lambda job: value(job) or None)


def _number(name: str, heading: str, value: Callable[[QueuedJob], int]) -> Column[QueuedJob]:
    return Column(name, heading, lambda job: str(value(job)), value, right=True)


def _count(name: str, heading: str, value: Callable[[QueuedJob], int | None]) -> Column[QueuedJob]:
    """A number that may not be known."""
    return Column(name, heading, lambda job: count(value(job)), value, right=True)


def _time(name: str, heading: str, value: Callable[[QueuedJob], int | None]) -> Column[QueuedJob]:
    return Column(name, heading, lambda job: local_time(value(job)), value)


def _duration(
    name: str, heading: str, value: Callable[[QueuedJob], float | None]
) -> Column[QueuedJob]:
    def rounded(job: QueuedJob) -> float | None:
        found = value(job)
        return None if found is None else round(found, 1)

    return Column(name, heading, lambda job: duration(value(job)), rounded, right=True)


def _rank_order(job: QueuedJob) -> Any:
    return (job.rank["position"], job.rank["queue"]) if job.rank else None


def _expected(bound: str) -> Callable[[QueuedJob], int | None]:
    """A moment of the forecast of a job's start: its median, low or high."""
    return lambda job: job.expected_start[bound] if job.expected_start else None


def _expected_cell(job: QueuedJob) -> str:
    if job.expected_start is None:
        return "-"
    if is_overdue(job.expected_start, job.at):
        return OVERDUE
    median, low, high = (soon(job.expected_start[b], job.at) for b in ("median", "low", "high"))
    return f"{median} ({low}–{high})"


def _id_order(job: QueuedJob) -> Any:
    row = job.row
    return (row.job_id, row.array_task or 0, row.het_offset or 0)


def _progress_cell(job: QueuedJob) -> str:
    """The share of the steps, or their number; ``-`` for a job that tells nothing."""
    if job.progress is None:
        return "-"
    done = job.progress.done
    return f"step {job.progress.record.step:,}" if done is None else f"{int(100 * done)} %"


def _eta_cell(job: QueuedJob) -> str:
    progress = job.progress
    if progress is None:
        return "-"
    if progress.is_silent:
        return f"silent {duration(progress.since_step_s)}"
    if progress.eta_time is None or progress.remaining_s is None:
        return "-"
    return eta_words(progress.eta_time, progress.remaining_s, job.at)


def _eta_style(job: QueuedJob) -> str | None:
    return "yellow" if job.progress and job.progress.is_silent else None


def _deadline_cell(job: QueuedJob) -> str:
    return "-" if job.deadline is None else clock(job.deadline, job.at)


def _target_cell(job: QueuedJob) -> str:
    """``on target 0.93``; without a chance where nothing is promised, or all is over."""
    if job.target is None:
        return job.target_state or "-"
    chance = None if job.target_state == LATE else _chance(job)
    words = state_words(job.target)
    return words if chance is None else f"{words} {chance_words(chance)}"


def _chance(job: QueuedJob) -> float | None:
    return job.target["probability"] if _planned_end(job) is not None and job.target else None


def _chance_cell(job: QueuedJob) -> str:
    chance = _chance(job)
    return "-" if chance is None else chance_words(chance)


def _planned_end(job: QueuedJob) -> int | None:
    return planned_end(job.target) if job.target else None


def _target_style(job: QueuedJob) -> str | None:
    return {AT_RISK: "yellow", LATE: "red"}.get(job.target_state or "")


def _planned_end_cell(job: QueuedJob) -> str:
    end = _planned_end(job)
    return "-" if end is None else end_clock(end, job.at)


def _plan_value(job: QueuedJob) -> str | None:
    """``START-END:GPUS``, commas between."""
    if job.target is None:
        return None
    return ",".join(f"{start}-{end}:{gpus}" for start, end, gpus in job.target.get("plan", []))


def _told(name: str) -> Callable[[QueuedJob], Any]:
    """A field of what the job tells."""
    return lambda job: getattr(job.progress.record, name) if job.progress else None


COLUMNS: tuple[Column[QueuedJob], ...] = (
    Column(
        "rank", "RANK", lambda j: j.rank_text, lambda j: j.rank and j.rank["position"], right=True,
        order=_rank_order,
    ),
    Column("jobid", "JOBID", lambda j: j.slurm_id, order=_id_order),
    _text("partition", "PARTITION", lambda j: j.partition),
    _text("name", "NAME", lambda j: j.name),
    _text("user", "USER", lambda j: j.user),
    _text("account", "ACCOUNT", lambda j: j.row.tenant),
    _text("qos", "QOS", lambda j: j.row.qos),
    Column("state", "STATE", lambda j: j.row.state_text, style=state_style),
    _number("gpus", "GPUS", lambda j: j.num_gpus),
    _text("gputype", "GPUTYPE", lambda j: ",".join(j.gpu_types)),
    _number("nodes", "NODES", lambda j: j.row.min_nodes),
    _number("cpus", "CPUS", lambda j: j.row.num_cpus),
    Column(
        "mem", "MEM", lambda j: memory(j.row.mem_bytes), lambda j: j.row.mem_bytes, right=True
    ),
    Column(
        "limit", "LIMIT", lambda j: duration(j.row.time_limit_s), lambda j: j.time_limit_s,
        right=True, order=lambda j: j.row.time_limit_s,
    ),
    _duration("left", "LEFT", lambda j: j.time_left_s),
    _duration("predicted", "PREDICTED", lambda j: j.predicted_duration_s),
    _duration("predicted_low", "PREDICTED_LOW", lambda j: j.predicted_low_s),
    _duration("predicted_high", "PREDICTED_HIGH", lambda j: j.predicted_high_s),
    Column("expected", "EXPECTED_START", _expected_cell, _expected("median")),
    _time("expected_low", "EXPECTED_LOW", _expected("low")),
    _time("expected_high", "EXPECTED_HIGH", _expected("high")),
    _time("slurm_start", "SLURM_START", lambda j: j.slurm_start_time),
    Column("deadline", "DEADLINE", _deadline_cell, lambda j: j.deadline),
    Column("target", "TARGET", _target_cell, lambda j: j.target_state, style=_target_style),
    Column("planned_end", "PLANNED_END", _planned_end_cell, _planned_end),
    Column("probability", "PROBABILITY", _chance_cell, _chance, right=True),
    Column(
        "plan", "PLAN", lambda j: plan_words(j.target, j.at) if j.target else "-", _plan_value
    ),
    _duration("waited", "WAITED", lambda j: j.waited_s),
    _duration("running", "RUNNING", lambda j: j.running_s),
    _duration("time", "TIME", lambda j: j.waited_s if j.is_pending else j.running_s),
    Column(
        "progress", "PROGRESS", _progress_cell,
        lambda j: None if j.progress is None or j.progress.done is None
        else round(j.progress.done, 4),
        right=True,
    ),
    Column("eta", "ETA", _eta_cell, lambda j: j.progress and j.progress.eta_time, style=_eta_style),
    _count("step", "STEP", _told("step")),
    _count("steps", "STEPS", _told("total_steps")),
    Column(
        "loss", "LOSS", lambda j: "-" if _told("loss")(j) is None else f"{_told('loss')(j):.4g}",
        _told("loss"), right=True,
    ),
    _number("priority", "PRIORITY", lambda j: j.priority),
    _number("nice", "NICE", lambda j: j.row.nice),
    Column("why", "WHY", lambda j: j.reason, style=_why_style),
    _text("reason", "REASON", lambda j: j.row.reason),
    _time("submit", "SUBMIT", lambda j: j.row.submit_time),
    _time("eligible", "ELIGIBLE", lambda j: j.row.eligible_time),
    _time("start", "START", lambda j: j.start_time),
    _time("end", "END", lambda j: j.end_time),
    _text("nodelist", "NODELIST", lambda j: j.row.node_list),
    _text("reservation", "RESERVATION", lambda j: j.row.reservation),
    _text("dependency", "DEPENDENCY", lambda j: j.row.dependency),
    _text("features", "FEATURES", lambda j: j.row.features),
    _text("licences", "LICENCES", lambda j: j.row.licences),
    _number("restarts", "RESTARTS", lambda j: j.row.restarts),
    _text("comment", "COMMENT", lambda j: j.text.comment),
)  # fmt: skip

_DEADLINES = "deadline,target"
_PROGRESS = "progress,eta"


def with_told_columns(layout: Layout, jobs: Iterable[QueuedJob]) -> Layout:
    """The usual table for people, with deadlines where some job has asked for one, and with what
    jobs tell of their progress where some job does.
    """
    usual = choose_columns(COLUMNS, DEFAULT, DEFAULT)
    if layout.parsable or layout.columns != usual:
        return layout
    jobs = list(jobs)
    more = [_DEADLINES] if any(job.target_state for job in jobs) else []
    more += [_PROGRESS] if any(job.progress for job in jobs) else []
    before, time, after = DEFAULT.partition(",time")
    names = f"{','.join([before, *more])}{time}{after}"
    return replace(layout, columns=choose_columns(COLUMNS, DEFAULT, names))
