"""Moments as users write them on the command line."""

from __future__ import annotations

from gsched.errors import DataError, UsageError
from gsched.model.times import Looking, parse_moment


def parse_when(text: str, now: int) -> int:
    """Epoch seconds of ``2d`` (ago), ISO 8601, or Slurm's grammar (sacct(1), ``--starttime``).

    Raises UsageError.
    """
    try:
        return parse_moment(text, now, Looking.BACK)
    except DataError as e:
        raise UsageError(e.message, e.hint) from e
