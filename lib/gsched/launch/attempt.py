"""One attempt of a job, from its first line to its end."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

from gsched.ckpt.writer.start import SOCKET_VARIABLE
from gsched.launch import environment, evaluation, logs, ports, private_folder, task_hooks
from gsched.launch.child_process import Children
from gsched.launch.job import Job, printable
from gsched.launch.options import Options
from gsched.launch.profile import Profile, throw_away
from gsched.launch.register import Register
from gsched.launch.say import say
from gsched.launch.supervise import Supervisor, hold_signals
from gsched.launch.time_limit import TimeLimit
from gsched.launch.witness import Witness
from gsched.launch.writer import WriterOutside
from gsched.telemetry.job_environment import mark_as_of_job

DEFAULT_GRACE_S = 30.0
"""Slurm's own KillWait, where nobody says how long the grace is."""
STOPPED_VARIABLE = "GSCHED_STOPPED_MARK"
"""A file that the runtime makes when a signal has ended a training before its last step."""

_OF_JOB_ALONE = (environment.CHECKPOINT_FOLDER, SOCKET_VARIABLE, STOPPED_VARIABLE)
"""Variables that mean no job that this one submits."""


def run_attempt(options: Options) -> int:
    """Run the command as an attempt of the job that this process is of.

    Gives the job's exit code, negative for a signal. Raises GschedError for what keeps the command
    from being started.
    """
    hold_signals()
    with private_folder.held(options.job_dir), ExitStack() as held:
        return _Attempt(options, held).run()


class _Attempt:
    """What this attempt has: its job, environment, children; `held` is let go at its end."""

    def __init__(self, options: Options, held: ExitStack) -> None:
        self._options = options
        self._held = held
        self._here = Path.cwd()
        self._job = Job.of(os.environ)
        self._children = Children()
        # it forks, and so comes before there is a thread
        self._witness = held.enter_context(Witness(self._children, options.job_dir))
        self._environ, gone = environment.scrubbed(os.environ)
        self._environ |= environment.asked_for(options, os.environ)
        self._checkpoints = environment.checkpoint_folder(
            options, os.environ, self._job, self._here
        )
        output = logs.divert(self._job) if options.attempt_logs and self._job else None
        self._register = Register(self._environ)
        self._register.begin(self._checkpoints, output)
        self._tell(gone)

    def _tell(self, gone: list[str]) -> None:
        words = self._job.words() if self._job else "not in a job of Slurm's"
        if self._checkpoints is not None:
            words += f", checkpoints in {printable(str(self._checkpoints))}"
        say(words)
        if gone:
            say(f"left out, as of another run: {', '.join(gone)}")

    def run(self) -> int:
        """The command, from its start to what Slurm is to make of its end."""
        try:
            self._complete_environment()
            code = self._run_command()
        except BaseException as error:
            self._register.end(getattr(error, "exit_code", 1))
            raise
        self._register.end(code)
        return code

    def _complete_environment(self) -> None:
        """Variables that the command finds."""
        options, job, environ = self._options, self._job, self._environ
        if self._checkpoints is not None:
            environ[environment.CHECKPOINT_FOLDER] = str(self._checkpoints)
        if options.evaluate is not None:
            environ[evaluation.VARIABLE] = str(evaluation.chosen(options.evaluate, job, self._here))
        if options.job_dir is not None:
            environ[STOPPED_VARIABLE] = str(options.job_dir / "stopped")
        if job is None:
            return
        environ["GSCHED_ATTEMPT"] = str(job.attempt)
        environ.update(task_hooks.variables(environ, job, ranks=options.ranks))
        if options.ranks:
            lease = ports.lease_port(job.job_id, job.attempt)
            self._held.enter_context(lease.held)
            address = environment.master_address(job.node)
            environ.update(environment.of_ranks(os.environ, job, address, lease.port))

    def _run_command(self) -> int:
        options, job = self._options, self._job
        writer = self._start_writer()
        limit = self._time_limit()
        profile = self._profile()
        supervisor = Supervisor(
            job,
            self._children,
            self._witness,
            grace_s=DEFAULT_GRACE_S if options.grace is None else options.grace,
            limit=limit,
            own=[*self._start_sampler(), *([writer.pid] if writer else [])],
            note=self._register.signal,
            is_due=None if profile is None else profile.is_due,
        )
        self._environ |= mark_as_of_job(self._environ, _OF_JOB_ALONE)
        code = supervisor.run(options.command, self._environ)
        supervisor.settle()
        if writer is not None:
            writer.end()
        if profile is not None:
            throw_away(self._checkpoints)
            return 0 if profile.is_over else code
        was_stopped = self._was_stopped()
        goes_on = supervisor.job_goes_on(code, was_stopped=was_stopped)
        notes = [limit.note] if limit else []
        if options.evaluate is not None and job is not None:
            notes.append(evaluation.note_of(job, self._here))
        notes = [note for note in notes if note.path.exists()]
        if notes and not goes_on and supervisor.is_over(code, was_stopped=was_stopped):
            for note in notes:
                note.forget()
        return code

    def _time_limit(self) -> TimeLimit | None:
        options, job = self._options, self._job
        if job is None or not options.at_timeout or options.profile is not None:
            return None
        folder = self._checkpoints or self._here
        return TimeLimit(job, folder, at_timeout=options.at_timeout, notice_s=options.notice)

    def _profile(self) -> Profile | None:
        seconds = self._options.profile
        return None if seconds is None else Profile(seconds, self._job, self._environ)

    def _start_sampler(self) -> list[int]:
        """Of this node's GPUs; the task prolog starts those of further nodes."""
        if self._job is None:
            return []
        pid = task_hooks.start_gpu_sampler(self._environ, self._children)
        if pid is None:
            return []
        self._environ["GSCHED_SAMPLED_NODE"] = self._job.node
        return [pid]

    def _start_writer(self) -> WriterOutside | None:
        """Outside the steps, where all trainers are on this node; elsewhere each starts its own."""
        folder, job = self._options.job_dir, self._job
        if self._checkpoints is None or folder is None or (job and job.num_nodes > 1):
            return None
        writer = WriterOutside.start(folder, self._environ, self._children)
        if writer is not None:
            self._environ |= writer.variables
        return writer

    def _was_stopped(self) -> bool:
        folder = self._options.job_dir
        return folder is not None and (folder / "stopped").exists()
