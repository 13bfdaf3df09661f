"""The nodes of a simulated cluster, as a command line, a file or a live Slurm tells them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gsched.app.wiring import slurm_client
from gsched.config.settings import Settings
from gsched.errors import DataError, UnavailableError, UsageError
from gsched.files import read_bounded
from gsched.sim.cluster import SimCluster

MAX_NODES = 1_000_000
MAX_GPUS_A_NODE = 1024
SHARED = "all"
"""The name of the one pool that everybody shares."""

_MAX_BYTES = 1 << 24
_NEEDED = ("pool", "nodes", "gpus")
_COLUMNS = (*_NEEDED, "type", "speed")
_GROUP = re.compile(
    r"(?P<nodes>\d{1,7})x(?P<gpus>\d{1,4})(?::(?P<type>[^@,:]{1,64})(?:@(?P<speed>[\d.]{1,12}))?)?",
    re.ASCII,
)
_HINT = "write NODESxGPUS[:TYPE[@SPEED]], several with commas: 10x8 or 8x8:a100,4x4:v100@0.5"


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Equal nodes of one pool; on their GPUs a job runs `speed` times as fast as on the reference.

    `names` are the nodes' own, empty where nobody tells them.
    """

    pool: str
    nodes: int
    gpus: int
    gpu_type: str = ""
    speed: float = 1.0
    names: tuple[str, ...] = ()


def parse_nodes(text: str) -> list[NodeGroup]:
    """The groups of ``10x8`` or ``8x8:a100,4x4:v100@0.5``, in one pool. Raises UsageError."""
    groups = []
    for part in text.split(","):
        match = _GROUP.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"--nodes: not a group of nodes: {part[:60]!r}", _HINT)
        speed = match["speed"] or "1"
        cells = {"nodes": match["nodes"], "gpus": match["gpus"], "speed": speed}
        cells["type"] = match["type"] or ""
        try:
            groups.append(_group(SHARED, cells))
        except ValueError as error:
            raise UsageError(f"--nodes: {part[:60]}: {error}", _HINT) from error
    return groups


def read_pools(path: Path) -> list[NodeGroup]:
    """The groups of a CSV file with the columns pool, nodes, gpus[, type, speed].

    Names are texts, whatever they look like: ``6214e9`` is a pool. Raises DataError naming the
    line, UnavailableError for a file that cannot be read.
    """
    try:
        text = read_bounded(path, _MAX_BYTES).decode("utf-8-sig")
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        names = [name.strip() for name in rows.fieldnames or ()]
        rows.fieldnames = names
        missing, unknown = set(_NEEDED) - set(names), set(names) - set(_COLUMNS)
        if missing or unknown or len(set(names)) < len(names):
            raise DataError(
                f"{path}: the columns are {', '.join(names) or 'none'}",
                f"they are {', '.join(_NEEDED)} and perhaps type and speed",
            )
        groups = []
        for row in rows:
            try:
                groups.append(_group((row["pool"] or "").strip(), row))
            except ValueError as error:
                raise DataError(f"{path}, line {rows.line_num}: {error}") from error
    except OSError as error:
        raise UnavailableError(f"cannot read {path}: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path}: {error}") from error
    if not groups:
        raise DataError(f"{path} names no pool")
    return groups


def _group(pool: str, cells: Mapping[str, str | None]) -> NodeGroup:
    """One group. Raises ValueError for what is none."""
    if not pool:
        raise ValueError("the pool has no name")
    return NodeGroup(
        pool,
        _count(cells, "nodes", MAX_NODES),
        _count(cells, "gpus", MAX_GPUS_A_NODE),
        (cells.get("type") or "").strip(),
        _speed(cells.get("speed")),
    )


def _count(cells: Mapping[str, str | None], name: str, most: int) -> int:
    text = (cells.get(name) or "").strip()
    if not (text.isascii() and text.isdecimal() and len(text) < 9 and 1 <= int(text) <= most):
        raise ValueError(f"{name}: {text[:40]!r} is no number from 1 to {most:,}")
    return int(text)


def _speed(text: str | None) -> float:
    try:
        speed = float(text or 1)
    except ValueError:
        speed = float("nan")
    if not 0.001 <= speed <= 1000:
        raise ValueError(f"speed: {str(text)[:40]!r} is no number from 0.001 to 1000")
    return speed


