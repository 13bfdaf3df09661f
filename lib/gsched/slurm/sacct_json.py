"""JSON of sacct and slurmrestd's accounting → attempts and steps, as the text gives them. Pure.

What the JSON does not say as the text does:

- it names who cancelled a job by user name, the text by number (``CANCELLED by 5``): `state_text`
  is CANCELLED alone;
- of a failed job, 22.05 does not tell the exit code, and of none whether its time is unlimited or
  limited by the partition alone;
- of what users write it has more than gsched asks of the text: `extra_of` keeps that where a whole
  file is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gsched.errors import DataError
from gsched.model.exitcode import ExitCode
from gsched.model.history import AttemptRecord, Batch, Reject, StepRecord, Tres
from gsched.model.job import JobState
from gsched.model.jobid import TaskRange, TaskSet, parse_job_id, parse_tasks
from gsched.model.units import count_gres, tres_gres
from gsched.slurm.parse_json import exit_code, limit_s, state_of
from gsched.slurm.parse_json_values import (
    Record,
    count,
    listed,
    load,
    moment,
    number,
    numbered,
    part,
    raw,
    record,
    required,
    text,
)
from gsched.slurm.sacct_arrays import array_tasks, ended_tasks
from gsched.slurm.sacct_rows import SOURCE
from gsched.slurm.sacct_values import extra_json, phase_of_comment

_MIB = 2**20
_MASK = re.compile(r"0x(?P<hex>[0-9A-Fa-f]{1,1000000})", re.ASCII)
_NOT_SAID = frozenset({"", "None", "0"})
_EXTRAS = {
    "AdminComment": ("comment", "administrator"),
    "Comment": ("comment", "job"),
    "Constraints": ("constraints",),
    "Extra": ("extra",),
    "FailedNode": ("failed_node",),
    "Group": ("group",),
    "Licenses": ("licenses",),
    "McsLabel": ("mcs", "label"),
    "Reason": ("state", "reason"),
    "Reservation": ("reservation", "name"),
    "SubmitLine": ("submit_line",),
    "Suspended": ("time", "suspended"),
    "SystemComment": ("comment", "system"),
    "WCKey": ("wckey", "wckey"),
    "WorkDir": ("working_directory",),
}
"""Where the JSON has what the text shows in a field of that name."""


@dataclass(frozen=True, slots=True)
class JobEntry:
    """One element of the list of jobs: of an array that waits as a whole there is no attempt.

    One that ended as a whole is an attempt of each of its tasks.
    """

    attempts: tuple[AttemptRecord, ...]
    steps: tuple[StepRecord, ...] = ()


def parse_sacct_json(json_text: str, *, counts_gpus: bool, keeps_steps: bool = False) -> Batch:
    """The attempts of ``sacct --json`` or slurmrestd's ``/slurmdb/…/jobs``.

    `counts_gpus`: the cluster accounts for gres/gpu, see ``parse_sacct.parse_sacct``. Raises
    DataError for a document that is none, see ``parse_json_values.load``.
    """
    document = load(json_text, "jobs")
    entries: list[JobEntry] = []
    rejects = document.rejects(SOURCE)
    for line, item in numbered(document):
        try:
            entries.append(entry_of(item, counts_gpus=counts_gpus, keeps_steps=keeps_steps))
        except DataError as error:
            rejects.append(Reject(document.source(SOURCE), line, error.message, raw(item)))
    records = tuple(attempt for entry in entries for attempt in entry.attempts)
    skipped = sum(not entry.attempts for entry in entries)
    steps = tuple(step for entry in entries for step in entry.steps)
    rows_in = len(records) + len(rejects) + skipped
    return Batch(records, tuple(rejects), rows_in, skipped, steps=steps)


def entry_of(
    item: object,
    *,
    counts_gpus: bool,
    keeps_steps: bool = False,
    keeps_extra: bool = False,
    cluster: str = "",
) -> JobEntry:
    """One job of the list. `cluster` is that of jobs that name none. Raises DataError."""
    job = record(item)
    tasks = _whole_array(job)
    if tasks is not None and not state_of(part(job, "state", "current"))[0].is_terminal:
        return JobEntry(())
    attempt = _attempt(job, cluster, counts_gpus)
    each = ended_tasks(tasks) if attempt.node_list is None else None
    extra = array_tasks(tasks) if tasks and not each else {}
    if keeps_extra:
        extra |= extra_of(job)
        phase = phase_of_comment(text(part(job, "comment", "job")))
        attempt = replace(attempt, phase=phase)
    attempt = replace(attempt, extra=extra_json(extra))
    if each is not None:
        return JobEntry(tuple(replace(attempt, array_task=task) for task in each))
    return JobEntry((attempt,), tuple(_steps(job, attempt)) if keeps_steps else ())


def _attempt(job: Record, cluster: str, counts_gpus: bool) -> AttemptRecord:
    raw_id = required(number(job.get("job_id")), "job id")
    array_id, het_id = count(part(job, "array", "job_id")), count(part(job, "het", "job_id"))
    state, state_text = state_of(part(job, "state", "current"))
    requested, allocated = tres_of(job, "requested"), tres_of(job, "allocated")
    nodes = text(job.get("nodes"))
    node_list = None if nodes == "None assigned" else nodes or None
    never_started = state.is_terminal and node_list is None
    num_gpus, _ = count_gres(tres_gres({t.name: t.count for t in allocated or requested}), "gpu")
    limit = part(job, "time", "limit")  # null in 22.05: unlimited, or the partition's
    code, signal = _exit_parts(job, state)
    return AttemptRecord(
        cluster=text(job.get("cluster")) or text(part(job, "association", "cluster")) or cluster,
        job_id=array_id or het_id or raw_id,
        array_task=number(part(job, "array", "task_id")) if array_id else None,
        het_offset=count(part(job, "het", "job_offset")) if het_id else None,
        submit_time=required(moment(part(job, "time", "submission")), "submit time"),
        state=state,
        state_text=state_text,
        source=SOURCE,
        user=text(job.get("user")) or text(part(job, "association", "user")) or None,
        tenant=text(job.get("account")) or text(part(job, "association", "account")) or None,
        partition=text(job.get("partition")) or None,
        qos=text(job.get("qos")) or None,
        name=text(job.get("name")),
        eligible_time=moment(part(job, "time", "eligible")),
        start_time=None if never_started else moment(part(job, "time", "start")),
        end_time=moment(part(job, "time", "end")),
        time_limit_s=None if limit is None else limit_s(limit),
        num_nodes=_amount(allocated, requested, "node") or count(job.get("allocation_nodes")),
        num_cpus=_amount(allocated, requested, "cpu")
        or number(part(job, "required", "CPUs"))
        or None,
        num_gpus=num_gpus if counts_gpus else None,
        requested=requested,
        allocated=allocated,
        node_list=node_list,
        exit_code=code,
        exit_signal=signal,
    )


def _exit_parts(value: Record, state: JobState) -> ExitCode:
    """The exit code of a job or step; 22.05 writes SUCCESS for every one."""
    if state is JobState.FAILED and part(value, "exit_code", "status") == "SUCCESS":
        return ExitCode(None, None)
    return exit_code(value.get("exit_code"))


def has_gpus(item: object) -> bool:
    """Whether a job has gres/gpu among its TRES; False for what is no job."""
    try:
        job = record(item)
        tres = (*tres_of(job, "allocated"), *tres_of(job, "requested"))
    except DataError:
        return False
    return any(t.name.partition(":")[0] == "gres/gpu" for t in tres)


def _whole_array(job: Record) -> TaskSet | None:
    """The tasks of an array that has not been split (yet): ``1-9``, or the bits of ``0x3FE``."""
    if not count(part(job, "array", "job_id")):
        return None
    if number(part(job, "array", "task_id")) is not None:
        return None
    tasks = text(part(job, "array", "task"))
    if mask := _MASK.match(tasks):
        bits = bin(int(mask["hex"], 16))[:1:-1]  # the lowest first
        runs = re.finditer("1+", bits)
        return TaskSet(tuple(TaskRange(run.start(), run.end() - 1) for run in runs))
    return parse_tasks(tasks) if tasks else TaskSet(())


def extra_of(job: Record) -> dict[str, str]:
    """What a site may want of the rest, under the names that the text's fields have."""
    told = {name: text(part(job, *path)) for name, path in _EXTRAS.items()}
    return {name: value for name, value in told.items() if value not in _NOT_SAID}


