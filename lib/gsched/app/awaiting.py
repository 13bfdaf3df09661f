"""``gsched submit --gs-wait`` and ``--gs-suggest``: submit, then hear gsched about the new job."""

from __future__ import annotations

import os
import pwd
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from gsched.app.answers import await_answer, suggestions
from gsched.app.queue_filter import own_name
from gsched.app.signals import EndingSignal, ending_by_signals
from gsched.app.submit import Submission
from gsched.app.submitted import Fate, Submitted
from gsched.config.settings import Settings
from gsched.errors import EXIT_REFUSED, EXIT_TRY_AGAIN, GschedError
from gsched.slurm.run import passthrough, run

LOOK_S = 1.0
"""So long it is looked what has become of the job when only words depend on it."""

_STDOUT = 1


def submit_and_wait(submission: Submission, settings: Settings, say: Callable[[str], None]) -> int:
    """Submit, then wait for the answer (``--gs-wait``), or for what gsched expects of the job
    (``--gs-suggest``), and tell it; the exit code.

    sbatch's own code when it fails. After ``--gs-wait`` 0 accepted, 3 refused, 75 no answer in
    time, 128 and its number when a signal ended the waiting; a suggestion alone never changes the
    code. What sbatch prints goes to standard output as it comes.
    """
    output = _Tee()
    began = time.time()
    code = passthrough(submission.argv, submission.environ, output)
    if output.error and not isinstance(output.error, BrokenPipeError):
        say(f"what sbatch says could not be written: {output.error.strerror}")
    if code != 0:
        return code
    stdout = bytes(output.seen).decode("utf-8", "replace")
    job = Submitted.said(stdout, _owner(submission.as_user), began, time.time())
    if submission.wait_s is None:
        if job is not None:
            _tell_suggestions(job, settings, say)
        return 0
    if job is None:
        say("no answer of gsched: sbatch named no job")
        return EXIT_TRY_AGAIN
    return _wait(job, submission, submission.wait_s, settings, say)


def _tell_suggestions(job: Submitted, settings: Settings, say: Callable[[str], None]) -> None:
    """A signal ends the waiting, and nothing else: the job is submitted, as sbatch has said."""
    with suppress(KeyboardInterrupt, OSError), ending_by_signals():  # the terminal may be gone
        for line in suggestions(settings, job):
            say(line)


def _wait(
    job: Submitted,
    submission: Submission,
    wait_s: float,
    settings: Settings,
    say: Callable[[str], None],
) -> int:
    try:
        with ending_by_signals():
            code = _tell_answer(job, submission, wait_s, settings, say)
    except KeyboardInterrupt as end:
        with suppress(OSError):  # the terminal may be gone
            say(f"not waiting any longer; job {job.job_id} is submitted and not cancelled")
        return 128 + (end.number if isinstance(end, EndingSignal) else signal.SIGINT)
    if code == 0:
        return 0
    if submission.otherwise == "cancel":
        _cancel(job, settings, say)
    else:
        say(f"job {job.job_id} {_fate_words(job)}")
    return code


def _owner(as_user: str) -> str:
    """Whose job it is: the caller's, or that of sbatch's ``--uid``, a name or a number."""
    if not as_user:
        return own_name()
    with suppress(KeyError):
        return pwd.getpwuid(int(as_user)).pw_name if as_user.isdecimal() else as_user
    return as_user


def _tell_answer(
    job: Submitted,
    submission: Submission,
    wait_s: float,
    settings: Settings,
    say: Callable[[str], None],
) -> int:
    try:
        answer = await_answer(settings, job, wait_s, submission.wants, suggests=submission.suggests)
    except GschedError as error:
        say(error.message)
        if error.hint:
            say(f"hint: {error.hint}")
        return error.exit_code
    for line in answer.lines:
        say(line)
    return 0 if answer.accepted else EXIT_REFUSED


def _fate_words(job: Submitted) -> str:
    try:
        return job.fate(LOOK_S).value
    except GschedError:
        return "is submitted"


def _cancel(job: Submitted, settings: Settings, say: Callable[[str], None]) -> None:
    """Cancel the job, once it is seen to be the one that was submitted."""
    timeout_s = settings.slurm.command_timeout_s
    where = [] if job.cluster is None else ["--clusters", job.cluster]
    try:
        fate = job.fate(timeout_s)
        if fate not in (Fate.WAITS, Fate.RUNS):
            say(f"job {job.job_id} {fate.value}: nothing is cancelled")
            return
        run(["scancel", *where, job.job_id], timeout_s=timeout_s).check()
    except GschedError as error:
        say(f"job {job.job_id} could not be cancelled: {error.message}")
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
