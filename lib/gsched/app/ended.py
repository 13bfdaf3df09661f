"""What became of a job that has left the queue, from whatever still knows it."""

from __future__ import annotations

from gsched.app.past import one_job
from gsched.app.past_sources import find_jobs
from gsched.app.wiring import now
from gsched.config.settings import Settings
from gsched.errors import UnavailableError, UsageError
from gsched.explain.words import short_time
from gsched.model.exitcode import ExitCode
from gsched.model.past import HistoryFilter, HistoryJob


def known_past(settings: Settings, job: str) -> tuple[HistoryJob, ...]:
    """The newest logical job of an id, or those of an array's tasks or het components.

    Raises UsageError when nobody shows such a job to the caller.
    """
    wanted = one_job(job)
    chosen = HistoryFilter.of_job(wanted)
    try:
        found = find_jobs(settings, chosen, now()).jobs
    except UnavailableError:
        found = ()  # Slurm itself has answered: nothing else keeps jobs here
    newest: dict[str, HistoryJob] = {}
    for past in found:
        newest.setdefault(past.key.slurm_id, past)
    if not newest:
        raise UsageError(
            f"Slurm has no job {job} (any more), or it is not yours to see",
            "`gsched queue` lists present jobs, `gsched history` past ones",
        )
    return tuple(
        sorted(newest.values(), key=lambda j: (j.key.array_task or 0, j.key.het_offset or 0))
    )


def ended_words(jobs: tuple[HistoryJob, ...]) -> list[str]:
    """One line a job: how it ended."""
    return [_ended(job) for job in jobs]


def _ended(job: HistoryJob) -> str:
    last = job.attempts[-1]
    if not last.state.is_terminal:
        return (
            f'{job.key.slurm_id} "{job.name or ""}": the history knows it as {job.state_text}, and '
            "Slurm's queue does not show it here: it is hidden (PrivateData), or has ended since"
        )
    code = None
    never_ran = last.state.is_terminal and last.start_time is None
    if last.exit_code is not None and not never_ran:
        code = ExitCode(last.exit_code, last.exit_signal or 0)
    text = f'{job.key.slurm_id} "{job.name or ""}" does not wait: it is {job.state_text}'
    if code is not None and (code.status or code.signal):
        text += f" ({code.words})"
    if never_ran:
        text += ", it never ran"
    elif job.duration_s is not None:
        text += f", ran {short_time(job.duration_s)}"
    if len(job.attempts) > 1:
        text += f" in the last of {len(job.attempts)} attempts"
    return text
