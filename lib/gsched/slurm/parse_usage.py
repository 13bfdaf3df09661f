"""What jobs and their steps used, of sacct(1) and sstat(1). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gsched.errors import DataError
from gsched.model.exitcode import parse_exit_code
from gsched.model.history import Reject
from gsched.model.job import JobState
from gsched.model.jobid import parse_job_id
from gsched.model.units import count_gres, parse_elapsed, parse_tres, tres_gres
from gsched.slurm.fields import parse_time, split_records, time_limit
from gsched.slurm.sacct_arrays import ended_tasks
from gsched.slurm.sacct_values import (
    count,
    cpu_seconds,
    percent,
    usage_by_name,
)
from gsched.slurm.states import parse_state

USAGE_FIELDS = (
    "JobIDRaw", "JobID", "User", "Account", "Partition", "QOS", "JobName", "State", "ExitCode",
    "Submit", "Eligible", "Start", "End", "ElapsedRaw", "Timelimit", "NNodes", "NCPUS", "NTasks",
    "TotalCPU", "MaxRSS", "ReqTRES", "AllocTRES", "TRESUsageInTot", "TRESUsageInAve", "NodeList",
)  # fmt: skip
STAT_FIELDS = ("JobID", "NTasks", "MaxRSS", "TRESUsageInTot", "TRESUsageInAve")


@dataclass(frozen=True, slots=True)
class StepUsage:
    """What one step used; None: Slurm has not measured it.

    `cpu_s` is CPU time of all its tasks.
    `max_task_mem_bytes` is the peak of the task that took most memory (MaxRSS), `mem_bytes` the
    sum of all tasks' peaks: at least what the step held at once when its tasks are alike.
    `gpu_util_percent` is the mean over its tasks of what Slurm's accounting saw of their GPUs.
    """

    name: str
    state_text: str
    elapsed_s: int | None
    num_tasks: int | None
    cpu_s: float | None
    max_task_mem_bytes: int | None
    mem_bytes: int | None
    gpu_util_percent: float | None


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One attempt of a job as sacct has it, with its steps. `elapsed_s` is without suspensions.

    `cpu_s` is None where nothing was measured. Resources are what was allocated, or, before the
    start, asked for; `num_gpus` is None where the cluster does not account for GPUs.
    """

    raw_id: int
    job_id: int
    array_task: int | None
    het_offset: int | None
    user: str
    account: str
    partition: str
    qos: str
    name: str
    state: JobState
    state_text: str
    exit_code: int | None
    exit_signal: int | None
    submit_time: int
    eligible_time: int | None
    start_time: int | None
    end_time: int | None
    elapsed_s: int
    time_limit_s: int | None
    num_nodes: int
    num_cpus: int
    num_gpus: int | None
    gpu_types: tuple[tuple[str, int], ...]
    mem_bytes: int | None
    cpu_s: float | None
    node_list: str
    steps: tuple[StepUsage, ...] = ()

    @property
    def slurm_id(self) -> str:
        """The spelling that users see."""
        if self.array_task is not None:
            return f"{self.job_id}_{self.array_task}"
        if self.het_offset is not None:
            return f"{self.job_id}+{self.het_offset}"
        return str(self.job_id)


def parse_usage(
    text: str, separator: str, *, counts_gpus: bool
) -> tuple[tuple[UsageRecord, ...], tuple[Reject, ...]]:
    """``sacct -D`` with `USAGE_FIELDS`: attempts in the order of sacct, and rows in disorder.

    `counts_gpus`: the cluster accounts for gres/gpu, so that a job without it has none.
    """
    found: list[UsageRecord] = []
    steps: list[tuple[dict[str, str], int]] = []
    rejects: list[Reject] = []
    for number, fields in enumerate(split_records(text, separator, len(USAGE_FIELDS)), 1):
        try:
            if len(fields) != len(USAGE_FIELDS):
                raise DataError(f"row has {len(fields)} fields instead of {len(USAGE_FIELDS)}")
            row = dict(zip(USAGE_FIELDS, fields, strict=True))
            job = parse_job_id(row["JobID"])
            if job.array_tasks is not None and not parse_state(row["State"])[0].is_terminal:
                continue  # tasks that wait together have used nothing
            if job.step:
                steps.append((row, number))
                continue
            whole = _job(row, counts_gpus=counts_gpus)
            tasks = None if whole.node_list else ended_tasks(job.array_tasks)
            each = [whole] if tasks is None else [replace(whole, array_task=t) for t in tasks]
            found += each
        except (DataError, ValueError) as error:
            rejects.append(Reject("sacct", number, str(error), "|".join(fields)))
    attempts: dict[int, list[int]] = {}  # places in `found`, by Slurm's number
    for place, record in enumerate(found):
        attempts.setdefault(record.raw_id, []).append(place)
    own: list[list[StepUsage]] = [[] for _ in found]
    for row, number in steps:
        try:
            place = _attempt_of(row, attempts, found)
            own[place].append(_step(row))
        except (DataError, ValueError) as error:
            rejects.append(Reject("sacct", number, str(error), "|".join(row.values())))
    complete = (replace(job, steps=tuple(mine)) for job, mine in zip(found, own, strict=True))
    return tuple(map(_measured, complete)), tuple(rejects)


