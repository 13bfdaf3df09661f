"""What slurm.conf says of power saving: times, and the nodes that it leaves alone. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gsched.errors import DataError
from gsched.model.hostlist import expand
from gsched.slurm.records import SlurmConfig

DEFAULT_RESUME_TIMEOUT_S = 60
DEFAULT_SUSPEND_TIMEOUT_S = 30

_COUNTED = re.compile(r":\d+(?=,|$)")
"""``gn[01-09]:2`` keeps two of them awake."""


@dataclass(frozen=True, slots=True)
class PowerSaving:
    """Slurm's power saving. `suspend_time_s` None: it is off, no node can be powered down.

    Nodes in `excluded_nodes`, `excluded_partitions` or a state of `excluded_states` (lower case)
    are left alone, whole lists of which slurm.conf keeps only a number awake among them. `problem`
    says what of it is not understood, "" for nothing.
    """

    suspend_time_s: int | None
    suspend_timeout_s: int
    resume_timeout_s: int
    excluded_nodes: frozenset[str] = frozenset()
    excluded_partitions: frozenset[str] = frozenset()
    excluded_states: frozenset[str] = frozenset()
    problem: str = ""

    @classmethod
    def of(cls, config: SlurmConfig) -> PowerSaving:
        """What a configuration says."""
        problem, nodes = "", frozenset[str]()
        try:
            nodes = frozenset(expand(_COUNTED.sub("", config.get("SuspendExcNodes"))))
        except DataError as error:
            problem = f"SuspendExcNodes is not understood: {error.message}"
        return cls(
            suspend_time_s=_seconds(config.get("SuspendTime")),
            suspend_timeout_s=_seconds(config.get("SuspendTimeout")) or DEFAULT_SUSPEND_TIMEOUT_S,
            resume_timeout_s=_seconds(config.get("ResumeTimeout")) or DEFAULT_RESUME_TIMEOUT_S,
            excluded_nodes=nodes,
            excluded_partitions=_words(_COUNTED.sub("", config.get("SuspendExcParts"))),
            excluded_states=_words(config.get("SuspendExcStates").lower()),
            problem=problem,
        )


def _seconds(text: str) -> int | None:
    """``600 sec``; None for NONE, INFINITE and what says nothing."""
    number = text.partition(" ")[0]
    return int(number) if number.isdecimal() else None


def _words(text: str) -> frozenset[str]:
    return frozenset(word.strip() for word in text.split(",") if word.strip())
