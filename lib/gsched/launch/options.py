"""The command line of `python -m gsched.launch`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gsched.launch.time_limit import DEFAULT_NOTICE_S


@dataclass(frozen=True, slots=True)
class Options:
    """What the rendered job script asks for; `command` is the user's script with its arguments."""

    check: bool
    command: tuple[str, ...]
    job_dir: Path | None
    checkpoints: Path | None
    checkpoint_folder: Path | None
    every: float | None
    grace: float | None
    heartbeat: Path | None
    phase: str | None
    at_timeout: int
    notice: float
    ranks: bool
    attempt_logs: bool
    evaluate: Path | None
    profile: float | None


def parse(argv: Sequence[str]) -> Options:
    """The options. Ends the process with status 2 for a command line that is not understood."""
    parser = _parser()
    values = vars(parser.parse_args(argv))
    command = tuple(values.pop("command"))
    if command[:1] == ("--",):
        command = command[1:]
    if not command and not values["check"]:
        parser.error("no command: put it behind --")
    return Options(command=command, **values)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gsched.launch",
        description="The batch process of a job: runs the user's script, brings signals to those "
        "processes that catch them, and ends as the script did.",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--check", action="store_true", help="only say whether it can run here: exit status 0")
    add("--job-dir", metavar="DIR", type=Path, help="the job's private folder; removed at the end")
    add("--checkpoints", metavar="ROOT", type=Path, help="checkpoints go to ROOT/JOB[_TASK]")
    add(
        "--checkpoint-folder", metavar="FOLDER", type=Path,
        help="checkpoints go to FOLDER whatever job this is; of an array to FOLDER/TASK",
    )  # fmt: skip
    add("--every", metavar="SECONDS", type=float, help="between written checkpoints")
    add("--grace", metavar="SECONDS", type=float, help="from SIGTERM to SIGKILL")
    add("--heartbeat", metavar="DIR", type=Path, help="the site's heartbeat folder")
    add("--phase", metavar="LIST", help="phases of the training, for the runtime")
    add(
        "--at-timeout", metavar="N", type=int, default=0,
        help="before the time limit: save, end and requeue the job, N times at most",
    )  # fmt: skip
    add(
        "--notice", metavar="SECONDS", type=float, default=DEFAULT_NOTICE_S,
        help="with --at-timeout: USR1 comes so long before the time limit (%(default)g)",
    )  # fmt: skip
    add("--ranks", action="store_true", help="give the ranks of a distributed training their place")
    add("--attempt-logs", action="store_true", help="each attempt's output in a file of its own")
    add("--evaluate", metavar="FOLDER", type=Path, help="evaluate its newest valid checkpoint")
    add(
        "--profile", metavar="SECONDS", type=float,
        help="end so long after the first step; checkpoints are thrown away",
    )  # fmt: skip
    add("command", nargs="*", metavar="COMMAND", help="after --: what to run")
    return parser
