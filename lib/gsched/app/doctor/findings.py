"""What doctor says of one thing that it has looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from gsched.errors import GschedError

Level = Literal["ok", "note", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    `level`: ``ok``; ``note``, to live with; ``warn``, something works badly or not at all;
    ``fail``, gsched cannot act so. `code` names what was found and stays the same from release to
    release; `what` is the thing that was looked at, `found` what is so, `mend` what to do.
    """

    level: Level
    code: str
    what: str
    found: str
    mend: str = ""


def guarded(code: str, what: str, check: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """What `check` finds; whatever it runs into is a finding as well, of this code."""
    try:
        return list(check())
    except GschedError as error:
        return [Finding("warn", code, what, error.message, error.hint)]
    except OSError as error:
        found = f"cannot look: {error}"
        return [Finding("warn", code, what, found, "run as the daemon's user, or as root")]
