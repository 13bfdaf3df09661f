"""Whether a waiting job can ever start as it asks: said only where it is certain.

What cannot be seen makes no job impossible: hidden partitions and nodes (FUTURE ones too) silence
the answer, and nodes that are down, drained or powered off count as if they were up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gsched.errors import DataError
from gsched.explain.features import Constraint, parse_constraint
from gsched.explain.words import count, size
from gsched.model.cluster import NodeView, PartitionView, ReservationView
from gsched.model.hostlist import expand
from gsched.model.job import UNLIMITED_S, finite_limit_s
from gsched.slurm.parse_limits import NodeDemand
from gsched.slurm.records import QueueRow


@dataclass(frozen=True, slots=True)
class Block:
    """One thing that holds a job back: `code` and `params` for programs, `words` and what to do."""

    code: str
    words: str
    advice: str = ""
    params: Mapping[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "code": self.code,
            "words": self.words,
            "advice": self.advice,
            "params": dict(self.params),
        }


@dataclass(frozen=True, slots=True)
class Site:
    """What of a cluster decides whether a job fits, as far as the caller may see it.

    `licences` None: not known. `memory_counts`: Slurm gives out memory (CR_…_Memory).
    `ignores_partition_limits`: whether the job's QOS may go beyond its partition's limits; asked
    only when that matters. `accounts_above`: the job's account and all above it up to the root,
    None where they are not known or Slurm does not insist on them; asked only when that matters.
    """

    nodes: Sequence[NodeView]
    partitions: Sequence[PartitionView]
    reservations: Sequence[ReservationView] | None = None
    licences: Mapping[str, int] | None = None
    memory_counts: bool = False
    ignores_partition_limits: Callable[[], bool] = lambda: False
    accounts_above: Callable[[], frozenset[str] | None] = lambda: None


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job asks for: its row, what each node must give, and the nodes it names."""

    row: QueueRow
    demand: NodeDemand | None = None
    required_nodes: str = ""
    excluded_nodes: str = ""


def never_starts(ask: Ask, site: Site) -> Block | None:
    """Why the job can never start as it asks; None when it can, as far as can be seen."""
    return _no_licence(ask.row, site) or _no_reservation(ask.row, site) or _no_partition(ask, site)


def _no_licence(row: QueueRow, site: Site) -> Block | None:
    if site.licences is None or not row.licences or set(row.licences) & set("|;@ "):
        return None  # alternatives, or another system's licences
    for item in row.licences.split(","):
        name, _, number = item.partition(":")
        wanted = int(number) if number.isdecimal() else 1
        total = site.licences.get(name)
        if total is not None and wanted > total:
            return Block(
                "licences",
                f"it asks for {count(wanted, 'licence')} {name}; the cluster has {total}",
                "ask for fewer (-L), or cancel it",
                {"licence": name, "asked": wanted, "total": total},
            )
    return None


def _no_reservation(row: QueueRow, site: Site) -> Block | None:
    if not row.reservation or site.reservations is None:
        return None
    named = row.reservation.split(",")
    known = {reservation.name: reservation for reservation in site.reservations}
    if not any(name in known for name in named):
        return Block(
            "reservation-gone",
            f"its reservation {row.reservation} does not exist (any more)",
            f"take it out: scontrol update jobid={row.slurm_id} reservationname=",
            {"reservation": row.reservation},
        )
    return None


def _no_partition(ask: Ask, site: Site) -> Block | None:
    """A job starts in one of its partitions, whole: it is lost only when none can take it."""
    row = ask.row
    mine = [p for p in site.partitions if p.name in row.partitions]
    if not mine or len(mine) != len(set(row.partitions)):
        return None
    misfits = [_misfit(ask, partition, mine, site) for partition in mine]
    return misfits[0] if all(misfits) else None


def _misfit(
    ask: Ask, partition: PartitionView, mine: Sequence[PartitionView], site: Site
) -> Block | None:
    """Why a partition can never take a job; None when it can or part of it is not shown.

    `mine` are all the partitions of the job.
    """
    foreign = _foreign_account(ask.row, partition, site)
    if foreign is not None:
        return foreign
    limited = _beyond_limits(ask, partition, mine)
    if limited is not None:
        # that the scheduler looked at the job and gave another reason speaks against it
        confirmed = ask.row.reason in {"PartitionTimeLimit", "PartitionNodeLimit"}
        if confirmed or not site.ignores_partition_limits():
            return limited
    nodes = [n for n in site.nodes if n.name in set(partition.nodes)]
    if not nodes or len(nodes) != len(partition.nodes):
        return None
    narrowed = _narrowed(ask, partition, nodes)
    return narrowed if isinstance(narrowed, Block) else _lacking(ask, partition, narrowed, site)


