"""``gsched submit --gs-wait``: submit, then wait for gsched's answer about the new job."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass

from gsched.app.answers import await_answer
from gsched.app.submit import Submission
from gsched.config.settings import Settings
from gsched.errors import EXIT_REFUSED, EXIT_TRY_AGAIN, GschedError
from gsched.slurm.run import passthrough, run

EXIT_INTERRUPTED = 130

_STDOUT = 1
_SUBMITTED = re.compile(
    r"^(?:Submitted batch job (\d+)(?: on cluster (\S+))?|(\d+)(?:;(\S+))?)$", re.MULTILINE
)
"""sbatch's own line, or what it prints with ``--parsable``. A site's banners stand before it."""


@dataclass(frozen=True, slots=True)
class Submitted:
    """A new job: its id (of an array or heterogeneous job the leader's), and its cluster when
    sbatch named one.
    """

    job_id: str
    cluster: str | None


def submit_and_wait(
    submission: Submission, wait_s: float, settings: Settings, say: Callable[[str], None]
) -> int:
    """Submit, wait at most `wait_s` seconds for the answer, tell it; the exit code.

    sbatch's own code when it fails; 0 accepted, 3 refused, 75 no answer in time, 130 when Ctrl-C
    ended the waiting. What sbatch prints goes to standard output as it comes.
    """
    output = _Tee()
    code = passthrough(submission.argv, submission.environ, output)
    if output.error and not isinstance(output.error, BrokenPipeError):
        say(f"what sbatch says could not be written: {output.error.strerror}")
    if code != 0:
        return code
    job = submitted_job(bytes(output.seen).decode("utf-8", "replace"))
    if job is None:
        say("no answer of gsched: sbatch named no job")
        return EXIT_TRY_AGAIN
    try:
        return _tell_answer(job, submission, wait_s, settings, say)
    except KeyboardInterrupt:
        say(f"not waiting any longer; job {job.job_id} is submitted and stays in the queue")
        return EXIT_INTERRUPTED


def submitted_job(stdout: str) -> Submitted | None:
    """The job that sbatch's output names last; None when it names none."""
    found = list(_SUBMITTED.finditer(stdout))
    if not found:
        return None
    line, line_cluster, parsable, parsable_cluster = found[-1].groups()
    return Submitted(line or parsable, line_cluster or parsable_cluster)


def _tell_answer(
    job: Submitted,
    submission: Submission,
    wait_s: float,
    settings: Settings,
    say: Callable[[str], None],
) -> int:
    try:
        answer = await_answer(settings, job.job_id, wait_s, job.cluster, submission.wants)
    except GschedError as error:
        say(error.message)
        if error.hint:
            say(f"hint: {error.hint}")
        code = error.exit_code
    else:
        for line in answer.lines:
            say(line)
        code = 0 if answer.accepted else EXIT_REFUSED
    if code == 0:
        return 0
    if submission.otherwise == "cancel":
        _cancel(job, settings, say)
    else:
        say(f"job {job.job_id} stays in the queue")
    return code


def _cancel(job: Submitted, settings: Settings, say: Callable[[str], None]) -> None:
    where = [] if job.cluster is None else ["--clusters", job.cluster]
    try:
        run(["scancel", *where, job.job_id], timeout_s=settings.slurm.command_timeout_s).check()
    except GschedError as error:
        say(f"job {job.job_id} could not be cancelled and is still there: {error.message}")
    else:
        say(f"job {job.job_id} is cancelled")


class _Tee:
    """Hands bytes on to standard output at once, and keeps them.

    `error` is why writing ended: the job is submitted all the same.
    """

    def __init__(self) -> None:
        self.seen = bytearray()
        self.error: OSError | None = None

    def __call__(self, piece: bytes) -> None:
        self.seen += piece
        while piece and self.error is None:
            try:
                piece = piece[os.write(_STDOUT, piece) :]
            except OSError as error:
                self.error = error
