"""What the launcher says: lines in the job's own output, each of which begins with `gsched: `."""

from __future__ import annotations

import os
from contextlib import suppress


def say(text: str) -> None:
    """One line on standard error, whole, also where other processes write there."""
    with suppress(OSError):  # a full disk or a closed output must not end a job
        os.write(2, f"gsched: {text}\n".encode("utf-8", "surrogateescape"))
