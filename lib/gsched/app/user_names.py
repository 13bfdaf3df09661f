"""The names of this host's users, and their numbers."""

from __future__ import annotations

import pwd


def user_name(uid: int) -> str:
    """The name of a user, the number itself for one without."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def user_number(name: str) -> int | None:
    """The uid of a user, by name or, as Slurm shows one that it cannot name, by number."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return int(name) if name.isdecimal() else None
