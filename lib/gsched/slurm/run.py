"""The only place where processes are started to talk to Slurm."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import NoReturn

from gsched.errors import GschedError, PermissionDeniedError, TryAgainError, UnavailableError
from gsched.slurm.failures import failure

# Users' defaults for the commands (formats, filters, -M of other clusters, the id of the job that
# gsched may run inside) would change what the readers see. What is needed to reach Slurm stays.
_DROPPED_PREFIXES = (
    "SLURM_", "SQUEUE_", "SACCT_", "SINFO_", "SPRIO_", "SCONTROL_", "SBATCH_", "SALLOC_", "SRUN_",
    "SSHARE_", "SCANCEL_", "LC_", "POSIXLY_CORRECT",  # getopt(3) would end at the first operand
)  # fmt: skip
_KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
_READER_SETTINGS = {
    "SLURM_TIME_FORMAT": "%s",  # epoch seconds
    "SLURM_BITSTR_LEN": "0",  # array expressions in full
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
}

_WAIT_MS = 1000

_running: set[subprocess.Popen[bytes]] = set()


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that has ended: exit status (negative: the signal that killed it) and output."""

    argv: tuple[str, ...]
    status: int
    stdout: str
    stderr: str

    def check(self) -> Completed:
        """Itself. Raises what `failure` says when the status is not 0."""
        if self.status != 0:
            raise self.failure()
        return self

    def failure(self) -> GschedError:
        """The error that a failed command stands for."""
        return failure(self.argv, self.status, self.stderr)


Run = Callable[..., Completed]
"""Runs a command of Slurm, given as words, and returns what it said."""


def reader_environment(base: Mapping[str, str], argv: Sequence[str] = ()) -> dict[str, str]:
    """`base` without what bends Slurm's output, with epoch times, UTC and UTF-8.

    JSON has epoch times of its own, and 22.05's sacct then fails over SLURM_TIME_FORMAT, which it
    also reads its own options by.
    """
    kept = {
        name: value
        for name, value in base.items()
        if name in _KEPT or not name.startswith(_DROPPED_PREFIXES)
    }
    settings = dict(_READER_SETTINGS)
    if "--json" in argv:
        del settings["SLURM_TIME_FORMAT"]
    return kept | settings


