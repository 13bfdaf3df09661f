"""One look at Slurm's nodes before power is cut: short, and no answer is an answer too."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gsched.errors import GschedError
from gsched.power.guard import Seen
from gsched.power.state import bounded_error
from gsched.slurm.parse_config import parse_nodes
from gsched.slurm.run import run

log = logging.getLogger("gsched.power")

LOOK_S = 5.0


def look() -> Mapping[str, Seen] | None:
    """Every node as Slurm shows it now; None, which is told, where it does not within `LOOK_S`."""
    try:
        text = run(("scontrol", "-a", "-o", "show", "node"), timeout_s=LOOK_S).check().stdout
        nodes = parse_nodes(text)
    except GschedError as error:
        log.warning("Slurm does not tell its nodes: %s", bounded_error(error.message))
        return None
    return {node.name: Seen(node.state, frozenset(node.flags)) for node in nodes}
