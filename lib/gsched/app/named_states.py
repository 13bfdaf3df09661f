"""The job states that somebody names on the command line, in Slurm's long or short spelling."""

from __future__ import annotations

from collections.abc import Iterable

from gsched.errors import UsageError
from gsched.slurm.states import NAMES_BY_LETTERS

STATES = NAMES_BY_LETTERS
"""Short name → long name, as in squeue(1), JOB STATE CODES."""

_LONG = frozenset(STATES.values())


def named_states(texts: Iterable[str]) -> frozenset[str]:
    """Long names of the states named in `texts`, commas between, in capitals or not.

    Raises UsageError for a word that is no state.
    """
    names = [word.strip().upper() for text in texts for word in text.split(",") if word.strip()]
    return frozenset(_long_name(name) for name in names)


def _long_name(name: str) -> str:
    found = STATES.get(name, name)
    if found not in _LONG:
        known = ", ".join(f"{long} ({short})" for short, long in STATES.items())
        raise UsageError(f"no such state: {name!r}", f"states: {known}")
    return found
