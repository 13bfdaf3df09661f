"""Which machine this is, and whether a process of it lives."""

from __future__ import annotations

import os
import socket
from pathlib import Path

_MACHINE_ID = Path("/etc/machine-id")


def machine_id() -> str:
    """systemd's id of this machine; ``host:NAME`` where it has none, as in many containers.

    The kernel's boot id would do for neither: a machine is the same one after it has restarted.
    """
    return systemd_machine_id() or f"host:{socket.gethostname()}"


def systemd_machine_id() -> str:
    """The contents of /etc/machine-id, "" where it is none."""
    try:
        found = _MACHINE_ID.read_bytes().strip()
    except OSError:
        return ""
    # empty, or "uninitialized" until the first boot has ended
    return found.decode() if len(found) == 32 and found.isalnum() else ""


def is_here(host: str, machine: str) -> bool:
    """Whether a daemon that has told these runs where this process could see it.

    Containers share their machine's id, not its processes: they have host names of their own.
    """
    return (host, machine) == (socket.gethostname(), machine_id())


def lives(pid: int) -> bool:
    """Whether there is a process of this number that has not ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] != "Z"
