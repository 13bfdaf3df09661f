"""The batch process of a job: python -m gsched.launch [OPTIONS] -- COMMAND ARG…"""

from __future__ import annotations

import os
import resource
import signal
import sys

from gsched.errors import GschedError
from gsched.launch.attempt import run_attempt
from gsched.launch.options import parse
from gsched.launch.say import say


def main() -> int:
    """Run the command; its exit code. Ends by the signal that has ended the command."""
    options = parse(sys.argv[1:])
    if options.check:
        return 0
    try:
        code = run_attempt(options)
    except GschedError as error:
        say(f"error: {error.message}")
        if error.hint:
            say(f"hint: {error.hint}")
        return error.exit_code
    if code < 0:
        _end_by(-code)
    return code


def _end_by(number: int) -> None:
    """End this process by a signal, as the command was ended. The core is the command's own."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    sys.exit(main())
