"""Which jobs may be pruned: none that the predictor still learns from."""

from __future__ import annotations

import re

from gsched.app.when import parse_when
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.model.times import DAY_S

_DAYS_A_YEAR = 365
_AGE = re.compile(r"[0-9]{1,6}[hdwy]")


def prune_before(
    settings: Settings,
    older_than: str | None,
    before: str | None,
    now: int,
    *,
    is_forced: bool = False,
) -> int:
    """The moment (epoch) before which jobs must have ended: an age, or a time as users write it.

    Raises UsageError unless one of the two is told, for an age that is none, and for a moment
    within the time from which the predictor learns, or to come, unless `is_forced`.
    """
    if (older_than is None) == (before is None):
        raise UsageError("say how old: either --older-than or --before", "--older-than 730d")
    if older_than is not None and not _AGE.fullmatch(older_than.lower()):
        raise UsageError(f"not an age: {older_than}", "write 730d, 104w or 2y")
    if older_than is not None and older_than.lower().endswith("y"):
        older_than = f"{int(older_than[:-1]) * _DAYS_A_YEAR}d"
    moment = parse_when(older_than or before or "", now)
    needed = now - settings.predict.history_days * DAY_S
    if moment > needed and not is_forced:
        raise UsageError(
            f"the predictor learns from the last {settings.predict.history_days} days: "
            "jobs of that time are still needed",
            "choose an earlier time, lower history_days in [predict], or --force",
        )
    if moment > now:
        raise UsageError("that time is still to come", "nothing could be taken in until then")
    return moment
