"""Job states of squeue(1), sacct(1) and jobcomp → base state and flags."""

from __future__ import annotations

from functools import lru_cache

from gsched.model.job import JobState

_BASE = {state.value: state for state in JobState if state is not JobState.UNKNOWN}

# What Slurm prints in place of the base state while something is going on with the job, and the
# base state as it matters here: does the job wait, hold its nodes, or give them back.
_TRANSIENT = {
    "CONFIGURING": JobState.RUNNING,
    "POWER_UP_NODE": JobState.RUNNING,
    "RESIZING": JobState.RUNNING,
    "SIGNALING": JobState.RUNNING,
    "STOPPED": JobState.RUNNING,  # SIGSTOP: holds all of its resources
    "STAGE_OUT": JobState.COMPLETING,
    "REQUEUE_FED": JobState.PENDING,
    "REQUEUE_HOLD": JobState.PENDING,
    "RESV_DEL_HOLD": JobState.PENDING,
    "SPECIAL_EXIT": JobState.PENDING,
}
_ALL = _BASE | _TRANSIENT


@lru_cache(maxsize=1024)
def parse_state(text: str) -> tuple[JobState, str]:
    """Base state and, in lower case, the flag that Slurm showed in its place ("" for none).

    ``CANCELLED by 1000`` is CANCELLED; a name cut short with ``+`` is taken when only one state
    begins so. A state not known here is UNKNOWN, never a guess: callers keep its text.
    """
    name = text.strip().upper()
    if name.startswith("CANCELLED BY "):
        name = "CANCELLED"
    if name.endswith("+"):
        fitting = [known for known in _ALL if known.startswith(name[:-1]) and name != "+"]
        name = fitting[0] if len(fitting) == 1 else name
    if name in _TRANSIENT:
        return _TRANSIENT[name], name.lower()
    return _BASE.get(name, JobState.UNKNOWN), ""
