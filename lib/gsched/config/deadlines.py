"""Settings of deadlines: who may have them promised, and who is told of one that is at risk."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gsched.errors import ConfigError

BOUNDS: dict[str, tuple[float, float]] = {
    "deadlines.max_per_user": (0, 1_000_000),
    "deadlines.max_gpu_hours_per_user": (0, 1e9),
    "deadlines.max_horizon_s": (0, 3660 * 86400),
    "deadlines.max_share": (0.01, 1),
    "deadlines.warn_probability": (0, 1),
}
"""Smallest and largest allowed value of each number, both included."""

PLACEHOLDERS = ("{to}", "{job}", "{level}")
"""What `mail_command` may have in its arguments."""

MAX_ARGUMENTS = 32
MAX_ARGUMENT = 1024

_NAMES = ("deadlines.users", "deadlines.accounts", "deadlines.qos")
_BRACED = re.compile(r"\{[^{}]*\}|[{}]")
ADDRESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._%+@-]{0,253}")


@dataclass(frozen=True, slots=True)
class DeadlineSettings:
    """Whose deadlines the policy chronus may promise, and who is told when one is at risk. See
    gsched-deadlines(7)."""

    users: tuple[str, ...] = ()
    """Users whose deadlines may be promised; empty = everybody's. Any other deadline is refused,
    and the job taken as best effort."""
    accounts: tuple[str, ...] = ()
    """The same of accounts."""
    qos: tuple[str, ...] = ()
    """The same of QOS."""
    max_per_user: int = 0
    """Promised deadlines that a user may have at a time. 0 = no bound."""
    max_gpu_hours_per_user: float = 0.0
    """GPU-hours that may be promised to a user at a time. 0 = no bound."""
    max_horizon_s: int = 0
    """Seconds that a deadline may lie ahead. 0 = no bound."""
    max_share: float = 1.0
    """Share of a pool's GPUs that promises may hold at any time; the rest is left to other jobs."""
    profiles: bool = False
    """true = a job that no job before it speaks for is judged by its profile runs (`gsched submit
    --gs-profile`), which are its user's own word. Else by its time limit."""
    reservations: bool = False
    """true = nodes that a promised job fills are reserved for it in Slurm while it is due and
    waits, so that jobs which gsched does not order cannot be started there. Such a reservation
    ends by itself within half an hour when the daemon does not lengthen it."""
    warn_probability: float = 0.8
    """A promised deadline that is less likely than this to be kept is at risk: its user and the
    administrator are warned."""
    mail_command: tuple[str, ...] = ()
    """Command that sends one warning: program with its path, and arguments, run without a shell.
    The text comes by standard input, its first line a summary. In the arguments {to} stands for
    the job's user or `mail_admin`, {job} for the job's id, {level} for at-risk, late, missed or
    on-target again: ["/usr/bin/mail", "-s", "job {job}: deadline {level}", "{to}"]. Empty = nobody
    gets mail; the daemon's log, `gsched why` and the metrics tell of it."""
    mail_admin: str = ""
    """User or address that gets a copy of each warning; empty = none."""


def check_deadlines(key: str, value: object) -> None:
    """Raise ConfigError for a value of ``[deadlines]`` that is not what its key asks for."""
    if key in _NAMES and isinstance(value, tuple):
        for name in value:
            if not name or not name.isprintable() or name != name.strip() or len(name) > 255:
                raise ConfigError(f"{name[:80]!r} is no name", "write the name as Slurm has it")
    if key == "deadlines.mail_admin" and value and not ADDRESS.fullmatch(str(value)):
        raise ConfigError(f"{str(value)[:80]!r} is no user and no address")
    if key == "deadlines.mail_command" and isinstance(value, tuple) and value:
        _check_command(value)


def _check_command(argv: tuple[str, ...]) -> None:
    if not argv[0].startswith("/"):
        raise ConfigError(
            f"{argv[0][:80]!r} is no absolute path", "name the program with its whole path"
        )
    if len(argv) > MAX_ARGUMENTS or any(len(part) > MAX_ARGUMENT for part in argv):
        raise ConfigError(f"at most {MAX_ARGUMENTS} parts of {MAX_ARGUMENT} characters are allowed")
    for part in argv:
        if "\0" in part:
            raise ConfigError("a part holds a NUL character")
        for found in _BRACED.findall(part):
            if found not in PLACEHOLDERS:
                known = ", ".join(PLACEHOLDERS)
                raise ConfigError(f"{part[:80]!r} has {found[:20]!r}", f"known: {known}")
    if any(name in argv[0] for name in PLACEHOLDERS):
        raise ConfigError(f"{argv[0][:80]!r}: the program is the same for everybody")
    if not any("{to}" in part for part in argv):
        raise ConfigError("{to} is in no argument", "it stands for whom the warning is for")
