"""Errors that a user sees: what is wrong, what to do next, and the exit code of the command.

Library code raises these; ``gsched_cli.errors`` alone turns them into lines on stderr.
Exit codes follow sysexits(3); 3 is an answer (a refused deadline, a policy's no), not a fault, and
so is 4 (no checkpoint is valid).
"""

from __future__ import annotations

EXIT_REFUSED = 3
EXIT_USAGE = 2
EXIT_NONE_VALID = 4
EXIT_DATA = 65
EXIT_NO_CHECKPOINT = 66
EXIT_UNAVAILABLE = 69
EXIT_SOFTWARE = 70
EXIT_TRY_AGAIN = 75
EXIT_NO_PERMISSION = 77
EXIT_CONFIG = 78


class GschedError(Exception):
    """One line for the user (`message`), an optional next step (`hint`) and an exit code.

    A traceback, all that a training script's user sees, shows the hint as a note.
    """

    exit_code = EXIT_SOFTWARE

    def __init__(self, message: str, hint: str = "", exit_code: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")
        if exit_code is not None:
            self.exit_code = exit_code


class UsageError(GschedError):
    """The command line asks for something that does not exist or does not fit together."""

    exit_code = EXIT_USAGE


class DataError(GschedError):
    """Input that could not be understood: a record, a file, a name, a number."""

    exit_code = EXIT_DATA


class NoCheckpointError(GschedError):
    """Where checkpoints were looked for there is none, and nothing says that there ever was one."""

    exit_code = EXIT_NO_CHECKPOINT


class NoneValidError(GschedError):
    """There are checkpoints, and none of them is whole."""

    exit_code = EXIT_NONE_VALID


class UnavailableError(GschedError):
    """Something outside gsched cannot be reached, or fails: Slurm, a database, a file system."""

    exit_code = EXIT_UNAVAILABLE


class TryAgainError(GschedError):
    """May work later: Slurm gave no answer in time, another daemon holds the lock."""

    exit_code = EXIT_TRY_AGAIN


class AnotherLeadsError(TryAgainError):
    """Another host's daemon leads the cluster: this one may stand by for it."""


class LostLeadershipError(GschedError):
    """Another daemon leads the cluster now: this one must not write any more."""

    exit_code = EXIT_TRY_AGAIN


class PermissionDeniedError(GschedError):
    """The caller lacks a privilege on Slurm, a file or the database."""

    exit_code = EXIT_NO_PERMISSION


class ConfigError(GschedError):
    """A configuration of gsched or of the site that gsched cannot work with."""

    exit_code = EXIT_CONFIG


class FailedCommandError(GschedError):
    """A command of Slurm has failed. Carries its argument vector, exit status and stderr."""

    what = "failed"

    def __init__(self, argv: tuple[str, ...], status: int, stderr: str, hint: str = "") -> None:
        reason = " ".join(stderr.split()) or f"exit status {status}"
        super().__init__(f"{argv[0]} {self.what}: {reason}", hint)
        self.argv = argv
        self.status = status
        self.stderr = stderr


class SlurmCommandError(FailedCommandError, UnavailableError):
    """Slurm could not be reached, or a command failed for a reason of its own."""


class NoAccountingError(UnavailableError):
    """The cluster has no slurmdbd that keeps its accounts."""


class SlurmBusyError(FailedCommandError, TryAgainError):
    """Slurm had no time for a command, or limits how often it is asked."""

    what = "was put off, Slurm is busy"


class SlurmDeniedError(FailedCommandError, PermissionDeniedError):
    """Slurm refused a command to this user."""

    what = "was refused"