def _foreign_account(row: QueueRow, partition: PartitionView, site: Site) -> Block | None:
    """That a partition does not take the job's account: Slurm 24.11 gives no reason of its own.

    slurm.conf(5) of 24.11: AllowAccounts means the accounts below those named, too; that of 22.05
    does not, but there the job's reason tells.
    """
    if not row.tenant or not (partition.allow_accounts or partition.deny_accounts):
        return None
    above = site.accounts_above()
    if above is None:
        return None
    if partition.allow_accounts:  # DenyAccounts does not count then
        refused = above.isdisjoint(partition.allow_accounts)
        rule = f"allows {', '.join(partition.allow_accounts)}"
    else:
        refused = row.tenant in partition.deny_accounts
        rule = f"denies {', '.join(partition.deny_accounts)}"
    if not refused:
        return None
    return Block(
        "partition-account",
        f"{partition.name} takes no jobs of account {row.tenant} (it {rule})",
        "choose another partition, or another account (-A)",
        {"partition": partition.name, "account": row.tenant},
    )


def _beyond_limits(
    ask: Ask, partition: PartitionView, others: Sequence[PartitionView]
) -> Block | None:
    row, name, most_s = ask.row, partition.name, partition.max_time_s
    limit_s = row.time_limit_s
    # of a job without --time, Slurm shows what another of its partitions would give it
    is_shown = any(
        limit_s in {p.max_time_s or UNLIMITED_S, p.default_time_s}
        for p in others
        if p is not partition
    )
    if ask.demand is not None and ask.demand.time_min_s is not None:
        limit_s = ask.demand.time_min_s
    if most_s is not None and limit_s is not None and limit_s > most_s and not is_shown:
        return Block(
            "partition-time-limit",
            f"its time limit exceeds that of {name}",
            "shorten --time, or cancel it",
            {"partition": name, "asked_s": finite_limit_s(limit_s), "limit_s": most_s},
        )
    if partition.max_nodes is not None and row.min_nodes > partition.max_nodes:
        return Block(
            "partition-node-limit",
            f"it asks for {count(row.min_nodes, 'node')}; {name} allows a job "
            f"{partition.max_nodes}",
            "ask for fewer (--nodes), or cancel it",
            {"partition": name, "asked": row.min_nodes, "limit": partition.max_nodes},
        )
    return None


def _narrowed(ask: Ask, partition: PartitionView, nodes: list[NodeView]) -> list[NodeView] | Block:
    """The nodes that the job leaves itself, or what is wrong with its choice."""
    required, excluded = _names(ask.required_nodes), _names(ask.excluded_nodes)
    if required is None or excluded is None:
        return nodes
    foreign = sorted(required - {n.name for n in nodes})
    if foreign:
        return Block(
            "node-list",
            f"it asks for {foreign[0]}, which is not in {partition.name}",
            "change --nodelist or --partition, or cancel it",
            {"partition": partition.name, "nodes": foreign},
        )
    left = [n for n in nodes if n.name not in excluded]
    if len(left) < ask.row.min_nodes and len(nodes) >= ask.row.min_nodes:
        return Block(
            "excluded-nodes",
            f"it asks for {count(ask.row.min_nodes, 'node')} but excludes all but {len(left)} of "
            f"the {len(nodes)} of {partition.name}",
            "exclude fewer (--exclude), or cancel it",
            {"partition": partition.name, "asked": ask.row.min_nodes, "left": len(left)},
        )
    constraint = parse_constraint(ask.row.features) if ask.row.features else None
    return left if constraint is None else _with_features(ask.row, partition, left, constraint)


def _names(host_list: str) -> set[str] | None:
    try:
        return set(expand(host_list))
    except DataError:
        return None


def _with_features(
    row: QueueRow, partition: PartitionView, nodes: list[NodeView], constraint: Constraint
) -> list[NodeView] | Block:
    params = {"partition": partition.name, "features": row.features}
    advice = "change --constraint, or cancel it"
    features = {n.name: {*n.features, *n.available_features} for n in nodes}
    fitting = [n for n in nodes if constraint.takes(features[n.name])]
    if not fitting:
        return Block(
            "features", f"no node of {partition.name} has the features {row.features}",
            advice, {**params, "nodes": 0},
        )  # fmt: skip
    if len(fitting) < row.min_nodes:
        return Block(
            "features",
            f"it asks for {count(row.min_nodes, 'node')} with the features {row.features}; "
            f"{partition.name} has {len(fitting)}",
            advice,
            {**params, "nodes": len(fitting)},
        )
    for wanted in constraint.counts:
        having = sum(1 for n in nodes if wanted.name in features[n.name])
        if having < wanted.count:
            return Block(
                "features",
                f"it asks for {count(wanted.count, 'node')} with the feature {wanted.name}; "
                f"{partition.name} has {having}",
                advice,
                {**params, "nodes": having},
            )
    return fitting


