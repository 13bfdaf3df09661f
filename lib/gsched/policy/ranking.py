"""What the ordering policies share: queues, tie-breaking, ranks and levels.

Jobs with GPUs and jobs without are two queues: they compete for different resources and their
keys have different units. Ties are broken by first submit time and then by the job's key, so that
the order of the input rows never matters.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gsched.model.decision import JsonValue, Rank
from gsched.model.job import JobKey
from gsched.policy.base import KnobSpec

if TYPE_CHECKING:  # `policy list` reads this module and needs no numpy
    from gsched.model.jobtable import FloatColumn, JobTable

QUEUES = ("gpu", "cpu")
MEMORY_VERSION = 1

RECENTRE_FACTOR = 4.0
"""A reference stays as long as the queue's median key lies within this factor of it."""

SPAN_OCTAVES = KnobSpec(
    name="span_octaves",
    default=8.0,
    minimum=1.0,
    maximum=32.0,
    unit="octaves",
    help="doublings of the key from the queue's reference that move a job by the whole range",
)


def job_sizes(jobs: JobTable) -> FloatColumn:
    """GPUs of each job, CPUs of a job without GPUs; never below 1."""
    import numpy as np

    sizes = np.where(jobs.num_gpus > 0, jobs.num_gpus, jobs.num_cpus)
    return np.maximum(sizes, 1).astype(np.float64)


def order_queues(jobs: JobTable, keys: FloatColumn) -> dict[str, list[int]]:
    """By queue: the rows of its reorderable jobs, smallest key first.

    Rows without a usable key (NaN, infinite, negative) are in no queue.
    """
    queues: dict[str, list[int]] = {queue: [] for queue in QUEUES}
    for row in jobs.select(jobs.reorderable).tolist():
        if math.isfinite(keys[row]) and keys[row] >= 0:
            queues["gpu" if jobs.num_gpus[row] > 0 else "cpu"].append(row)

    def place(row: int) -> tuple[float, int, tuple[str, int, int, int, int]]:
        return float(keys[row]), int(jobs.first_submit[row]), _tie_break(jobs.keys[row])

    return {queue: sorted(rows, key=place) for queue, rows in queues.items()}


def rank_rows(
    jobs: JobTable,
    keys: FloatColumn,
    queue: str,
    rows: Sequence[int],
    level: Callable[[int, float], float],
) -> dict[JobKey, Rank]:
    """Ranks of the ordered `rows` of one queue; `level` maps (position, key) to [-1, 1]."""
    return {
        jobs.keys[row]: Rank(
            queue=queue,
            position=position,
            of=len(rows),
            key=float(keys[row]),
            level=level(position, float(keys[row])),
        )
        for position, row in enumerate(rows, start=1)
    }


def rank_by_magnitude(
    jobs: JobTable, keys: FloatColumn, memory: Mapping[str, JsonValue], span_octaves: float
) -> tuple[dict[JobKey, Rank], dict[str, JsonValue]]:
    """Ranks whose level depends on the job's own key only, and the memory for the next round.

    The level is the distance of the key from the queue's reference in octaves. The reference is
    kept while the queue's median stays near it, so a job's level is fixed once for its life.
    """
    known = _references(memory)
    order: dict[JobKey, Rank] = {}
    kept: dict[str, JsonValue] = {}
    for queue, rows in order_queues(jobs, keys).items():
        reference = _recentred(known.get(queue), [float(keys[row]) for row in rows])
        if reference is None:
            continue
        kept[queue] = reference

        def level(_position: int, key: float, centre: float = reference) -> float:
            return magnitude_level(key, centre, span_octaves)

        order |= rank_rows(jobs, keys, queue, rows, level)
    return order, {"version": MEMORY_VERSION, "reference": kept}


def magnitude_level(key: float, reference: float, span_octaves: float) -> float:
    """+1 for a key `span_octaves` doublings below `reference`, -1 for one as far above."""
    if key <= 0:
        return 1.0
    octaves_below = math.log2(reference) - math.log2(key)  # a quotient could overflow
    return max(-1.0, min(1.0, octaves_below / span_octaves))


def position_level(position: int, of: int) -> float:
    """Near +1 for the first of `of`, near -1 for the last, 0 for the middle one."""
    return 1.0 - 2.0 * (position - 0.5) / of


def _tie_break(key: JobKey) -> tuple[str, int, int, int, int]:
    array_task = -1 if key.array_task is None else key.array_task
    het_offset = -1 if key.het_offset is None else key.het_offset
    return key.cluster, key.job_id, array_task, het_offset, key.epoch


def _references(memory: Mapping[str, JsonValue]) -> dict[str, float]:
    """The references in `memory`; none from another version or from damaged memory."""
    stored = memory.get("reference")
    if memory.get("version") != MEMORY_VERSION or not isinstance(stored, dict):
        return {}
    return {
        queue: float(value)
        for queue, value in stored.items()
        if queue in QUEUES
        and isinstance(value, (int, float))
        and not isinstance(value, bool)
        and math.isfinite(value)
        and value > 0
    }


def _recentred(reference: float | None, keys: Sequence[float]) -> float | None:
    """The reference to use: the old one if it still fits, else the median key."""
    positive = [key for key in keys if key > 0]
    if not positive:  # nothing to centre on; a queue of zero keys is ranked around 1
        return reference or (1.0 if keys else None)
    median = statistics.median(positive)
    if reference is not None and abs(math.log(median / reference)) <= math.log(RECENTRE_FACTOR):
        return reference
    return median
