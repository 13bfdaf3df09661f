"""What jobs used: asks sacct, and sstat for those that run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gsched.errors import DataError
from gsched.model.history import Reject
from gsched.model.job import JobState
from gsched.slurm import accounting, parse_usage
from gsched.slurm.fields import new_separator
from gsched.slurm.parse_usage import UsageRecord
from gsched.slurm.run import Run


def usage(
    run: Run, job_ids: Sequence[str], *, counts_gpus: Callable[[], bool]
) -> tuple[tuple[UsageRecord, ...], tuple[Reject, ...]]:
    """Every attempt of the jobs with its steps, and rows of sacct that were not understood.

    `counts_gpus` tells whether the cluster accounts for GPUs; asked only when no job has some. An
    array's id means all of its tasks. Jobs that Slurm does not show to the caller are absent.
    """
    separator = new_separator()
    text = accounting.sacct(
        run, "sacct", "--local", "-D", "-n", "-p", "--noconvert", f"--delimiter={separator}",
        "-S", "1970-01-02T00:00:00", "-j", ",".join(job_ids), "-o",
        ",".join(parse_usage.USAGE_FIELDS),
    )  # fmt: skip
    records, rejects = parse_usage.parse_usage(text, separator, counts_gpus=True)
    if records and not any(record.num_gpus for record in records) and not counts_gpus():
        records, rejects = parse_usage.parse_usage(text, separator, counts_gpus=False)
    running = [str(r.raw_id) for r in records if r.state is JobState.RUNNING]
    if running:
        steps = _running_steps(run, running)
        records = parse_usage.with_running_steps(records, steps)
    return records, rejects


def _running_steps(
    run: Run, raw_ids: Sequence[str]
) -> dict[int, tuple[parse_usage.StepUsage, ...]]:
    """What sstat says; nothing of others' jobs, whose owner and root alone may ask."""
    form = ",".join(parse_usage.STAT_FIELDS)
    answer = run("sstat", "-a", "-n", "-P", "--noconvert", "-j", ",".join(raw_ids), "-o", form)
    try:
        return parse_usage.parse_stat(answer.stdout)
    except DataError:
        return {}
