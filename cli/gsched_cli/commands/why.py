"""`gsched why`: why a job waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from gsched_cli import completion as complete
from gsched_cli.options import json_option, load_settings, warn_of_other_clusters
from gsched_cli.output import emit_json, local_time, safe_text

if TYPE_CHECKING:
    from gsched.app.waiting import WhyLine


@click.command()
@click.argument("job", shell_complete=complete.jobs)
@json_option
def why(job: str, as_json: bool) -> None:
    """Say why JOB waits, what is ahead of it, when it should start and what would help.

    Says so when the job can never start. JOB is an id as squeue prints it: 48211, 48211_3,
    48211+1; that of an array or het job means all of its parts. Of a job that runs by a lease it
    says until when nobody takes its GPUs, of one that has given way for whom, and since when.

    Of a job with a promised deadline it says how the promise stands now and with which probability,
    when it is to hold GPUs, how much of its run is left and how that is known, and what was
    promised; of one whose deadline was refused why, and what would have been taken instead. See
    gsched-deadlines(7).

    Where the gsched daemon forecasts, next to free is the running job that should make room next,
    by its predicted run time; else next to end is the one whose limit ends it first. The expected
    start is the median, with the interval in which the start should lie with the probability
    given. It comes from the cluster simulated forward many times, with run times drawn from what
    is predicted and with jobs still to come; Slurm's own estimate reckons with time limits and
    without such jobs. Times are local; those of another day have its name or date; "now" is what is
    no more than 60 seconds away, "overdue" an interval that has passed. What would help are single
    changes, tried in the same simulations, the most helpful first: with fewer GPUs the run is taken
    to last as long as before, and of a shorter limit it is said how likely it is long enough. A
    change that helps by less than a minute, or a tenth of the wait, is left out, and so is a
    partition that does not take the job or its account, QOS or groups. gsched changes nothing:
    scontrol update does. The order goes by the mean of the predicted run time, which is above the
    median where a run may become long.

    \b
    Example:
      gsched why 48211

    \b
    JSON:
      job, verdict, state, slurm_reason, headline, blocks, parts, lines, ahead, next_to_end,
        slurm_start_time, expected_start, no_start, next_to_free, would_help, limit_advice,
        gsched, dependencies, limits
      blocks[]: code, words, advice, params
      parts[]: job, state, slurm_reason, num_tasks
      lines[]: what, words, at
      dependencies[]: kind, job, status, job_state, words
      limits[]: owner, name, tres, limit, used, asked, hopeless

    verdict is never, held, waiting, running, suspended, completing, ended or unknown. The first
    of blocks is what mainly holds the job back; a code slurm.X is Slurm's own reason X; of
    requeue-delay, params has restarts, wait_s and until, when it ends. status is met, open, never
    or unknown. Memory is in bytes, times and TRES times time in seconds.

    expected_start has as_of, median, low and high (epoch seconds), coverage (of the interval),
    calibrated_on (how many earlier forecasts have corrected it) and perhaps left_out (codes of what
    it does not consider: licences, constraint, memory, reservation: of some of its nodes, to
    come), or is null; no_start is then a code why: never, held, dependency,
    unknown-nodes, reservation, array-limit, limits, shards, het-job, beyond-horizon, pending,
    unavailable, off. next_to_free has job, nodes, median, low, high; each of would_help has kind
    (gpus, partition or time-limit), option (for sbatch), value and start (median, low, high);
    limit_advice, given from 20 similar jobs on, has time_limit_s, asked_s (the present limit) and
    probability (that the run ends within it). gsched is the daemon's whole answer; `gsched show`
    has the keys of its target and outcomes.
    """
    from gsched.app.why import explain_job

    settings = load_settings()
    warn_of_other_clusters(settings)
    answer = explain_job(settings, job)
    if as_json:
        emit_json(answer.document())
        return
    for line in answer.lines:
        words = safe_text(_words(line))
        print(words if not line.what else f"  {line.what:<17}{words}")


def _words(line: WhyLine) -> str:
    return line.words if line.at is None else f"{local_time(line.at)} ({line.words})"
