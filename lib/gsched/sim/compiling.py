"""What is told before the loops are compiled, which takes long and happens once."""

from __future__ import annotations

from typing import Any

from gsched.sim.core import static_loop, steps

COMPILING = "compiling the simulator's loops, once: up to a minute"
NOT_KEPT = (
    "compiling the simulator's loops takes up to a minute, in every process: neither their folder "
    "nor the user's cache is writable (NUMBA_CACHE_DIR may name one that is)"
)
TOLD = (COMPILING, NOT_KEPT)


def before_static() -> str:
    """What to tell before the static path runs, "" where its loop is compiled."""
    return before(static_loop._run_until)


def before_ordered() -> str:
    """The same before the ordered path."""
    return before(steps.run_some)


def before_rounds() -> str:
    """The same before rounds."""
    return before(steps.advance)


def before(compiled: Any) -> str:
    """What to tell before a compiled function runs: "" where this machine has kept it."""
    if compiled.signatures:
        return ""
    file = getattr(compiled._cache, "_cache_file", None)  # numba tells nobody what it has kept
    if file is None:
        return NOT_KEPT
    return "" if file._load_index() else COMPILING
