"""A block of free TCP ports on 127.0.0.1, safe against two testbeds that start at once."""

from __future__ import annotations

import errno
import socket
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from gsched.errors import UnavailableError

LOOPBACK = "127.0.0.1"
BLOCK_SIZE = 512
"""Blocks begin at multiples of this. A testbed's slurmctld takes the first port of its block, so
that the ports of its sleeping nodes are not taken for free."""
FIRST_BLOCK = 20_480
DEFAULT_EPHEMERAL_FIRST = 32_768
_EPHEMERAL_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the daemons of one testbed listen."""

    base: int

    @property
    def slurmctld(self) -> int:
        """Port of the controller."""
        return self.base

    @property
    def slurmdbd(self) -> int:
        """Port of the accounting daemon."""
        return self.base + 1

    @property
    def mariadb(self) -> int:
        """Port of the accounting daemon's database."""
        return self.base + 2

    @property
    def slurmd_first(self) -> int:
        """Port of the first node; the others follow."""
        return self.base + 3


class PortReservation:
    """Holds a block against other testbeds until the daemons listen; a context manager.

    The lock is a Unix socket in the abstract name space: it lives in the same network name space
    as the ports, needs no file, and ends with the process.
    """

    def __init__(self, base: int, lock: socket.socket) -> None:
        self.ports = Ports(base)
        self._lock = lock

    def __enter__(self) -> PortReservation:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._lock.close()


def reserve(num_ports: int, base: int | None = None) -> PortReservation:
    """Reserve the block at `base`, or the first free one below the ephemeral range.

    Raises UnavailableError when the wanted port is in use, or no block is free.
    """
    if base is not None:
        lock = _lock(base)
        if lock is None:
            raise UnavailableError(
                f"another testbed is just starting on port {base}",
                "leave the port out, so that a free one is found",
            )
        used = _first_in_use(base, num_ports)
        if used is None:
            return PortReservation(base, lock)
        lock.close()
        raise UnavailableError(
            f"port {used} on {LOOPBACK} is in use; the testbed needs {base} to "
            f"{base + num_ports - 1}",
            "choose another first port, or leave it out, so that free ones are found",
        )
    for candidate in _candidates():
        lock = _lock(candidate)
        if lock is not None:
            if _first_in_use(candidate, num_ports) is None:
                return PortReservation(candidate, lock)
            lock.close()
    raise UnavailableError(
        f"no {num_ports} free TCP ports in a row on {LOOPBACK}",
        "stop a testbed that is no longer needed, or name the first port",
    )


def _candidates() -> range:
    """First ports of the blocks that the kernel does not hand out to outgoing connections."""
    try:
        end = int(_EPHEMERAL_RANGE.read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        end = DEFAULT_EPHEMERAL_FIRST
    if end < FIRST_BLOCK + BLOCK_SIZE:
        end = DEFAULT_EPHEMERAL_FIRST  # a site that gave nearly all ports away: bind tests decide
    return range(FIRST_BLOCK, end - BLOCK_SIZE + 1, BLOCK_SIZE)


def _lock(base: int) -> socket.socket | None:
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        lock.bind(f"\0gsched-testbed-port-{base}")
    except OSError as error:
        lock.close()
        if error.errno == errno.EADDRINUSE:
            return None
        raise UnavailableError(f"cannot lock port {base}: {error.strerror}") from error
    return lock


def _first_in_use(base: int, num_ports: int) -> int | None:
    for port in range(base, base + num_ports):
        with closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as probe:
            # as Slurm does: without it, what a stopped testbed left in TIME_WAIT blocks the port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOOPBACK, port))
            except OSError:
                return port
    return None
