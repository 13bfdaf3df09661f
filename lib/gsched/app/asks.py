"""What a waiting job asks for, and how much of that is free just now."""

from __future__ import annotations

from gsched.app.job import LiveJob
from gsched.explain.words import count, size
from gsched.model.cluster import NodeView
from gsched.slurm.parse_limits import NodeDemand
from gsched.slurm.records import QueueRow


def ask_words(live: LiveJob) -> str:
    """What a job asks for, in short. Of its nodes squeue may know the least alone."""
    row = live.row
    amounts = _amounts(
        row, row.num_gpus, row.num_cpus, row.mem_bytes if _has_memory(live) else None
    )
    nodes = f"at least {count(row.min_nodes, 'node')}"
    if row.max_nodes > row.min_nodes:
        nodes = f"{row.min_nodes} to {row.max_nodes} nodes"
    return f"{amounts} on {nodes}"


def free_words(live: LiveJob, demand: NodeDemand | None) -> str:
    """What is free of it in its partitions, and what is short where that seems to be enough."""
    row = live.row
    nodes = [n for n in live.cluster.nodes if _could_serve(n, row)]
    gpus = sum(_free_gpus(n) for n in nodes)
    cpus = sum(_free_cpus(n) for n in nodes)
    mem_bytes = sum(_free_mem(n) for n in nodes) if _has_memory(live) else None
    free = f"free in {','.join(row.partitions)} now: {_amounts(row, gpus, cpus, mem_bytes)}"
    if gpus < row.num_gpus or cpus < row.num_cpus:
        return free
    if mem_bytes is not None and mem_bytes < row.mem_bytes:
        return f"{free}; too little memory"
    fitting = sum(1 for n in nodes if _fits(n, row, demand, with_memory=mem_bytes is not None))
    if fitting >= row.min_nodes:
        return free
    some = f"only {count(fitting, 'node')}" if fitting else "no node"
    return f"{free}; but {some} with enough of all of it at once"


def _amounts(row: QueueRow, gpus: int, cpus: int, mem_bytes: int | None) -> str:
    parts = [count(gpus, "GPU")] if row.num_gpus else []
    parts.append(count(cpus, "CPU"))
    if mem_bytes is not None:
        parts.append(f"{size(mem_bytes)} of memory")
    return ", ".join(parts)


def _has_memory(live: LiveJob) -> bool:
    """Whether Slurm gives out memory, and the job asks for some."""
    return live.cluster.config.gives_out_memory and live.row.mem_bytes > 0


def _could_serve(node: NodeView, row: QueueRow) -> bool:
    is_kept = "reserved" in node.flags and not row.reservation
    return node.is_usable and not is_kept and not set(node.partitions).isdisjoint(row.partitions)


def _fits(node: NodeView, row: QueueRow, demand: NodeDemand | None, *, with_memory: bool) -> bool:
    """Whether the least that a node must give is free on it."""
    gpus = row.gpus_per_node or (1 if row.num_gpus else 0)
    cpus, mem_bytes = (demand.num_cpus, demand.mem_bytes) if demand else (1, 0)
    return (
        _free_gpus(node) >= gpus
        and _free_cpus(node) >= max(1, cpus)
        and (not with_memory or _free_mem(node) >= mem_bytes)
    )


def _free_gpus(node: NodeView) -> int:
    return max(0, node.num_gpus - node.gpus_used)


def _free_cpus(node: NodeView) -> int:
    return max(0, node.num_cpus - node.cpus_used)


def _free_mem(node: NodeView) -> int:
    return max(0, node.mem_bytes - node.mem_used_bytes)
