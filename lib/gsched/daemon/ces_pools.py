"""Pools: nodes that can stand in for each other, and names for them that people can read. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from gsched.model.cluster import NodeView

MAX_PARTITION_CHARS = 60
MAX_TYPE_CHARS = 40

_STRANGE = re.compile(r"[^A-Za-z0-9_.+-]", re.ASCII)

Likeness = tuple[tuple[tuple[str, int], ...], tuple[str, ...], int, int]
"""GPUs, partitions, CPUs, memory."""


def pools_of(nodes: Iterable[NodeView]) -> Mapping[str, str]:
    """The name of each node's pool, by node: ``a100x8@gpu``, ``cpu64@batch,debug``.

    Nodes of a pool are alike in GPUs, CPUs, memory and partitions. Where that is not enough to tell
    two pools apart CPUs and memory are named as well, and in the end a number.
    """
    kinds = {node.name: _likeness(node) for node in nodes}
    names = _names(set(kinds.values()))
    return {node: names[kind] for node, kind in kinds.items()}


def _likeness(node: NodeView) -> Likeness:
    return (
        tuple(sorted(node.gpus)),
        tuple(sorted(set(node.partitions))),
        node.num_cpus,
        node.mem_bytes,
    )


def _names(kinds: set[Likeness]) -> dict[Likeness, str]:
    """A name of each kind. The same kinds always get the same names."""
    named: dict[Likeness, str] = {}
    for _, alike in sorted(_grouped(kinds, _short).items()):
        if len(alike) == 1:
            named[alike[0]] = _short(alike[0])
            continue
        for name, same in sorted(_grouped(alike, _long).items()):
            for number, kind in enumerate(sorted(same), 1):
                named[kind] = name if len(same) == 1 else f"{name}#{number}"
    return named


def _grouped(
    kinds: Iterable[Likeness], name: Callable[[Likeness], str]
) -> dict[str, list[Likeness]]:
    groups: dict[str, list[Likeness]] = {}
    for kind in kinds:
        groups.setdefault(name(kind), []).append(kind)
    return groups


def _short(kind: Likeness) -> str:
    gpus, partitions, cpus, _ = kind
    parts = [f"{_plain(gpu_type) or 'gpu'}x{count}" for gpu_type, count in gpus if count]
    what = "+".join(parts)[:MAX_TYPE_CHARS] or f"cpu{cpus}"
    where = ",".join(map(_plain, partitions)) or "none"
    if len(where) > MAX_PARTITION_CHARS:
        where = f"{_plain(partitions[0])[:MAX_PARTITION_CHARS]},+{len(partitions) - 1}"
    return f"{what}@{where}"


def _long(kind: Likeness) -> str:
    _, _, cpus, mem_bytes = kind
    return f"{_short(kind)}/{cpus}c/{mem_bytes // 2**30}G"


def _plain(text: str) -> str:
    return _STRANGE.sub("_", text)
