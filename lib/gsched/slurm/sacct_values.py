"""What the fields of sacct(1) mean, one by one, and a step's as a whole. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gsched.errors import DataError
from gsched.model.exitcode import parse_exit_code
from gsched.model.history import StepRecord, Tres
from gsched.model.jobid import JobId
from gsched.model.merge import MAX_INTEGER
from gsched.model.phases import stated
from gsched.model.units import (
    UNSET,
    Memory,
    count_gres,
    parse_count,
    parse_elapsed,
    parse_gres,
    parse_memory,
    parse_tres,
    tres_gres,
)
from gsched.slurm import wire
from gsched.slurm.states import parse_state

STEP_FIELDS = ("NTasks", "TotalCPU", "MaxRSS", "TRESUsageInMax", "TRESUsageInAve", "TRESUsageInTot")
"""What `sacct` has to be asked for besides, where steps are wanted."""


_encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode

ReadTime = Callable[[str], int | None]
"""Epoch seconds of a time as sacct prints it, None where it has none. Raises DataError."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """A TRES list: in Slurm's order, and what is counted of it."""

    tres: tuple[Tres, ...] = ()
    num_gpus: int = 0
    num_cpus: int | None = None


def node_list(text: str) -> str | None:
    """A host list; None where there is none (yet)."""
    return None if text in UNSET or text == "None assigned" else text


def tres_tuple(tres: Mapping[str, int]) -> tuple[Tres, ...]:
    """TRES counts as the history keeps them, in the order of the source."""
    return tuple(Tres(name, count) for name, count in tres.items())


def amounts(text: str) -> Amounts:
    """A TRES list. Raises DataError."""
    tres = parse_tres(text)
    num_gpus, _ = count_gres(tres_gres(tres), "gpu")
    return Amounts(tres_tuple(tres), num_gpus, tres.get("cpu"))


def requested_memory(text: str) -> Memory | None:
    """ReqMem of releases that say per what (``48000Mn``); None where they do not."""
    return parse_memory(text) if text[-1:] in ("n", "c") and text not in UNSET else None


def memory_amounts(memory: Memory | None, num_nodes: int | None, num_cpus: int | None) -> Amounts:
    """What was asked for where sacct has no ReqTRES, as far as ReqMem tells it."""
    if memory is None:
        return Amounts()
    units = num_nodes if memory.per == "node" else num_cpus
    total = memory.num_bytes * (units or 0)
    return Amounts((Tres("mem", total),)) if 0 < total <= MAX_INTEGER else Amounts()


def gres_gpus(text: str) -> int:
    """GPUs of AllocGRES, which releases before 20.11 have beside or in place of TRES."""
    return count_gres(parse_gres(text), "gpu")[0]


def count(text: str) -> int | None:
    """A count or an amount of bytes, None for none. Raises DataError, also beyond 64 bits."""
    if text in UNSET:
        return None
    found = parse_count(text)
    if found > MAX_INTEGER:
        raise DataError(f"count beyond 64 bits: {text}")
    return found


def percent(text: str) -> float | None:
    """A percentage, None for none. Raises DataError."""
    if text in UNSET:
        return None
    if re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", text, re.ASCII) is None:
        raise DataError(f"not a percentage: {text!r}")
    return float(text)


def usage_by_name(text: str) -> dict[str, str]:
    """``cpu=00:00:09,mem=435863552`` by name, as written."""
    items = (item.rpartition("=") for item in text.split(",") if item)
    return {name: value for name, _, value in items}


def cpu_seconds(total_cpu: str, usage_in_total: Mapping[str, str]) -> float | None:
    """CPU time of a step of sacct; None where none was measured. Raises DataError.

    Slurm reckons it when a step's processes are waited for, and samples it before. Either may miss
    some: whichever is more is nearer to the truth.
    """
    both = parse_elapsed(total_cpu) or None, parse_elapsed(usage_in_total.get("cpu", ""))
    return max((seconds for seconds in both if seconds is not None), default=None)


def step_record(
    row: Mapping[str, str], job: JobId, cluster: str, submit_time: int, read_time: ReadTime
) -> StepRecord:
    """The step of a row of sacct, of the attempt that was submitted at `submit_time`.

    Raises DataError or ValueError.
    """
    most = usage_by_name(row.get("TRESUsageInMax", ""))
    mean = usage_by_name(row.get("TRESUsageInAve", ""))
    total = usage_by_name(row.get("TRESUsageInTot", ""))
    code, signal = parse_exit_code(row.get("ExitCode", ""))
    return StepRecord(
        cluster=cluster,
        job_id=job.job_id,
        array_task=job.array_task,
        het_offset=job.het_offset,
        submit_time=submit_time,
        step=job.step,
        state=parse_state(row["State"])[0],
        name=row.get("JobName") or None,
        start_time=read_time(row.get("Start", "")),
        end_time=read_time(row.get("End", "")),
        exit_code=code,
        exit_signal=signal,
        num_nodes=count(row.get("NNodes", "")),
        num_cpus=count(row.get("NCPUS", "")),
        num_tasks=count(row.get("NTasks", "")) or None,
        cpu_time_s=cpu_seconds(row.get("TotalCPU", ""), total),
        # 0 is what a step shows that was never sampled
        max_rss_bytes=count(row.get("MaxRSS", "")) or count(most.get("mem", "")) or None,
        rss_bytes=count(total.get("mem", "")) or None,
        gpu_utilization_pct=percent(mean.get("gres/gpuutil", "")),
        gpu_mem_bytes=count(most.get("gres/gpumem", "")),
    )


def phase_of_comment(comment: str) -> str | None:
    """What a job's comment says that the job does, in a request of gsched's."""
    return stated(wire.read(comment).wants.phases) if "gs1{" in comment else None


def extra_json(values: Mapping[str, str]) -> str | None:
    """`extra` of an attempt; None for nothing."""
    return _encode(values) if values else None
