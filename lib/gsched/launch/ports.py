"""A port for the ranks of a job to meet at: MASTER_PORT.

It lies outside the range from which the kernel gives ports to outgoing connections, so that none of
them can have taken it by the time rank 0 listens there, some seconds later. Other jobs of gsched on
the node see that it is taken by an abstract unix socket, which goes with the process that holds it.
"""

from __future__ import annotations

import errno
import hashlib
import socket
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from gsched.errors import UnavailableError

_FIRST = 10_000
_LAST = 65_535
_MAX_TRIES = 2_000
_SETTINGS = Path("/proc/sys/net/ipv4")
_NO_IPV6 = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


@dataclass(frozen=True, slots=True)
class PortLease:
    """A port that is this job's as long as `held` is open."""

    port: int
    held: socket.socket


def lease_port(job_id: str, attempt: int, settings: Path = _SETTINGS) -> PortLease:
    """A free port; which one is tried first depends on job and attempt, so that jobs of one node
    begin at different places, and a rank that an earlier attempt has left finds another.

    `settings` is where the kernel tells its own ranges. Raises UnavailableError when none of those
    tried is free.
    """
    for port in _candidates(job_id, attempt, settings):
        held = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            held.bind(f"\0gsched-port-{port}")
            if _is_free(port):
                return PortLease(port, held)
        except OSError:  # another job's
            pass
        held.close()
    raise UnavailableError(f"no port from {_FIRST} to {_LAST} is free for MASTER_PORT")


def _candidates(job_id: str, attempt: int, settings: Path) -> Iterator[int]:
    """Ports to try, in their order, without those that the kernel gives away or keeps."""
    low, high = _ephemeral(settings)
    kept = _reserved(settings)
    ports = [p for p in range(_FIRST, _LAST + 1) if not low <= p <= high and p not in kept]
    if not ports:  # the kernel gives away all of them
        ports = [p for p in range(_FIRST, _LAST + 1) if p not in kept]
    digest = hashlib.blake2b(f"{job_id} {attempt}".encode(), digest_size=8).digest()
    begin = int.from_bytes(digest) % len(ports)
    for i in range(min(_MAX_TRIES, len(ports))):
        yield ports[(begin + i) % len(ports)]


def _ephemeral(settings: Path) -> tuple[int, int]:
    """The range of ports of outgoing connections; Linux's own default where it is not told."""
    try:
        low, high = (settings / "ip_local_port_range").read_text().split()
        return int(low), int(high)
    except (OSError, ValueError):
        return 32_768, 60_999


def _reserved(settings: Path) -> frozenset[int]:
    """Ports that an admin keeps for services: `8080,9148-9150`."""
    found: set[int] = set()
    try:
        text = (settings / "ip_local_reserved_ports").read_text().strip()
        for part in text.split(",") if text else ():
            first, _, last = part.partition("-")
            found.update(range(int(first), int(last or first) + 1))
    except (OSError, ValueError):
        pass
    return frozenset(found)


def _is_free(port: int) -> bool:
    """Whether nobody has the port, at any address: neither a listener nor a closed connection that
    the kernel remembers still.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError:  # a kernel without IPv6
            continue
        with closing(probe):
            try:
                probe.bind(("", port))
            except OSError as error:
                if family == socket.AF_INET or error.errno not in _NO_IPV6:
                    return False
    return True