def live_groups(settings: Settings) -> tuple[list[NodeGroup], dict[str, str]]:
    """The GPU nodes of this host's Slurm, and the pool of each partition.

    Partitions that share a node are one pool. All nodes count, whatever state they are in. Raises
    UnavailableError where no partition has GPUs, and what the client raises.
    """
    client = slurm_client(settings)
    nodes = {n.name: n for n in client.nodes() if n.num_gpus}
    held = {
        p.name: {name for name in p.nodes if name in nodes} for p in client.partitions() if p.nodes
    }
    pool_of = joined_pools({name: part for name, part in held.items() if part})
    groups = []
    for pool in dict.fromkeys(pool_of.values()):
        members = {n for part, name in pool_of.items() if name == pool for n in held[part]}
        by_kind: dict[tuple[int, str], list[str]] = {}
        for name in sorted(members):
            kinds = [kind for kind, _ in nodes[name].gpus if kind]
            of_type = kinds[0] if len(kinds) == 1 else ""
            by_kind.setdefault((nodes[name].num_gpus, of_type), []).append(name)
        groups += [
            NodeGroup(pool, len(names), gpus, kind, names=tuple(names))
            for (gpus, kind), names in by_kind.items()
        ]
    if not groups:
        raise UnavailableError("no partition of this Slurm has nodes with GPUs")
    return groups, pool_of


def joined_pools(held: Mapping[str, Iterable[object]]) -> dict[str, str]:
    """The pool of each partition, given its nodes: those that share a node are one pool.

    Its name has the names of all of them, in the order of the alphabet.
    """
    root = {name: name for name in held}

    def of(name: str) -> str:
        while root[name] != name:
            root[name] = name = root[root[name]]
        return name

    first: dict[object, str] = {}
    for name, nodes in sorted(held.items()):
        for node in nodes:
            root[of(name)] = of(first.setdefault(node, name))
    members: dict[str, list[str]] = {}
    for name in sorted(held):
        members.setdefault(of(name), []).append(name)
    return {name: "+".join(group) for group in members.values() for name in group}


def named_pools(pools: Iterable[str], told: Iterable[str]) -> dict[str, str]:
    """The pool of each name, of pools that may be named as by `joined_pools`.

    ``a+b`` is the pool of ``a`` and ``b``, unless these are pools of their own, or one of `told`
    is called ``a+b``. Raises DataError where a name is in two pools.
    """
    known, literal = sorted(set(pools)), set(told)
    pool_of = {pool: pool for pool in known}
    joined: dict[str, str] = {}
    for pool in known:
        for part in () if pool in literal else filter(None, pool.split("+")):
            if joined.setdefault(part, pool) != pool and part not in pool_of:
                raise DataError(f"{part} is in two pools: {joined[part]} and {pool}")
    return joined | pool_of


def cluster_of(groups: Sequence[NodeGroup], nodes_a_switch: int = 0) -> SimCluster:
    """The cluster of these groups, pools in the order of their names.

    So many nodes of a pool, in their order, have a switch in common (0: all of it). Raises
    DataError where a type has two speeds, or there are too many nodes.
    """
    speeds: dict[str, float] = {}
    for group in groups:
        if speeds.setdefault(group.gpu_type, group.speed) != group.speed:
            raise DataError(f"GPU type {group.gpu_type!r} has two speeds")
    if sum(group.nodes for group in groups) > MAX_NODES:
        raise DataError(f"more than {MAX_NODES:,} nodes")
    ordered = sorted(groups, key=lambda group: group.pool)
    counts = np.array([group.nodes for group in ordered])
    pools, pool_of_group = np.unique([group.pool for group in ordered], return_inverse=True)
    pool = np.repeat(pool_of_group, counts)
    first = np.searchsorted(pool, np.arange(len(pools) + 1))
    within = np.arange(len(pool)) - first[pool]
    part = within // nodes_a_switch if nodes_a_switch else np.zeros_like(within)
    switches = np.unique(np.stack((pool, part)), axis=1, return_inverse=True)[1]
    types = sorted(speeds)
    numbers = within.tolist()
    own = [name for g in ordered for name in g.names or [""] * g.nodes]
    return SimCluster(
        pools=tuple(pools.tolist()),
        first_node=first.astype(np.int64),
        node_names=[n or f"{pools[p]}-{i}" for n, p, i in zip(own, pool, numbers, strict=True)],
        node_gpus=np.repeat([g.gpus for g in ordered], counts).astype(np.int32),
        node_switch=switches.reshape(-1).astype(np.int32),
        node_type=np.repeat([types.index(g.gpu_type) for g in ordered], counts).astype(np.int32),
        gpu_types=tuple(types),
        type_speed=np.array([speeds[kind] for kind in types]),
    )