def _lacking(ask: Ask, partition: PartitionView, nodes: list[NodeView], site: Site) -> Block | None:
    """What the nodes that are left cannot give, one by one or together."""
    row, name = ask.row, partition.name
    if row.min_nodes > len(nodes):
        return Block(
            "nodes",
            f"it asks for {count(row.min_nodes, 'node')}; {name} has {len(nodes)}",
            "ask for fewer (--nodes), or cancel it",
            {"partition": name, "asked": row.min_nodes, "total": len(nodes)},
        )
    for misfit in _one_node(ask, nodes, site):
        kind, unit, wanted, given, option = misfit
        fitting = sum(1 for amount in given if amount >= wanted)
        if fitting < row.min_nodes:
            return _node_block(kind, unit, wanted, given, option, row, name)
    most = _most_nodes(row, partition, len(nodes), site)
    for kind, unit, wanted, given, option in _together(ask, nodes, site):
        available = sum(sorted(given, reverse=True)[:most])
        if wanted > available:
            return Block(
                kind,
                f"it asks for {_amount(unit, wanted)}; {name} can give it "
                f"{_number(unit, available)} on {count(most, 'node')}",
                f"ask for fewer ({option}), or cancel it",
                {"partition": name, "asked": wanted, "total": available, "nodes": most},
            )
    return None


Amounts = tuple[str, str, int, list[int], str]
"""A code, the unit, what is asked, what each node has, and the option that asks."""


def _one_node(ask: Ask, nodes: list[NodeView], site: Site) -> list[Amounts]:
    """What every node of the job must have."""
    row, demand = ask.row, ask.demand
    found: list[Amounts] = []
    if row.gpus_per_node:
        for gpu_type in _types(row, nodes):
            has = [_gpus(n, gpu_type) for n in nodes]
            found.append(("gpu-type", f"GPU {gpu_type}", 1, has, "--gres"))
        has = [n.num_gpus for n in nodes]
        found.append(("gpus-per-node", "GPU", row.gpus_per_node, has, "--gres"))
    if demand is not None:
        found.append(
            (
                "cpus-per-node",
                "CPU",
                demand.num_cpus,
                [n.num_cpus for n in nodes],
                "--cpus-per-task",
            )
        )
        if site.memory_counts and demand.mem_bytes:
            has = [n.mem_bytes for n in nodes]
            found.append(("memory-per-node", "memory", demand.mem_bytes, has, "--mem"))
    return found


def _together(ask: Ask, nodes: list[NodeView], site: Site) -> list[Amounts]:
    """What all nodes of the job must have in sum."""
    row = ask.row
    found: list[Amounts] = []
    for gpu_type in _types(row, nodes):
        wanted = sum(o.count for o in row.gpu_options if o.gpu_type == gpu_type)
        has = [_gpus(n, gpu_type) for n in nodes]
        found.append(("gpu-type", f"GPU {gpu_type}", wanted, has, "--gres"))
    found.append(("gpus", "GPU", row.num_gpus, [n.num_gpus for n in nodes], "--gpus"))
    found.append(("cpus", "CPU", row.num_cpus, [n.num_cpus for n in nodes], "--ntasks"))
    if site.memory_counts and ask.demand is not None and ask.demand.mem_bytes:
        # with --mem=0 Slurm reckons with one node's memory, perhaps one that the job cannot have
        has = [n.mem_bytes for n in nodes]
        found.append(("memory", "memory", row.mem_bytes, has, "--mem"))
    return found


def _types(row: QueueRow, nodes: list[NodeView]) -> list[str]:
    """The GPU types that the job names; none where a node has GPUs of which no type is told."""
    if any(not kind for n in nodes for kind, _ in n.gpus):
        return []
    return [o.gpu_type for o in row.gpu_options if o.gpu_type]


def _gpus(node: NodeView, gpu_type: str) -> int:
    return sum(count for kind, count in node.gpus if kind == gpu_type)


def _most_nodes(row: QueueRow, partition: PartitionView, total: int, site: Site) -> int:
    """The most nodes that the job can get; no most of nodes looks like a most of min_nodes."""
    most = min(total, row.max_nodes) if row.max_nodes > row.min_nodes else total
    if partition.max_nodes is None or partition.max_nodes >= most:
        return most
    return most if site.ignores_partition_limits() else partition.max_nodes


def _node_block(
    kind: str, unit: str, wanted: int, given: list[int], option: str, row: QueueRow, name: str
) -> Block:
    largest, fitting = max(given), sum(1 for amount in given if amount >= wanted)
    params = {"partition": name, "asked": wanted, "largest": largest, "nodes": fitting}
    advice = f"change {option}, or cancel it"
    if kind == "gpu-type" and not fitting:
        return Block(kind, f"no node of {name} has a {unit.removeprefix('GPU ')}", advice, params)
    if largest < wanted:
        words = (
            f"it asks for {_amount(unit, wanted)} on one node; the largest node of {name} has "
            f"{_number(unit, largest)}"
        )
    else:
        words = (
            f"it asks for {count(row.min_nodes, 'node')} with {_amount(unit, wanted)} each; "
            f"{name} has {fitting}"
        )
    return Block(kind, words, advice, params)


def _amount(unit: str, number: int) -> str:
    if unit == "memory":
        return f"{_number(unit, number)} of memory"
    kind, _, gpu_type = unit.partition(" ")
    return f"{count(number, kind)}{' of type ' + gpu_type if gpu_type else ''}"


def _number(unit: str, number: int) -> str:
    return size(number) if unit == "memory" else str(number)
