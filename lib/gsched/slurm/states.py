"""States of jobs and nodes in the texts and the JSON of Slurm's commands.

Names, letters and marks are those of squeue(1), sacct(1), sinfo(1) and scontrol(1).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from gsched.model.job import JobState

# Letters, name, and the base state as it matters here: does the job wait, hold its nodes, or give
# them back. Of several transient states the first in this order is the one that Slurm shows.
_TRANSIENT = (
    ("CG", "COMPLETING", JobState.COMPLETING),
    ("SO", "STAGE_OUT", JobState.COMPLETING),
    ("CF", "CONFIGURING", JobState.RUNNING),
    ("RS", "RESIZING", JobState.RUNNING),
    ("RQ", "REQUEUED", JobState.REQUEUED),
    ("RF", "REQUEUE_FED", JobState.PENDING),
    ("RH", "REQUEUE_HOLD", JobState.PENDING),
    ("SE", "SPECIAL_EXIT", JobState.PENDING),
    ("ST", "STOPPED", JobState.RUNNING),  # SIGSTOP: holds all of its resources
    ("RV", "REVOKED", JobState.REVOKED),
    ("RD", "RESV_DEL_HOLD", JobState.PENDING),
    ("SI", "SIGNALING", JobState.RUNNING),
)
_LASTING = (
    ("PD", "PENDING", JobState.PENDING),
    ("R", "RUNNING", JobState.RUNNING),
    ("S", "SUSPENDED", JobState.SUSPENDED),
    ("CD", "COMPLETED", JobState.COMPLETED),
    ("CA", "CANCELLED", JobState.CANCELLED),
    ("F", "FAILED", JobState.FAILED),
    ("TO", "TIMEOUT", JobState.TIMEOUT),
    ("NF", "NODE_FAIL", JobState.NODE_FAIL),
    ("PR", "PREEMPTED", JobState.PREEMPTED),
    ("BF", "BOOT_FAIL", JobState.BOOT_FAIL),
    ("DL", "DEADLINE", JobState.DEADLINE),
    ("OOM", "OUT_OF_MEMORY", JobState.OUT_OF_MEMORY),
)
_BY_NAME = {name: state for _, name, state in (*_TRANSIENT, *_LASTING)}
NAMES_BY_LETTERS: Mapping[str, str] = MappingProxyType(
    dict(sorted((letters, name) for letters, name, _ in (*_TRANSIENT, *_LASTING)))
)
"""The names of all job states by the letters of squeue's ``%t`` and sacct's ``-s``."""


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
        fitting = [known for known in _BY_NAME if known.startswith(name[:-1])]
        name = fitting[0] if len(fitting) == 1 else name
    return _known(name)


def _known(name: str) -> tuple[JobState, str]:
    state = _BY_NAME.get(name, JobState.UNKNOWN)
    is_itself = state.value == name or state is JobState.UNKNOWN
    return state, "" if is_itself else name.lower()


def parse_state_list(names: Iterable[str]) -> tuple[JobState, str]:
    """The state in a list of Slurm's JSON, as the text of squeue would show it.

    ``["RUNNING", "COMPLETING"]`` is COMPLETING, ``["PENDING", "REQUEUE_HOLD"]`` is PENDING with
    the flag requeue_hold. Names not known here do not hide the known ones; alone they are UNKNOWN.
    """
    given = {name.strip().upper() for name in names}
    for name in _BY_NAME:
        if name in given:
            return _known(name)
    return JobState.UNKNOWN, ""


# -- nodes ----------------------------------------------------------------------------------

_NODE_MARKS = {
    "*": "not_responding",
    "~": "powered_down",
    "#": "powering_up",
    "%": "powering_down",
    "!": "power_down",
    "$": "maint",
    "@": "reboot_requested",
    "^": "reboot_issued",
    "-": "planned",
}
_NODE_STATE = re.compile(
    r"(?P<word>[a-z][a-z0-9_]*)(?P<marks>[*~#%!$@^-]*)(?P<flags>(?:\+[a-z0-9_]+)*)(?P<more>\+?)",
    re.ASCII,
)
_NODE_FLAGS = {"maintenance": "maint"}  # scontrol's word; else its words are ours
# What sinfo writes in place of the base state: that state, or the word itself where it hides it.
_NODE_WORDS = {
    "alloc": ("allocated", ""),
    "mix": ("mixed", ""),
    "comp": ("completing", ""),
    "futr": ("future", ""),
    "unk": ("unknown", ""),
    "planned": ("idle", "planned"),
    "plnd": ("idle", "planned"),
    "reserved": ("idle", "reserved"),
    "resv": ("idle", "reserved"),
    "perfctrs": ("idle", "perfctrs"),
    "npc": ("idle", "perfctrs"),
    "maint": ("maint", "maint"),
    "drained": ("drained", "drain"),
    "drain": ("drained", "drain"),
    "draining": ("draining", "drain"),
    "drng": ("draining", "drain"),
    "fail": ("fail", "fail"),
    "failing": ("failing", "fail"),
    "failg": ("failing", "fail"),
    "inval": ("inval", "invalid_reg"),
    "reboot": ("reboot", "reboot_requested"),
    "boot": ("reboot", "reboot_requested"),
    "blocked": ("blocked", "blocked"),
    "block": ("blocked", "blocked"),
}


def parse_node_state(text: str) -> tuple[str, tuple[str, ...]]:
    """Base state and flags, in lower case, of ``IDLE+DRAIN`` (scontrol) or ``mix#`` (sinfo).

    A list of Slurm's JSON is parsed joined with ``+``. A word not known here is kept as it is;
    "unknown", with the text as its flag, stands for what is no state.
    """
    match = _NODE_STATE.fullmatch(text.strip().lower())
    if match is None:
        return "unknown", (text.lower(),) if text else ()
    state, flag = _NODE_WORDS.get(match["word"], (match["word"], ""))
    flags = [flag, *(_NODE_MARKS[mark] for mark in match["marks"])]
    flags += [_NODE_FLAGS.get(word, word) for word in match["flags"].split("+")]
    flags.append("completing" if match["more"] else "")
    return state, tuple(dict.fromkeys(filter(None, flags)))
