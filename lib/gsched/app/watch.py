"""The queue and the nodes, looked at again and again: what ``gsched top`` shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gsched.app.queue import QueueView, chosen, view_listing
from gsched.app.queue_filter import QueueFilter
from gsched.app.told_progress import with_progress
from gsched.app.wiring import slurm_client
from gsched.config.settings import Settings
from gsched.model.cluster import NodeView


@dataclass(frozen=True, slots=True)
class NodeCounts:
    """Nodes and their GPUs; `down` nodes cannot run jobs now (down, drained, not responding)."""

    total: int
    down: int
    gpus: int
    gpus_used: int
    gpus_down: int


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the cluster."""

    queue: QueueView
    nodes: NodeCounts


class QueueWatch:
    """Looks at one cluster through the same filter: one squeue and one scontrol a look."""

    def __init__(self, settings: Settings, wanted: QueueFilter) -> None:
        """Raises UsageError for a filter that is none."""
        self._settings = settings
        self._wanted = wanted
        self._takes, self._ids = wanted.test(), wanted.named_jobs()
        # the view itself says that an answer is late, and comes again
        self._client = slurm_client(settings, lambda _: None, asks_again=False)
        self._cluster = ""

    def look(self) -> Look:
        """The present state. Raises what SlurmClient raises."""
        self._cluster = self._cluster or self._client.config().cluster
        listing = self._client.queue(
            "all" if self._wanted.wants_ended else "live",
            with_texts=True,
            all_partitions=self._wanted.all_partitions,
        )
        view = view_listing(self._settings, listing, self._cluster)
        jobs = tuple(with_progress(self._settings, chosen(view.jobs, self._takes, self._ids)))
        return Look(replace(view, jobs=jobs), count_nodes(self._client.nodes()))


def count_nodes(nodes: Sequence[NodeView]) -> NodeCounts:
    """Nodes and GPUs: all, in use, and those that cannot be used."""
    down = [node for node in nodes if not node.is_usable]
    return NodeCounts(
        total=len(nodes),
        down=len(down),
        gpus=sum(node.num_gpus for node in nodes),
        gpus_used=sum(node.gpus_used for node in nodes),
        gpus_down=sum(node.num_gpus - node.gpus_used for node in down),
    )