def _job(row: Mapping[str, str], *, counts_gpus: bool) -> UsageRecord:
    job = parse_job_id(row["JobID"])
    submit_time = parse_time(row["Submit"])
    if submit_time is None:
        raise DataError("no submit time")
    tres = parse_tres(row["AllocTRES"]) or parse_tres(row["ReqTRES"])
    num_gpus, gpu_types = count_gres(tres_gres(tres), "gpu")
    code, signal = parse_exit_code(row["ExitCode"])
    state = parse_state(row["State"])[0]
    node_list = "" if row["NodeList"] == "None assigned" else row["NodeList"]
    started = bool(node_list) or not state.is_terminal
    return UsageRecord(
        raw_id=parse_job_id(row["JobIDRaw"]).job_id,
        job_id=job.job_id,
        array_task=job.array_task,
        het_offset=job.het_offset,
        user=row["User"],
        account=row["Account"],
        partition=row["Partition"],
        qos=row["QOS"],
        name=row["JobName"],
        state=state,
        state_text=row["State"],
        exit_code=code,
        exit_signal=signal,
        submit_time=submit_time,
        eligible_time=parse_time(row["Eligible"]),
        start_time=parse_time(row["Start"]) if started else None,
        end_time=parse_time(row["End"]),
        elapsed_s=count(row["ElapsedRaw"]) or 0,
        time_limit_s=time_limit(row["Timelimit"]),
        num_nodes=count(row["NNodes"]) or 0,
        num_cpus=count(row["NCPUS"]) or 0,
        num_gpus=num_gpus if counts_gpus else None,
        gpu_types=gpu_types,
        mem_bytes=tres.get("mem"),
        cpu_s=parse_elapsed(row["TotalCPU"]),
        node_list=node_list,
    )


def _attempt_of(
    row: Mapping[str, str], attempts: Mapping[int, list[int]], found: list[UsageRecord]
) -> int:
    """The attempt that ran when a step began, by its place: attempts share Slurm's number."""
    raw_id, start_time = parse_job_id(row["JobIDRaw"]).job_id, parse_time(row["Start"])
    mine = attempts.get(raw_id)
    if mine is None:
        raise DataError(f"step {row['JobID']} without its job")
    begun = [i for i in mine if start_time is not None and (found[i].start_time or 0) <= start_time]
    return max(begun or mine, key=lambda i: found[i].start_time or 0)


def _step(row: Mapping[str, str]) -> StepUsage:
    total, average = usage_by_name(row["TRESUsageInTot"]), usage_by_name(row["TRESUsageInAve"])
    return StepUsage(
        name=parse_job_id(row["JobID"]).step,
        state_text=row.get("State", ""),
        elapsed_s=count(row.get("ElapsedRaw", "")),
        num_tasks=count(row["NTasks"]) or None,
        cpu_s=cpu_seconds(row.get("TotalCPU", ""), total),
        max_task_mem_bytes=count(row["MaxRSS"]) or None,
        mem_bytes=count(total.get("mem", "")) or None,
        gpu_util_percent=percent(average.get("gres/gpuutil", "")),
    )


def _measured(record: UsageRecord) -> UsageRecord:
    """A job's own total is 0 where nothing was measured: then its steps decide."""
    of_steps = [step.cpu_s for step in record.steps if step.cpu_s is not None]
    if not of_steps:
        return replace(record, cpu_s=record.cpu_s or None)
    return replace(record, cpu_s=max(record.cpu_s or 0.0, sum(of_steps)))


def parse_stat(text: str) -> dict[int, tuple[StepUsage, ...]]:
    """``sstat -a -n -P`` with `STAT_FIELDS`: the running steps of each job, by Slurm's number.

    sstat knows no separator of one's choice; none of these fields is free text. Raises DataError.
    """
    found: dict[int, tuple[StepUsage, ...]] = {}
    for line in text.splitlines():
        fields = line.split("|")
        if len(fields) != len(STAT_FIELDS):
            raise DataError(f"sstat gave a broken record: {fields!r}")
        row = dict(zip(STAT_FIELDS, fields, strict=True))
        job_id = parse_job_id(row["JobID"]).job_id
        found[job_id] = (*found.get(job_id, ()), _step(row))
    return found


def with_running_steps(
    records: Iterable[UsageRecord], steps: Mapping[int, tuple[StepUsage, ...]]
) -> tuple[UsageRecord, ...]:
    """`records` with what sstat says of the steps that run, in place of sacct's empty ones."""
    completed = []
    for record in records:
        fresh = steps.get(record.raw_id, ()) if record.state is JobState.RUNNING else ()
        names = {step.name for step in fresh}
        kept = tuple(step for step in record.steps if step.name not in names)
        completed.append(_measured(replace(record, steps=(*kept, *fresh))) if fresh else record)
    return tuple(completed)
