"""A job's lease in words, from what the daemon tells of it (``lease`` in its answer)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

REQUEUED = "requeued"
_STATES = {
    "granted": "nobody takes its GPUs before that, and somebody else's turn may come then",
    "ending": "it is over, and the job is about to be told to save",
    "signalled": "it is over: the job has been told to save",
    "saved": "it is over, and the job has saved: it is about to be requeued",
}


def lease_words(lease: Mapping[str, Any]) -> str:
    """What the end of a running job's lease means; the end itself is ``end_time``."""
    state = lease.get("state")
    words = _STATES.get(str(state), f"it is {state}")
    return f"{words}, for {_whom(lease)}" if lease.get("beneficiary") else words


def gave_way_words(lease: Mapping[str, Any]) -> str:
    """For whom a job that waits again has given its GPUs up; since when is ``since``."""
    return f"to {_whom(lease)}: its lease was over, and it goes on from what it has saved"


def unsaved_words(lease: Mapping[str, Any]) -> str:
    """Why a job has kept its GPUs beyond the end of its lease; "" where it has not."""
    unsaved = lease.get("unsaved")
    return "" if not unsaved else f"its GPUs beyond its lease: it {unsaved['why']}"


def _whom(lease: Mapping[str, Any]) -> str:
    name = lease.get("beneficiary")
    return f"job {name}" if name else "another job"
