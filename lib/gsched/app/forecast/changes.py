"""What could start a waiting job sooner: one change at a time, to be tried in the forward run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gsched.app.forecast.ground import Asked
from gsched.app.forecast.situation import Scene, eligible_at, limit_of
from gsched.explain.words import short_time
from gsched.forecast.outlook import Change
from gsched.forecast.situation import WaitingJob
from gsched.model.cluster import PartitionView
from gsched.model.job import GpuRange, JobView, PredictionKind, Request
from gsched.slurm.records import QueueRow

_STEPS_S = ((600, 60), (3600, 300), (6 * 3600, 900), (86400, 3600), (math.inf, 6 * 3600))
"""Limits up to so many seconds are given in multiples of so many: nobody asks for 2:47:00."""
_WORTH = 0.8
"""A limit that is not shorter by a fifth is not worth asking for."""
_MOST_PARTITIONS = 4

LEAST_SIMILAR = 20
"""Of fewer similar jobs nobody knows a run time that 98 in 100 stay below: that quantile takes some
fifty to be seen, and less than half of them is a guess at best.
"""


@dataclass(frozen=True, slots=True)
class LimitAdvice:
    """A time limit in seconds that would do, and the probability that the job ends within it."""

    time_limit_s: int
    probability: float


def limit_advice(view: JobView) -> LimitAdvice | None:
    """A shorter limit for a job; None where its own is short, or too little is known.

    From the last quantile of its predicted run time, lengthened by the caution that its user's
    earlier jobs call for (see ``Prediction.caution``).
    """
    limit_s, prediction = limit_of(view), view.prediction(PredictionKind.DURATION)
    if limit_s is None or prediction is None or not prediction.quantiles:
        return None
    if prediction.similar_jobs < LEAST_SIMILAR:
        return None
    probability, longest_s = prediction.quantiles[-1]
    advised_s = _round_limit(longest_s * prediction.caution)
    if advised_s > _WORTH * limit_s:
        return None
    return LimitAdvice(advised_s, probability)


def changes_for(
    view: JobView,
    row: QueueRow,
    job: WaitingJob,
    scene: Scene,
    partitions: Sequence[PartitionView],
) -> tuple[Change, ...]:
    """The changes that make sense for a job; each could be typed as its option to sbatch."""
    return (
        *_fewer_gpus(view, row, job, scene),
        *_other_partitions(view, row, job, scene, partitions),
        *_shorter_limit(view, row, job, scene),
    )


def _placed(job: WaitingJob, row: QueueRow, asked: Asked, scene: Scene) -> WaitingJob:
    """The job where it would be if it asked for this."""
    as_of = round(scene.situation.as_of)
    return replace(job, demands=asked.demands, eligible_at=eligible_at(row, asked, as_of))


def _fewer_gpus(view: JobView, row: QueueRow, job: WaitingJob, scene: Scene) -> Iterator[Change]:
    """Half as many, as long as the job has at least one on each of its nodes."""
    per_node = row.gpus_per_node
    number = per_node or view.request.gpus.minimum
    types = {o.gpu_type for o in view.request.gpu_options if o.gpu_type}
    if len(types) > 1:
        return
    kind = "".join(f"{name}:" for name in types)
    while number > 1:
        number //= 2
        total = number * max(1, view.request.nodes.minimum) if per_node else number
        request = _with_gpus(view.request, total)
        asked = scene.ground.asked(request, view.partitions, job.limit_s)
        if asked.problem:
            return
        option = f"--gres=gpu:{kind}{number}" if per_node else f"--gpus={kind}{number}"
        yield Change(
            "gpus",
            option,
            str(number),
            replace(_placed(job, row, asked, scene), order=job.order + _shift(view, total, scene)),
        )


def _with_gpus(request: Request, total: int) -> Request:
    options = tuple(replace(o, count=total) for o in request.gpu_options)
    return replace(request, gpus=GpuRange(total, total), gpu_options=options)


def _shift(view: JobView, total: int, scene: Scene) -> float:
    """By how much the order changes with the job's size, where it depends on that."""
    prediction = view.prediction(PredictionKind.DURATION)
    if prediction is None:
        return 0.0
    before, cpus = view.request.gpus.minimum, view.request.num_cpus
    order = scene.order
    return order.of(total, cpus, prediction.mean) - order.of(before, cpus, prediction.mean)


def _other_partitions(
    view: JobView,
    row: QueueRow,
    job: WaitingJob,
    scene: Scene,
    partitions: Sequence[PartitionView],
) -> Iterator[Change]:
    found = 0
    for partition in partitions:
        if found == _MOST_PARTITIONS:
            return
        if partition.name in view.partitions or not _takes(partition, view):
            continue
        asked = scene.ground.asked(view.request, (partition.name,), job.limit_s)
        if asked.problem or asked.demands == job.demands:
            continue
        found += 1
        yield Change(
            "partition",
            f"--partition={partition.name}",
            partition.name,
            _placed(job, row, asked, scene),
        )


def _takes(partition: PartitionView, view: JobView) -> bool:
    """Whether a partition would take a job as it is, by the very names that it gives."""
    limit_s = limit_of(view)
    too_long = partition.max_time_s is not None and (
        limit_s is None or limit_s > partition.max_time_s
    )
    too_wide = partition.max_nodes is not None and view.request.nodes.minimum > partition.max_nodes
    if not partition.is_up or too_long or too_wide:
        return False
    return _allows(view.tenant, partition.allow_accounts, partition.deny_accounts) and _allows(
        view.qos, partition.allow_qos, partition.deny_qos
    )


def _allows(name: str, allowed: tuple[str, ...], denied: tuple[str, ...]) -> bool:
    """As Slurm has it: where some are allowed, those that are denied do not count."""
    return name in allowed if allowed else name not in denied


def _shorter_limit(view: JobView, row: QueueRow, job: WaitingJob, scene: Scene) -> Iterator[Change]:
    advice = limit_advice(view)
    if advice is None:
        return
    limit_s = float(advice.time_limit_s)
    asked = scene.ground.asked(view.request, view.partitions, limit_s)
    yield Change(
        "time-limit",
        f"--time={short_time(limit_s)}",
        str(advice.time_limit_s),
        replace(
            _placed(job, row, asked, scene),
            limit_s=limit_s,
            quantiles_s=tuple(min(value, limit_s) for value in job.quantiles_s),
        ),
    )


def _round_limit(seconds: float) -> int:
    """The next longer limit that people would ask for."""
    step_s = next(step for most, step in _STEPS_S if seconds <= most)
    return math.ceil(max(seconds, 1.0) / step_s) * step_s