def _amount(allocated: Sequence[Tres], requested: Sequence[Tres], name: str) -> int:
    return next((tres.count for tres in (*allocated, *requested) if tres.name == name), 0)


def tres_of(job: Record, kind: str) -> tuple[Tres, ...]:
    """A list of TRES in the order of sacct's text; those without a count are left out."""
    scaled = ((n, c * _MIB if n == "mem" else c) for n, c in _counts(part(job, "tres", kind)))
    return tuple(sorted((Tres(*pair) for pair in scaled), key=lambda tres: f"{tres.name}="))


def _counts(value: object) -> Iterable[tuple[str, int]]:
    for item in map(record, listed(value)):
        kind, name = text(item.get("type")), text(item.get("name"))
        amount = number(item.get("count"))
        if amount is not None and amount >= 0:
            yield f"{kind}/{name}" if name else kind, amount


# -- steps ----------------------------------------------------------------------------------


def _steps(job: Record, owner: AttemptRecord) -> Iterable[StepRecord]:
    """The steps of a job; of one that makes no sense nothing is kept."""
    for item in listed(job.get("steps")):
        try:
            yield _step(record(item), owner)
        except DataError:
            continue


def _step(step: Record, owner: AttemptRecord) -> StepRecord:
    most, mean, total = (
        dict(_counts(part(step, "tres", "requested", kind))) for kind in ("max", "average", "total")
    )
    state = state_of(step.get("state"))[0]
    code, signal = _exit_parts(step, state)
    # as exactly as the text shows them: milliseconds that were reckoned, seconds that were sampled
    milliseconds = count(part(step, "time", "total", "seconds")) * 1000 + (
        count(part(step, "time", "total", "microseconds")) // 1000
    )
    both = [milliseconds / 1000] if milliseconds else []
    both += [float(total["cpu"] // 1000)] if "cpu" in total else []
    return StepRecord(
        cluster=owner.cluster,
        job_id=owner.job_id,
        array_task=owner.array_task,
        het_offset=owner.het_offset,
        submit_time=owner.submit_time,
        step=_step_name(part(step, "step", "id"), part(step, "step", "het", "component")),
        state=state,
        name=text(part(step, "step", "name")) or None,
        start_time=moment(part(step, "time", "start")),
        end_time=moment(part(step, "time", "end")),
        exit_code=code,
        exit_signal=signal,
        num_nodes=count(part(step, "nodes", "count")) or None,
        num_cpus=dict(_counts(part(step, "tres", "allocated"))).get("cpu"),
        num_tasks=count(part(step, "tasks", "count")) or None,
        cpu_time_s=max(both, default=None),
        max_rss_bytes=most.get("mem") or None,
        rss_bytes=total.get("mem") or None,
        gpu_utilization_pct=None if "gres/gpuutil" not in mean else float(mean["gres/gpuutil"]),
        gpu_mem_bytes=most.get("gres/gpumem"),
    )


def _step_name(step_id: object, component: object) -> str:
    """``batch`` of ``3.batch`` and of 22.05's ``batch``, whose het component is beside it."""
    name = text(step_id)
    if "." in name:
        name = parse_job_id(name).step
    offset = number(component)
    if not name:
        raise DataError("a step without id")
    return name if offset is None else f"{name}+{offset}"
