"""The one place where errors become lines on stderr and an exit code.

``gsched: error: what is wrong`` and, where there is one, ``hint: what to do next``. A traceback is
shown only with GSCHED_DEBUG=1.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from typing import TextIO

import click

from gsched.errors import (
    EXIT_NO_PERMISSION,
    EXIT_SOFTWARE,
    EXIT_UNAVAILABLE,
    EXIT_USAGE,
    GschedError,
)
from gsched_cli.output import safe_text

DEBUG_VARIABLE = "GSCHED_DEBUG"
EXIT_INTERRUPTED = 128 + signal.SIGINT
EXIT_BROKEN_PIPE = 128 + signal.SIGPIPE


def guarded(body: Callable[[], int]) -> int:
    """Run `body` to its exit code; whatever it raises becomes lines on stderr and a code."""
    code = _outcome(body)
    if code == 0:
        code = _outcome(_flush_stdout)
    else:
        with contextlib.suppress(OSError):  # the first error is the one to tell
            _flush_stdout()
    with contextlib.suppress(OSError):  # words that nobody can hear change no code
        _flush(sys.stderr)
    return code


def _outcome(body: Callable[[], int]) -> int:
    try:
        return body()
    except BrokenPipeError:  # the reader (`| head`) has what it wanted
        return EXIT_BROKEN_PIPE
    except (KeyboardInterrupt, click.Abort):
        print(file=sys.stderr)  # ends the terminal's line with its ^C
        return EXIT_INTERRUPTED
    except click.exceptions.NoArgsIsHelpError as error:
        print(error.format_message(), file=sys.stderr)
        return EXIT_USAGE
    except Exception as error:  # the top of the program: no traceback may reach a user
        if os.environ.get(DEBUG_VARIABLE) == "1":
            import traceback

            traceback.print_exception(error)
        return report(error)


def _flush_stdout() -> int:
    _flush(sys.stdout)
    return 0


def _flush(stream: TextIO) -> None:
    """Flush here, where a full disk or a broken pipe can still be reported."""
    try:
        stream.flush()
    except OSError:
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, stream.fileno())  # or the interpreter's own flush complains again
        os.close(devnull)
        raise


def report(error: Exception) -> int:
    """Print `error` for the user and return its exit code."""
    message, hint, code = describe(error)
    level = _journal_level()
    print(f"{level}gsched: error: {safe_text(message)}", file=sys.stderr)
    if hint:
        print(f"{level}hint: {safe_text(hint)}", file=sys.stderr)
    return code


def _journal_level() -> str:
    """The mark of an error where systemd's journal reads stderr: a service's, or a timer's."""
    if "JOURNAL_STREAM" not in os.environ:
        return ""
    import logging

    from gsched.daemon.log import is_journal, priority

    return priority(logging.ERROR) if is_journal() else ""


def describe(error: Exception) -> tuple[str, str, int]:
    """Message, hint and exit code of an error."""
    if isinstance(error, GschedError):
        return error.message, error.hint, error.exit_code
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "gsched"
        return _lower_first(error.format_message()), f"see `{path} --help`", EXIT_USAGE
    if isinstance(error, click.ClickException):
        return _lower_first(error.format_message()), "", EXIT_USAGE
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fsdecode(error.filename)}" if error.filename else ""
        denied = isinstance(error, PermissionError)
        return error.strerror + where, "", EXIT_NO_PERMISSION if denied else EXIT_UNAVAILABLE
    what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    hint = "" if os.environ.get(DEBUG_VARIABLE) == "1" else "GSCHED_DEBUG=1 shows the traceback"
    return f"internal error: {what}", hint, EXIT_SOFTWARE


def _lower_first(message: str) -> str:
    return message[:1].lower() + message[1:].rstrip(".")
