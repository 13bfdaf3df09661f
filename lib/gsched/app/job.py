"""One job as Slurm knows it: the row that an id means, or the rows of an array or het job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gsched.app.array_part import means, part_of
from gsched.app.named_job import named_job
from gsched.app.queue import QueueView, view_queue
from gsched.app.queued_job import QueuedJob
from gsched.app.wiring import slurm_client
from gsched.config.settings import Settings
from gsched.errors import UsageError
from gsched.model.cluster import NodeView, PartitionView
from gsched.model.jobid import JobId
from gsched.slurm.client import SlurmClient
from gsched.slurm.records import FreeText, PriorityRow, QueueRow, SlurmConfig


@dataclass(frozen=True, slots=True)
class Cluster:
    """What Slurm and the daemon said when one job was looked for. In `queue` only it has a name."""

    client: SlurmClient
    config: SlurmConfig
    rows: tuple[QueueRow, ...]
    queue: QueueView
    nodes: tuple[NodeView, ...]
    partitions: tuple[PartitionView, ...]


@dataclass(frozen=True, slots=True)
class LiveJob:
    """What Slurm and the daemon say of one job that Slurm still knows."""

    row: QueueRow
    text: FreeText
    priority: PriorityRow | None
    line: QueuedJob
    cluster: Cluster


def find_live(settings: Settings, job: str) -> LiveJob | None:
    """The one job in Slurm's queue, None when Slurm has none of that id (any more).

    Raises UsageError for text that is no job id, and for an array or a het job of which a
    single task or component must be named.
    """
    found = find_parts(settings, job)
    if len(found) > 1:
        ids = ", ".join(live.row.slurm_id for live in found[:5])
        raise UsageError(f"job {job} has {len(found)} parts ({ids}, …)", "name one of them")
    return found[0] if found else None


def find_parts(settings: Settings, job: str) -> tuple[LiveJob, ...]:
    """What Slurm's queue has of a job: one row, or those of an array's tasks or het components.

    Empty when Slurm shows none of that id (any more). Raises UsageError for what is no job id.
    """
    wanted = named_job(job)
    client = slurm_client(settings)
    rows = client.queue(states="all").rows
    found = _rows_of(wanted, rows)
    if not found:
        return ()
    config = client.config()
    texts = client.free_text([row.raw_id for row in found])
    queue = view_queue(settings, rows, texts, config.cluster)
    cluster = Cluster(client, config, rows, queue, client.nodes(), client.partitions())
    lines = {line.raw_id: line for line in queue.jobs}
    priorities = client.priorities()
    return tuple(
        LiveJob(
            row=row,
            text=texts.get(row.raw_id, FreeText("", "")),
            priority=priorities.get(row.raw_id),
            line=replace(lines[row.raw_id], row=row),
            cluster=cluster,
        )
        for row in sorted(found, key=lambda r: (r.array_task or 0, r.het_offset or 0))
    )


def _rows_of(wanted: JobId, rows: Sequence[QueueRow]) -> list[QueueRow]:
    """The rows that an id means: Slurm's own number of an array task counts where none is shown.

    Of an array that waits whole, the tasks that are named alone.
    """
    found = [r for r in rows if r.job_id == wanted.job_id]
    found = found or [r for r in rows if r.raw_id == wanted.job_id]
    return [part_of(r, [wanted]) for r in found if means(wanted, r)]