def run(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
) -> Completed:
    """Run a command of Slurm to its end in a clean environment and return what it said.

    Bytes that are no UTF-8 become U+FFFD; ASCII separators are never swallowed by that. `env`
    replaces the process environment as the base. Raises UnavailableError when the program does
    not exist, TryAgainError when it takes longer than `timeout_s`: its process group is then dead.
    """
    base = os.environ if env is None else env
    _check_configuration(base)
    data = None if stdin is None else stdin.encode()
    with _dying_with_us() as ending:
        process = _start(argv, base)
        ending.attach(process)
        _running.add(process)
        try:
            out, err = process.communicate(data, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            raise no_answer(argv, timeout_s) from None
        finally:
            _running.discard(process)
            _kill_unless_done(process)
    return Completed(
        argv=tuple(argv),
        status=process.returncode,
        stdout=out.decode("utf-8", "replace"),
        stderr=err.decode("utf-8", "replace"),
    )


def stop_running() -> None:
    """Kill the commands that other threads of this process have under way, for a quick end."""
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def no_answer(argv: Sequence[str], limit_s: float) -> TryAgainError:
    """The error of a command that has taken too long."""
    return TryAgainError(
        f"{' '.join(argv[:3])} gave no answer within {limit_s:g} s",
        "Slurm is slow or unreachable; slurm.command_timeout_s sets the limit",
    )


def _start(argv: Sequence[str], base: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=reader_environment(base, argv),
            start_new_session=True,  # a process group of its own, so that all of it can be killed
        )
    except FileNotFoundError:
        raise _missing(argv[0]) from None
    except PermissionError as error:
        raise PermissionDeniedError(f"{argv[0]} may not be executed: {error.strerror}") from None


def _check_configuration(environment: Mapping[str, str]) -> None:
    """Slurm's commands stall for a minute when SLURM_CONF names a file that is not there."""
    path = environment.get("SLURM_CONF")
    if path and not Path(path).exists():
        raise UnavailableError(
            f"SLURM_CONF names {path}, which does not exist",
            "unset SLURM_CONF, or set it to the cluster's slurm.conf",
        )


def _missing(program: str) -> UnavailableError:
    return UnavailableError(
        f"{program} not found on PATH",
        "install Slurm's client commands on this host or extend PATH",
    )


def _kill_unless_done(process: subprocess.Popen[bytes]) -> None:
    """Whatever ended the wait (a time-out, Ctrl-C): nothing of the command is left behind."""
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


class _Ending:
    """Signal handler that ends a command and then gsched, once the command has been started."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self.early: int | None = None
        """A signal that came before that."""

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self._process is None:
            self.early = number
            return
        _kill_unless_done(self._process)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        """The command that is to be ended."""
        self._process = process
        if self.early is not None:
            self(self.early, None)


@contextlib.contextmanager
def _dying_with_us() -> Iterator[_Ending]:
    """A SIGTERM or SIGHUP that ends gsched (`timeout`, a closed terminal) ends the command too."""
    ending = _Ending()
    numbers = []
    if threading.current_thread() is threading.main_thread():
        fatal = (signal.SIGTERM, signal.SIGHUP)
        numbers = [n for n in fatal if signal.getsignal(n) == signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, ending)
    try:
        yield ending
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
        if ending.early is not None:  # the command could not be started
            os.kill(os.getpid(), ending.early)


def caller_environment() -> dict[str, str]:
    """The environment that this process was started with, for a command that hands it on.

    In a C locale the interpreter itself sets LC_CTYPE (PEP 538); a job would inherit that.
    """
    environ = dict(os.environ)
    with contextlib.suppress(OSError):  # not readable by a process with special privileges
        initial = Path("/proc/self/environ").read_bytes().split(b"\0")
        given = [entry for entry in initial if entry.startswith(b"LC_CTYPE=")]
        environ.pop("LC_CTYPE", None)
        if given:
            environ["LC_CTYPE"] = os.fsdecode(given[0].partition(b"=")[2])
    return environ


def become(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Turn this process into a command: streams, signals and exit code are then its own.

    Raises UnavailableError when the program does not exist, PermissionDeniedError when it may not
    be executed.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    ignored = (signal.SIGPIPE, signal.SIGXFSZ)  # by the interpreter; kept by exec
    before = [signal.signal(number, signal.SIG_DFL) for number in ignored]
    try:
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606
    except FileNotFoundError:
        raise _missing(argv[0]) from None
    except PermissionError as error:
        raise PermissionDeniedError(f"{argv[0]} may not be executed: {error.strerror}") from None
    finally:  # reached only when this process is still itself
        for number, handler in zip(ignored, before, strict=True):
            signal.signal(number, handler)


def passthrough(
    argv: Sequence[str],
    env: Mapping[str, str],
    on_stdout: Callable[[bytes], None] | None = None,
) -> int:
    """Run a command on the caller's own terminal or pipes; its exit code, 128+N after a signal.

    With `on_stdout` what it prints goes there instead, piece by piece as it comes.
    SIGINT, SIGTERM and SIGHUP reach the command; gsched waits for it to end.
    Raises UnavailableError when the program does not exist.
    """
    with _relayed_signals() as relay:
        try:
            process = subprocess.Popen(
                argv,
                env=dict(env),
                stdout=None if on_stdout is None else subprocess.PIPE,
                close_fds=False,  # what the shell has opened for it: a script as <(…), a lock
            )
        except FileNotFoundError:
            raise _missing(argv[0]) from None
        except PermissionError as error:
            raise PermissionDeniedError(
                f"{argv[0]} may not be executed: {error.strerror}"
            ) from None
        relay.attach(process)
        if on_stdout is not None and process.stdout is not None:
            with process.stdout as pipe:
                for piece in iter(lambda: _read(pipe.fileno()), b""):
                    on_stdout(piece)
        _await_end(process)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def _read(fd: int) -> bytes:
    _await(fd)
    return os.read(fd, 65536)


def _await_end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):  # a kernel before 5.3, or it has ended and is waited for
        fd = os.pidfd_open(process.pid)
        try:
            _await(fd)
        finally:
            os.close(fd)
    process.wait()


def _await(fd: int) -> None:
    """Wait until there is something to read, or an end.

    Python handles a signal that comes in the moment before a wait only after it: so each is short.
    """
    ready = select.poll()
    ready.register(fd, select.POLLIN)
    while not ready.poll(_WAIT_MS):
        pass


class _Relay:
    """Signal handler that hands signals on to a process, early ones as soon as it exists."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        # The terminal sends Ctrl-C to the command as well; a second one would mean "now".
        if number == signal.SIGINT and _in_foreground():
            return
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)

    def attach(self, process: subprocess.Popen[bytes]) -> None:
        """The process to hand signals on to."""
        self._process = process
        for number in self._early:
            process.send_signal(number)


@contextlib.contextmanager
def _relayed_signals() -> Iterator[_Relay]:
    relay = _Relay()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.getsignal(n) for n in numbers}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup and shell jobs ignore on purpose
            signal.signal(number, relay)
    try:
        yield relay
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether this process group is the one that the terminal sends its signals to."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
