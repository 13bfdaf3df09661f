"""The writer's program: python -m gsched.ckpt.writer [--listen PATH [--until PID] | --end PATH].

Without an option it serves the one trainer at the other end of its standard input.
"""

from __future__ import annotations

import argparse
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from gsched.ckpt.disk import RealDisk
from gsched.ckpt.faults import kill_where_asked
from gsched.ckpt.writer import messages, start
from gsched.ckpt.writer.listen import end, listen
from gsched.ckpt.writer.messages import Hello
from gsched.ckpt.writer.session import Session
from gsched.errors import GschedError

NICENESS = 10


def main() -> int:
    """Serve, listen, or end who listens; the exit status."""
    options = _options()
    try:
        if options.end:
            end(options.end)
            return 0
        _leave_signals_to_trainer()
        if options.listen:
            fault = kill_where_asked(os.environ)
            listen(options.listen, RealDisk(), fault, options.until)
        else:
            _serve_parent()
    except GschedError as e:
        print(f"gsched: error: {e.message}", file=sys.stderr)
        return e.exit_code
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m gsched.ckpt.writer", description=__doc__)
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--listen", metavar="PATH", type=Path, help="serve trainers at this socket")
    either.add_argument("--end", metavar="PATH", type=Path, help="end it when all is written")
    parser.add_argument(
        "--until", metavar="PID", type=int, help="with --listen: also end when this process has"
    )
    return parser.parse_args()


def _leave_signals_to_trainer() -> None:
    """What is sent to all processes of a step means the trainer, and training goes first."""
    for number in start.MEANT_FOR_TRAINER:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, start.MEANT_FOR_TRAINER)
    with suppress(PermissionError):
        os.nice(NICENESS)


def _serve_parent() -> None:
    connection = socket.socket(fileno=os.dup(0))
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.poll()
    received = messages.receive(connection)
    if received is None:
        return
    hello, fds = received
    if isinstance(hello, Hello):
        os.chdir("/")  # the folder where training was started may be unmounted
        Session(connection, hello, fds, RealDisk(), kill_where_asked(os.environ)).run()


if __name__ == "__main__":
    sys.exit(main())
