"""The daemon's public answer for this cluster, and what is to be said of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from gsched.daemon.status_file import read_status, silent_s

NO_DAEMON = "no predictions: no gsched daemon has answered for this cluster"


def status_of(path: Path, cluster: str) -> tuple[dict[str, Any] | None, str]:
    """The daemon's answer for this cluster, or None and why there is none."""
    status = read_status(path)
    if status is not None:
        return (status, "") if status.get("cluster") == cluster else (None, NO_DAEMON)
    try:
        with path.open("rb"):
            return None, f"no predictions: {path} is damaged, or of another version of gsched"
    except FileNotFoundError:
        return None, NO_DAEMON
    except OSError as error:
        return None, f"no predictions: {path} is not readable for you ({error.strerror})"


def looks_every_s(status: dict[str, Any] | None, at: int) -> float | None:
    """The pause of a daemon that looks at all jobs and tells of them; None for any other."""
    if status is None or status.get("private"):
        return None
    return None if silent_s(status, at) else float(status["interval_s"])


def _private_words(has_some: bool) -> str:
    """Where jobs are hidden; root, who sees them in squeue, is told how to see the rest."""
    if has_some:
        words = "predictions of your own jobs alone: the gsched daemon tells you of no others here"
    else:
        words = "no predictions: this cluster hides users' jobs from each other (PrivateData)"
    if os.geteuid() == 0:
        words += "; as their owner (sudo -u USER), with daemon.query_address set, you see theirs"
    return words


def note_about(status: dict[str, Any] | None, at: int) -> str:
    """What a reader of the queue must know of the daemon at the time `at`; "" when all is well."""
    if status is None:
        return NO_DAEMON
    if status.get("private"):
        return _private_words(bool(status.get("jobs")))
    if age_s := silent_s(status, at):
        return f"predictions are {age_s:.0f} s old: the gsched daemon does not run, or fails"
    if not status.get("acting"):
        return "the daemon observes: this order is not Slurm's own"
    return ""
