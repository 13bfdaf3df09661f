"""The signals that the launcher brings on, their names, and what they do where nobody catches them.

See signal(7).
"""

from __future__ import annotations

import signal

FORWARDED = frozenset(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD})
"""All that a process can be sent and can catch; SIGCHLD tells of the launcher's own children."""

NOTICES = frozenset({signal.SIGUSR1, signal.SIGUSR2})
"""One of these that nobody takes is let go; another does to the script what it does by default."""

IGNORED_BY_DEFAULT = frozenset({signal.SIGCONT, signal.SIGURG, signal.SIGWINCH})
"""Slurm sends SIGCONT before each SIGTERM."""

STOPPING = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})


def name_of(number: int) -> str:
    """Its name, as scancel knows it and with SIG before: SIGUSR1, SIGRTMIN+3."""
    if signal.SIGRTMIN < number < signal.SIGRTMAX:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
    return signal.Signals(number).name
