"""What gsched does in Slurm, and the least privilege that Slurm asks for each of it.

The levels are Slurm's own (sacctmgr(1), AdminLevel); they exist only with slurmdbd. A test on a
real Slurm shows every line true both ways; gsched-privileges(7) is the same table for people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Privilege = Literal["root", "slurm-user", "admin", "operator", "user"]
Doer = Literal["daemon", "helper"]
ActName = Literal[
    "see",
    "site-factor",
    "requeue",
    "signal",
    "reserve",
    "drain",
    "resume",
    "power",
    "admin-comment",
]

_ORDER: tuple[Privilege, ...] = ("user", "operator", "admin", "slurm-user", "root")
ADMIN_LEVELS: dict[str, Privilege] = {"Administrator": "admin", "Operator": "operator"}
"""How slurmdbd calls the levels that it gives."""


@dataclass(frozen=True, slots=True)
class Act:
    """Something that gsched does with what is not its own.

    `least` is the lowest level to which Slurm allows it; `doer` the part of gsched that does it.
    """

    name: ActName
    words: str
    least: Privilege
    doer: Doer


ACTS: tuple[Act, ...] = (
    Act("see", "see the jobs and accounts that PrivateData hides", "operator", "daemon"),
    Act("site-factor", "set a job's SiteFactor", "operator", "daemon"),
    Act("signal", "send a job a signal", "operator", "daemon"),
    Act("requeue", "requeue a job", "operator", "daemon"),
    Act("reserve", "reserve nodes for a job, and end that again", "operator", "daemon"),
    Act("drain", "drain a node", "admin", "helper"),
    Act("resume", "resume a node", "admin", "helper"),
    Act("power", "power a node down or up", "admin", "helper"),
    Act("admin-comment", "set a job's AdminComment", "admin", "helper"),
)
_LEAST = {act.name: act.least for act in ACTS}


def suffices(level: Privilege, act: ActName) -> bool:
    """Whether somebody of this level may do it to what is not their own."""
    return _ORDER.index(level) >= _ORDER.index(_LEAST[act])


def denied_to(level: Privilege, doer: Doer) -> tuple[Act, ...]:
    """What Slurm refuses to `doer` when it has no more than this level."""
    return tuple(act for act in ACTS if act.doer == doer and not suffices(level, act.name))
