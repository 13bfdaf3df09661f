"""What Slurm may preempt, and how: partitions or QOS, as its PreemptType says. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from gsched.errors import DataError
from gsched.model.units import parse_time_limit
from gsched.slurm.parse_config import parse_partition_numbers, parse_partition_values

QOS_FIELDS = "name,preempt,preemptmode,gracetime"
"""What `parse_preemptable_qos` reads: ``sacctmgr -n -P show qos format=…``."""


@dataclass(frozen=True, slots=True)
class Preemptable:
    """A partition or a QOS whose jobs another one's may push aside.

    `mode` is ``cancel``, ``requeue`` or ``suspend``; `grace_s` the seconds from the first signal on
    until they are ended so; `has_gpus` whether they may hold GPUs (of a QOS: always).
    """

    name: str
    mode: str
    grace_s: int
    has_gpus: bool


def parse_preemptable_partitions(text: str) -> tuple[Preemptable, ...]:
    """``scontrol -o show partition``: all but those that are exempt (PreemptMode=OFF)."""
    modes = parse_partition_values(text, "PreemptMode")
    graces = parse_partition_numbers(text, "GraceTime")
    tres = parse_partition_values(text, "TRES")
    return tuple(
        Preemptable(name, _mode(mode), graces.get(name, 0), "gres/gpu" in tres[name])
        for name, mode in modes.items()
        if _mode(mode) != "off"
    )


def parse_preemptable_qos(text: str, cluster_mode: str) -> tuple[Preemptable, ...]:
    """The QOS that another one names; `cluster_mode` is the cluster's PreemptMode.

    Raises DataError for a line that is none.
    """
    rows = _qos_rows(text)
    victims = {name for row in rows for name in row[1].split(",") if name}
    found = []
    for name, _, mode, grace in rows:
        of_cluster = mode.lower() in ("", "cluster")
        chosen = _mode(cluster_mode if of_cluster else mode)
        if name in victims and chosen != "off":
            found.append(Preemptable(name, chosen, parse_time_limit(grace) or 0, has_gpus=True))
    return tuple(found)


def parse_preempted_by(text: str) -> dict[str, frozenset[str]]:
    """By QOS the others whose jobs it may push aside. Raises DataError as above."""
    return {row[0]: frozenset(filter(None, row[1].split(","))) for row in _qos_rows(text)}


def _qos_rows(text: str) -> list[list[str]]:
    rows = [line.split("|") for line in text.splitlines() if line]
    if any(len(row) != 4 for row in rows):
        raise DataError("sacctmgr show qos prints other columns than it was asked for")
    return rows


def _mode(text: str) -> str:
    """Of ``SUSPEND,GANG`` and the like the word that says what becomes of a job."""
    words = [word for word in text.lower().split(",") if word not in ("gang", "within")]
    return words[0] if words else "off"
