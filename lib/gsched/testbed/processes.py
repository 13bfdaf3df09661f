"""The processes of a testbed: found by what they carry, never by a pid that was written down.

Every daemon is started with an environment entry that names its root, and so is every command that
the testbed runs for somebody; Slurm's daemons also work in its log folder. Processes of jobs carry
the testbed's SLURM_CONF and the name of their node. A shell that merely exported it has none
of this and is never touched. As a second hold, descendants of what was found belong to it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gsched.errors import UnavailableError
from gsched.testbed import loopback
from gsched.testbed.layout import Layout, Owner

MARK = "GSCHED_TESTBED"
"""Environment variable whose value is the root of the testbed that a process belongs to."""
POLL_S = 0.02
KILL_TIMEOUT_S = 10.0
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Process:
    """A live process as /proc shows it. `start_ticks` tells it from a later one of the same pid."""

    pid: int
    start_ticks: int
    parent: int
    program: str
    """Name of the executable, without Debian's suffix: ``slurmctld``, ``slurmd``, ``bash``."""
    argv: tuple[str, ...]


def find(root: Path) -> list[Process]:
    """All processes of the testbed at `root`, but neither the caller nor its ancestors."""
    parents = _parents()
    spared = _with_ancestors(os.getpid(), parents)
    found = {pid for pid in parents if pid not in spared and _belongs(pid, root)}
    while more := {p for p, up in parents.items() if up in found} - found:
        found |= more
    return [process for pid in sorted(found) if (process := inspect(pid))]


def inspect(pid: int) -> Process | None:
    """The process `pid`; None when it is gone or a zombie."""
    try:
        fields = _stat_fields(pid)
        argv = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
        program = (_PROC / str(pid) / "exe").readlink().name
    except OSError:
        return None
    if fields[0] in "ZX":
        return None
    return Process(
        pid=pid,
        start_ticks=int(fields[19]),
        parent=int(fields[1]),
        program=program.removesuffix(" (deleted)").removesuffix("-wlm"),
        argv=tuple(arg.decode(errors="replace") for arg in argv if arg),
    )


def this_process() -> Owner:
    """The caller, as the owner of a testbed."""
    return Owner(os.getpid(), int(_stat_fields(os.getpid())[19]))


def is_alive(owner: Owner) -> bool:
    """Whether the very process still runs. Zombies do not."""
    try:
        fields = _stat_fields(owner.pid)
    except OSError:
        return False
    return fields[0] not in "ZX" and int(fields[19]) == owner.start_ticks


def send(processes: Iterable[Process], signum: signal.Signals, root: Path) -> None:
    """Signal processes, each checked anew: a pid may have been reused since it was found."""
    for process in processes:
        now = inspect(process.pid)
        if now is None or now.start_ticks != process.start_ticks:
            continue
        try:
            os.kill(process.pid, signum)
        except ProcessLookupError:
            continue
        except PermissionError:
            raise UnavailableError(
                f"may not end process {process.pid} ({process.program}) of the testbed {root}"
            ) from None


def end(processes: Sequence[Process], root: Path, grace_s: float) -> None:
    """SIGTERM, and SIGKILL for what still lives after `grace_s` seconds; returns when all ended."""
    send(processes, signal.SIGTERM, root)
    kill(wait_gone(processes, grace_s), root)


def kill(processes: Sequence[Process], root: Path) -> None:
    """SIGKILL; returns when all ended. Raises UnavailableError when one does not."""
    send(processes, signal.SIGKILL, root)
    if left := wait_gone(processes, KILL_TIMEOUT_S):
        pids = ", ".join(f"{p.pid} ({p.program})" for p in left)
        raise UnavailableError(f"processes of the testbed {root} survive SIGKILL: {pids}")


def wait_gone(processes: Sequence[Process], timeout_s: float) -> list[Process]:
    """Those of `processes` that still live after at most `timeout_s` seconds."""
    deadline = time.monotonic() + timeout_s
    left = list(processes)
    while left := [p for p in left if is_alive(Owner(p.pid, p.start_ticks))]:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    return left


def daemon_environment(layout: Layout, path: str) -> dict[str, str]:
    """What daemons get: nothing of the caller's own environment but PATH."""
    return {
        "PATH": path,
        "LANG": "C.UTF-8",
        "HOME": str(layout.root),
        "SLURM_CONF": str(layout.slurm_conf),
        MARK: str(layout.root),
        **loopback.variables(),
    }


def start_daemon(
    argv: Sequence[str], environment: Mapping[str, str], output: Path
) -> subprocess.Popen[bytes]:
    """Start a program that puts itself into the background; `finish_start` waits for that."""
    with output.open("ab") as sink:
        return subprocess.Popen(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd="/",
            umask=0o022,
            start_new_session=True,
        )


def finish_start(starting: subprocess.Popen[bytes], timeout_s: float = 30.0) -> int:
    """Exit status of the foreground part of a daemon; 124 when it did not end in time."""
    try:
        return starting.wait(timeout_s)
    except subprocess.TimeoutExpired:
        starting.kill()
        starting.wait()
        return 124


def _belongs(pid: int, root: Path) -> bool:
    directory = _PROC / str(pid)
    try:
        entries = (directory / "environ").read_bytes().split(b"\0")
        if not (_has_mark(entries, root) or _is_daemon_at_home(directory, root)):
            return False
        # a container may hold a testbed of the same path, which is not ours
        return os.path.samestat((directory / "root").stat(), Path("/").stat())
    except OSError:
        return False


def _has_mark(entries: Sequence[bytes], root: Path) -> bool:
    if f"{MARK}={root}".encode() in entries:
        return True
    return f"SLURM_CONF={root}/etc/slurm.conf".encode() in entries and any(
        entry.startswith(b"SLURMD_NODENAME=") for entry in entries
    )


def _is_daemon_at_home(directory: Path, root: Path) -> bool:
    """As is slurmstepd: that of Slurm 24.11 writes its title over its environment."""
    program = (directory / "exe").readlink().name
    return program.startswith("slurm") and (directory / "cwd").readlink() == Layout(root).log


def _parents() -> dict[int, int]:
    parents = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(_stat_fields(int(entry.name))[1])
            except OSError:
                continue  # ended meanwhile
    return parents


def _with_ancestors(pid: int, parents: Mapping[int, int]) -> set[int]:
    line = set()
    while pid and pid not in line:
        line.add(pid)
        pid = parents.get(pid, 0)
    return line


def _stat_fields(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; the program's name may hold anything."""
    text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()
