"""Telling the service manager how the daemon fares: the protocol of sd_notify(3)."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping, MutableMapping

from gsched.daemon.log import one_line

log = logging.getLogger("gsched.daemon")

_SEND_TIMEOUT_S = 1.0
"""A manager that does not take its messages holds up one of them for so long, and no other."""
_MAX_STATUS = 400


class Notifier:
    """The manager's socket; without one nothing is told.

    `watchdog_s` is the time after which the manager kills a daemon that is silent, 0 for never.
    """

    def __init__(self, address: str = "", watchdog_s: float = 0.0) -> None:
        self.watchdog_s = watchdog_s
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._status = ""
        self._has_failed = False

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] = os.environ) -> Notifier:
        """As the manager has told in the environment, from which it is removed: Slurm's commands
        must not speak for the daemon.
        """
        address = environ.pop("NOTIFY_SOCKET", "")
        watchdog_s = _watchdog_s(environ)
        for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
            environ.pop(name, None)
        return cls(address if address[:1] in ("/", "@") else "", watchdog_s)

    def ready(self) -> None:
        """The start, or a reload, is done."""
        self._tell("READY=1")

    def status(self, text: str) -> None:
        """One line for `systemctl status`; told again only when it is another one."""
        line = one_line(text)[:_MAX_STATUS]
        if line != self._status and self._tell(f"STATUS={line}"):
            self._status = line

    def alive(self) -> None:
        """The rounds go on. Only their own loop may say so, so that a stuck one is killed."""
        if self.watchdog_s:
            self._tell("WATCHDOG=1")

    def reloading(self) -> None:
        """The configuration is being read again; `ready` ends that."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The daemon is about to end."""
        self._tell("STOPPING=1")

    def _tell(self, message: str) -> bool:
        if not self._address:
            return False
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as s:
                s.settimeout(0.0 if self._has_failed else _SEND_TIMEOUT_S)
                s.sendto(message.encode(), self._address)
        except OSError as error:
            if not self._has_failed:
                log.warning("the service manager cannot be told: %s", error.strerror or error)
            self._has_failed = True
            return False
        self._has_failed = False
        return True


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """Seconds of WATCHDOG_USEC where it is meant for this process, see sd_watchdog_enabled(3)."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return 0.0
    usec = environ.get("WATCHDOG_USEC", "")
    return int(usec) / 1e6 if usec.isascii() and usec.isdecimal() else 0.0
