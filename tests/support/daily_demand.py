"""A history of nodes that people use by day: in numbers, and in a database."""

from __future__ import annotations

import random
from pathlib import Path

from gsched.model.job import JobState
from gsched.model.node_use import NodeUse
from gsched_sql import History
from support.history import attempt, batch

DAY = 86400
NODES = tuple(f"gn{i}" for i in range(1, 9))


def daily(days: float, until: int) -> list[NodeUse]:
    """Each node runs a job a day; people come between midnight and eight, and all go before 23.

    When they come differs from day to day, so that yesterday tells little of today.
    """
    rng, begin, uses = random.Random(7), until - round(days * DAY), []
    for day in range(int(days) + 1):
        come = rng.randrange(8 * 3600)
        for node in NODES:
            start = begin + day * DAY + come + rng.randrange(3 * 3600)
            end = start + rng.randrange(6 * 3600, 12 * 3600)
            if start < until:
                uses.append(NodeUse(start, end if end < until else None, 1, (node,)))
    return uses


def keep_daily(url: str, cluster: str, days: float, until: int) -> None:
    """The same in the history at `url`; nothing runs at its end for whole days."""
    rows = [
        attempt(
            number,
            use.start - 10,
            cluster=cluster,
            state=JobState.COMPLETED,
            start_time=use.start,
            end_time=use.end,
            node_list=use.nodes[0],
            num_nodes=1,
        )
        for number, use in enumerate(daily(days, until), 1)
        if use.end is not None
    ]
    with History.open(url) as history:
        history.ingest(batch(*rows), source_key=None)


def daily_history(folder: Path, cluster: str, days: float, until: int) -> None:
    """A new history of that kind, ``history.db`` of the folder."""
    url = f"sqlite:///{folder}/history.db"
    History.create(url)
    keep_daily(url, cluster, days, until)
