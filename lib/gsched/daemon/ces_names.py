"""Names of nodes and partitions in ``[ces]`` that Slurm does not know. Pure.

A name that is misspelt in ``exclude_nodes`` would have the node that was meant put to sleep: while
any is unknown, nothing is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gsched.config.node_settings import CesTable
from gsched.model.hostlist import expand

_NAMED = 3
"""So many of them are told."""


def unknown_names(table: CesTable, nodes: Collection[str], partitions: Collection[str]) -> str:
    """What is wrong with the names in `table`, "" for nothing; `nodes`, `partitions` are all."""
    named = (name for host_list in table.exclude_nodes for name in expand(host_list))
    found = (
        _told("exclude_nodes", "node", named, nodes),
        _told("partitions", "partition", table.partitions, partitions),
        _told("least_idle", "partition", table.least_idle, partitions),
    )
    return "; ".join(filter(None, found))


def _told(key: str, kind: str, names: Iterable[str], known: Collection[str]) -> str:
    unknown = [name for name in dict.fromkeys(names) if name not in known]
    if not unknown:
        return ""
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    return f"ces.{key}: Slurm knows no {kind} {', '.join(unknown[:_NAMED])}{more}"
