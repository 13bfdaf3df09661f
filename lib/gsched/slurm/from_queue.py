"""Live jobs of squeue as values of the model."""

from __future__ import annotations

from gsched.errors import DataError
from gsched.model.history import AttemptRecord
from gsched.model.hostlist import expand
from gsched.model.job import (
    Allocation,
    CountRange,
    Exclusion,
    GpuRange,
    JobKey,
    JobState,
    JobView,
    Request,
    Wants,
)
from gsched.model.phases import stated
from gsched.slurm import wire
from gsched.slurm.records import FreeText, QueueRow

_HOLDS_NODES = frozenset({JobState.RUNNING, JobState.SUSPENDED, JobState.COMPLETING})


def to_view(
    row: QueueRow, name: str, key: JobKey, wants: Wants, exclusions: tuple[Exclusion, ...]
) -> JobView:
    """What policies see of a job. `key` carries the logical job's first submit time."""
    return JobView(
        key=key,
        attempt=row.submit_time,
        state=row.state,
        user=row.user,
        tenant=row.tenant,
        qos=row.qos,
        partitions=row.partitions,
        name=name,
        request=Request(
            nodes=CountRange(row.min_nodes, row.max_nodes),
            gpus=GpuRange(row.num_gpus, row.num_gpus),
            num_cpus=row.num_cpus,
            gpu_options=row.gpu_options,
            mem_bytes=row.mem_bytes,
            shards=row.shards,
            features=row.features,
            licences=row.licences,
        ),
        first_submit=key.epoch,
        eligible=row.eligible_time,
        time_limit_s=row.time_limit_s,
        wants=wants,
        allocation=_allocation(row),
        exclusions=exclusions,
        pending_reason=row.reason if row.state is JobState.PENDING else "",
        restarts=row.restarts,
        waiting_tasks=len(row.tasks or ()) or 1,
    )


def _allocation(row: QueueRow) -> Allocation | None:
    if row.state not in _HOLDS_NODES or not row.node_list or row.start_time is None:
        return None
    try:
        nodes = tuple(expand(row.node_list))
    except DataError:
        return (
            None  # a node list in a grammar of its own: the job holds nodes, but which is unknown
        )
    # Slurm's listing tells the total only; it spreads GPUs evenly but for odd --gpus requests.
    share, rest = divmod(row.num_gpus, len(nodes))
    gpus = tuple(share + (index < rest) for index in range(len(nodes)))
    return Allocation(nodes, gpus, row.start_time)


def to_attempt(row: QueueRow, text: FreeText | None, cluster: str) -> AttemptRecord | None:
    """A sighting for the history; None for an array that waits as a whole (no job of its own yet).

    It gives what jobcomp/filetxt lacks (GPUs) and what slurmdbd learns late. A pending job's
    announced start and a running one's announced end are left out: they have not happened. The
    phase is the first that the user's request names.
    """
    if row.is_unsplit_array:
        return None
    waits = row.state in {JobState.PENDING, JobState.UNKNOWN}
    # Slurm gives a job that was cancelled while waiting its end for a start.
    never_started = waits or (row.state.is_terminal and not row.node_list)
    return AttemptRecord(
        cluster=cluster,
        job_id=row.job_id,
        array_task=row.array_task,
        het_offset=row.het_offset,
        submit_time=row.submit_time,
        state=row.state,
        state_text=row.state_text,
        source="squeue",
        user=row.user or None,
        tenant=row.tenant or None,
        partition=",".join(row.partitions) or None,
        qos=row.qos or None,
        name=text.name if text is not None else None,
        eligible_time=row.eligible_time,
        start_time=None if never_started else row.start_time,
        end_time=row.end_time if row.state.is_terminal else None,
        time_limit_s=row.time_limit_s,
        num_nodes=row.min_nodes,
        num_cpus=row.num_cpus,
        num_gpus=row.num_gpus,
        requested=row.tres if never_started else (),
        allocated=() if never_started else row.tres,
        node_list=row.node_list or None,
        restarts=row.restarts,
        phase=stated(wire.read(text.comment).wants.phases) if text is not None else None,
    )
