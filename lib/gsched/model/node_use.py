"""Which nodes a past attempt of a job held, and when."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeUse:
    """One attempt's hold on nodes, from `start` until before `end` (epoch seconds).

    `end` None: it still runs. `nodes` are the names, () where only their number is known.
    """

    start: int
    end: int | None
    num_nodes: int
    nodes: tuple[str, ...] = ()
