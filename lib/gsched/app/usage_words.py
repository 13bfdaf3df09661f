"""`gsched eff` for people: each figure with what it is a part of."""

from __future__ import annotations

from collections.abc import Iterator

from gsched.app.efficiency import Efficiency, exit_words
from gsched.app.usage import UsageReport, total
from gsched.app.waste import findings
from gsched.explain.words import count, percent, short_time, size

_MOST_TASKS = 20

Line = tuple[str, str]
"""What a line is about, "" for a heading, and its words."""


def report_lines(report: UsageReport) -> list[Line]:
    """The whole report, one job or several and their sum."""
    if len(report.jobs) == 1:
        return [*_job_lines(report.jobs[0]), *_source_lines(report)]
    return [*_total_lines(report), *_source_lines(report)]


def _source_lines(report: UsageReport) -> Iterator[Line]:
    if not report.is_measured:
        where = "the history database" if report.source == "database" else "slurmctld's memory"
        yield "from", f"{where}, which has no figures of CPU time and memory"


def _job_lines(job: Efficiency) -> Iterator[Line]:
    last = job.last
    yield "", f'{last.slurm_id} "{last.name}" of {last.user}: {_state(job)}'
    yield "held" if last.start_time is not None else "asked for", _held(job)
    yield "waited", "unknown" if job.queueing_s is None else short_time(job.queueing_s)
    yield "ran", _ran(job)
    if last.start_time is None:
        return
    yield "CPU", _cpu(job)
    yield "memory", _memory(job)
    if last.num_gpus is None:
        yield "GPU", "unknown: the cluster does not account for GPUs"
    elif last.num_gpus:
        yield "GPU", _gpu(job)
    for finding in findings(job):
        yield "lost" if finding.code == "requeued" else "waste", finding.words


def _state(job: Efficiency) -> str:
    last = job.last
    words = exit_words(last)
    if words is None or not (last.exit_code or last.exit_signal):
        never_ran = last.state.is_terminal and last.start_time is None
        return f"{last.state_text} (never ran)" if never_ran else last.state_text
    return f"{last.state_text} ({words})"


def _held(job: Efficiency) -> str:
    last = job.last
    parts = [count(last.num_nodes, "node"), count(last.num_cpus, "CPU")]
    if last.num_gpus:
        types = ", ".join(f"{number} {kind}" for kind, number in last.gpu_types)
        parts.append(count(last.num_gpus, "GPU") + (f" ({types})" if types else ""))
    if last.mem_bytes:
        parts.append(f"{size(last.mem_bytes)} of memory")
    return ", ".join(parts) + f" in {last.partition}"


def _ran(job: Efficiency) -> str:
    last = job.last
    if last.start_time is None:
        return "not yet" if not last.state.is_terminal else "never"
    text = short_time(last.elapsed_s)
    so_far = "" if last.state.is_terminal else " so far"
    if job.time_limit_s is None:
        known = "" if last.time_limit_s is None else "; time limit UNLIMITED"
        return f"{text}{so_far}{known}"
    share = percent(last.elapsed_s / job.time_limit_s) if job.time_limit_s else "all"
    return f"{text}{so_far} of the time limit {short_time(job.time_limit_s)} ({share})"


def _cpu(job: Efficiency) -> str:
    of = f"{count(job.last.num_cpus, 'CPU')} × {short_time(job.last.elapsed_s)}"
    if job.cpu_time_s is None:
        return f"unknown: Slurm has not measured it; {of} allocated"
    used = short_time(job.cpu_time_s)
    if job.cpu_efficiency is None:
        return f"{used} used; it ran too shortly for a ratio"
    return f"{percent(job.cpu_efficiency)}: {used} of {of}"


def _memory(job: Efficiency) -> str:
    allocated = job.last.mem_bytes
    of = "of an unknown amount" if not allocated else f"of {size(allocated)} allocated"
    if job.mem_used_bytes is None:
        return f"unknown: Slurm has not measured it; {of.removeprefix('of ')}"
    text = f"{size(job.mem_used_bytes)} {of}"
    if job.mem_efficiency is not None:
        text = f"{percent(job.mem_efficiency)}: {text}"
    if job.mem_largest_task_bytes is not None:
        text += f"; largest task {size(job.mem_largest_task_bytes)}"
    return text


def _gpu(job: Efficiency) -> str:
    held = f"{(job.gpu_time_s or 0) / 3600:.3g} GPU-hours held"
    if job.gpu_util_percent is None:
        return f"{held}; utilisation unknown: Slurm's accounting does not measure it"
    return f"{job.gpu_util_percent:.0f} % utilised; {held}"


def _total_lines(report: UsageReport) -> Iterator[Line]:
    jobs, sums = report.jobs, total(report.jobs)
    states = ", ".join(f"{number} {state}" for state, number in sums["states"].items())
    is_het = jobs[0].last.het_offset is not None
    parts = count(len(jobs), "component" if is_het else "task")
    yield "", f'{report.job} "{jobs[0].last.name}" of {jobs[0].last.user}: {parts}: {states}'
    if sums["cpu_efficiency"] is not None:
        used, of = short_time(sums["cpu_time_s"]), short_time(sums["cpu_available_s"])
        yield (
            "CPU",
            f"{percent(sums['cpu_efficiency'])}: {used} of {of} of CPU time"
            + _over(sums["cpu_jobs"], jobs),
        )
    else:
        yield "CPU", "unknown: Slurm has not measured it"
    if sums["mem_efficiency_most"] is not None:
        most = percent(sums["mem_efficiency_most"])
        yield "memory", f"at most {most} of what a part had" + _over(sums["mem_jobs"], jobs)
    else:
        yield "memory", "unknown: Slurm has not measured it"
    if sums["gpu_time_s"] is not None:
        yield (
            "GPU",
            f"{sums['gpu_time_s'] / 3600:.3g} GPU-hours held" + _over(sums["gpu_jobs"], jobs),
        )
    if sums["lost_s"]:
        yield "lost", f"{short_time(sums['lost_s'])} in earlier attempts"
    for job in jobs[:_MOST_TASKS]:
        cpu = "unknown" if job.cpu_efficiency is None else percent(job.cpu_efficiency)
        mem = "unknown" if job.mem_efficiency is None else percent(job.mem_efficiency)
        ran = short_time(job.last.elapsed_s)
        yield job.last.slurm_id, f"{_state(job)}, ran {ran}, CPU {cpu}, memory {mem}"
    if len(jobs) > _MOST_TASKS:
        yield "…", f"{len(jobs) - _MOST_TASKS} more; --json has all"


def _over(known: int, jobs: tuple[Efficiency, ...]) -> str:
    return "" if known == len(jobs) else f" (of {known} of {len(jobs)})"
