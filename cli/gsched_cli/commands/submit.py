"""``gsched submit``: sbatch with gsched's own options."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from gsched.app.job_script import offer_again, read_open_file
from gsched.app.sbatch_words import scan_sbatch
from gsched.app.submit import Submission, prepare
from gsched.jobscript.command_line import SBATCH, Kind
from gsched.jobscript.own_options import OPTIONAL, OPTIONS, VALUED
from gsched.slurm.run import become, caller_environment, passthrough
from gsched_cli import completion as complete
from gsched_cli.options import load_settings
from gsched_cli.output import say, warn

if TYPE_CHECKING:
    from gsched.app.profile_runs import ProfileRuns

_VALUES = {"--gs-runtime": complete.runtime}
EXIT_SBATCH = 1
"""Of an sbatch that has submitted nothing."""

_METAVARS = VALUED | {name: f"[={value}]" for name, value in OPTIONAL.items()}


class SbatchCommand(click.Command):
    """Takes sbatch's command line to the letter; ``--help`` alone is ours."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave every word to sbatch's own grammar."""
        if "--help" in args and any(
            word.kind is Kind.OPTION and word.name == "help" and args[word.start] == "--help"
            for word in scan_sbatch(args)
        ):
            super().parse_args(ctx, ["--help"])
        ctx.args = list(args)
        return ctx.args

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Options of both, and files."""
        found = super().shell_complete(ctx, incomplete)
        return found + complete.slurm_words(incomplete, SBATCH, complete.files)


@click.command(
    cls=SbatchCommand,
    options_metavar="[SBATCH OPTIONS] [--gs-...] [SCRIPT [ARGS]...]",
    params=[
        click.Option(
            [name],
            is_flag=name not in _METAVARS,
            metavar=_METAVARS.get(name),
            help=text,
            shell_complete=_VALUES.get(name),
        )
        for name, text in OPTIONS.items()
    ]
    + complete.slurm_options(SBATCH),
)
@click.pass_context
def submit(ctx: click.Context, /, **_: object) -> int:
    """Submit a batch job, as sbatch does.

    All options of sbatch(1) are handed on to the letter (-h shows its help), and what it prints and
    its exit code come back unchanged: scripts that parse sbatch go on working. Options of gsched
    begin with --gs- and stand before the script's name; what follows the script belongs to it. They
    may also stand in the script, in lines #GSCHED --gs-… that obey the rules of #SBATCH lines and
    count for the whole job, whichever component they stand in; the command line wins. A #SBATCH or
    #GSCHED line after the first command is void, which gsched says. The script is found as sbatch
    finds it; without one it is read from standard input.

    gsched tells its daemon what you ask for by a short token, gs1{…}, behind the job's comment;
    your own --comment is kept. With --gs-wait N, gsched waits for the daemon's answer after sbatch
    has ended and prints it on stderr; Ctrl-C, SIGTERM and SIGHUP then end the waiting, not the job.
    It does not go with --wait, nor with an array that has a deadline. A daemon that restarts, is
    busy or has not seen the job yet is asked again until N seconds are over. Only where there is no
    place to ask at all (no daemon.query_address, and no status file that tells of users' jobs)
    gsched gives up after 3 seconds. --gs-else cancel cancels the job then, after squeue has shown
    that it is still yours and the one that was submitted.

    The answer to --gs-deadline or --gs-soft-deadline is a promise with its probability and its
    plan, where the site's policy keeps deadlines; or it is refused: why, the earliest end that
    could be promised, and what would be taken instead. A refused job stays in the queue as best
    effort, and the answer is final: another deadline is another submission (gsched-deadlines(7)).

    With --gs-suggest, gsched tells on stderr, after sbatch has ended, what its daemon expects: the
    run time, the start, each with its 80 % interval, and a shorter time limit where one would let
    the job start noticeably sooner, with how likely the run ends within it. It changes neither the
    job nor the exit code, and waits for submit.suggest_wait_s at most (with --gs-wait, not beyond N
    seconds either); SIGINT ends that waiting. Without a daemon it says nothing. It is void with
    --wait. `gsched why` tells the same of each job that waits, and what else would help.

    With --gs-checkpoint or --gs-runtime, sbatch gets a script in which yours stands unchanged, with
    gsched beside it (gsched-jobscripts(7)); its own #SBATCH lines, SBATCH_… and the command line
    win over those of the template. --gs-checkpoint alone is for scripts that save by gsched's
    runtime (gsched-checkpointing(7)), or by themselves at SIGUSR1 or SIGTERM: the job is requeued
    after a preemption or a node's failure, told before its time limit, has a folder for its
    checkpoints, which are also written each SECONDS, and its output is appended. Where the site
    leases GPUs, it may have to give way, told by SIGUSR1 and requeued once it has saved, when its
    lease is over and another's turn has come (gsched-fairness(7)). --gs-runtime NAME
    takes another template, and sets its keys; `gsched jobscript list` and `show` have them. The
    Python that runs gsched on the nodes is tried before anything is submitted (jobscript.python).
    --gs-dry-run prints a command for the shell that submits the same job, without profile runs.

    --gs-profile is for a job with a deadline that nothing is known of: no job like it has run here.
    Its script is run before, under the name gs-profile, for SECONDS (300) from its first step on:
    as it is, or of a job on more than two nodes once on one node and once on two, from which the
    speed on all of them is reckoned. The job's deadline is answered when these runs are over. They
    keep no checkpoints, write to gs-profile-JOB.out and need --gs-checkpoint or --gs-runtime, and
    a script that tells its steps (gsched-checkpointing(7)). All else that the script does they do:
    files that it writes or removes by itself, outside the folder for checkpoints, are the real
    ones, and where there are two runs both write them. Where there is a history it is believed
    before a profile.

    Exit codes: sbatch's own; 2 for a wrong --gs- option, before anything is submitted; after
    --gs-wait 0 accepted, 3 refused, 75 no answer in time. When gsched's configuration cannot be
    read, a submission that asks for nothing is made as with --gs-none, and says so; any other ends
    with 78, before anything is submitted, as does one whose template or Python cannot be used.

    Submitting from inside a job, what belongs to that job is not passed on to the new one: SLURM_…
    and SBATCH_… variables, the numbers of its GPUs, its ranks and checkpoints. Kept are SLURM_CONF
    and the like, and the defaults that say for whom, where and how you submit (SBATCH_ACCOUNT,
    _QOS, _PARTITION, _RESERVATION, _WCKEY, _CLUSTERS, _EXPORT, _REQUEUE…). Other SBATCH_… that are
    set there (a time limit, GPUs, a name) may be what the outer job was submitted with: gsched
    names them and leaves them out; write such options on the command line.

    \b
    Example:
      gsched submit --gres=gpu:4 --time=3:00:00 train.sh --epochs 10
      gsched submit -p gpu --gres=gpu:4 --gs-suggest train.sh
      gsched submit --gs-deadline 2026-12-07T09:00 --gs-wait 30 train.sh
      gsched submit --gs-deadline 18:00 --gs-profile --gs-checkpoint -N8 --gres=gpu:8 train.sh
      gsched submit --gs-checkpoint=600 --gres=gpu:1 train.sh
      gsched submit --gs-runtime ddp,launcher=torchrun -N2 --gres=gpu:8 train.py
      gsched submit --gs-none -p gpu train.sh
      gsched submit --gs-dry-run --wrap 'python train.py'
    """
    submission = prepare(
        ctx.args, caller_environment(), read_open_file, int(time.time()), settings=load_settings
    )
    for message in submission.warnings:
        warn(message)
    if submission.is_dry_run:
        from gsched.app.dry_run import dry_run_text

        text = dry_run_text(submission)
        if not submission.is_wrapped:
            sys.stdout.write(text)
        elif sys.stdout is not None:  # byte for byte, whatever the locale: it is to be run
            sys.stdout.buffer.write(os.fsencode(text))
        return 0
    return _run(submission)


def _run(submission: Submission) -> int:
    if submission.profiles is not None:
        return _run_profiled(submission, submission.profiles)
    listens = submission.wait_s is not None or submission.suggests
    settings = load_settings() if listens else None
    if submission.piped is not None:
        offer_again(*submission.piped)
    if settings is None:
        become(submission.argv, submission.environ)
    from gsched.app.awaiting import submit_and_wait

    return submit_and_wait(submission, settings, say)


def _run_profiled(submission: Submission, runs: ProfileRuns) -> int:
    """The profile runs first; without the job itself they are of no use."""
    from gsched.app.awaiting import submit_and_wait
    from gsched.app.profile_runs import cancel_profiles, submit_profiles
    from gsched.app.queue_filter import own_name

    ids = submit_profiles(runs, submission.environ, own_name(), time.time)
    code = EXIT_SBATCH
    try:
        job = submission.after_profiles(ids)
        say(f"profile runs {', '.join(map(str, ids))}: the answer comes when they are over")
        say("they run the whole script: what it writes beside gsched's checkpoints is written")
        if job.piped is not None:
            offer_again(*job.piped)
        if job.wait_s is None and not job.suggests:
            code = passthrough(job.argv, job.environ)
        else:
            code = submit_and_wait(job, load_settings(), say)
    finally:
        if code == EXIT_SBATCH:
            cancel_profiles(ids)
    return code
