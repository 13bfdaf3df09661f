"""What the ordering policies share: queues, tie-breaking, ranks and levels, all by column.

Jobs with GPUs and jobs without are two queues: they compete for different resources and their
keys have different units. Ties are broken by first submit time and then by the job's key, so that
the order of the input rows never matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gsched.model.decision import QUEUES, JsonValue
from gsched.policy.base import KnobSpec

if TYPE_CHECKING:  # `policy list` reads this module and needs no numpy
    from gsched.model.jobtable import FloatColumn, IntColumn, JobTable
    from gsched.model.ranks import RankTable

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


def order_queues(jobs: JobTable, keys: FloatColumn) -> dict[str, IntColumn]:
    """By queue: the rows of its reorderable jobs, smallest key first.

    Rows without a usable key (NaN, infinite, negative) are in no queue.
    """
    import numpy as np

    usable = jobs.reorderable & np.isfinite(keys) & (keys >= 0)
    members = {"gpu": usable & (jobs.num_gpus > 0), "cpu": usable & (jobs.num_gpus <= 0)}
    queues = {}
    for queue in QUEUES:
        rows = jobs.select(members[queue])
        queues[queue] = rows[np.lexsort((jobs.tie[rows], keys[rows]))]
    return queues


def rank_queues(
    jobs: JobTable,
    keys: FloatColumn,
    queues: Mapping[str, IntColumn],
    levels: Callable[[str, FloatColumn], FloatColumn],
) -> RankTable:
    """Ranks of the ordered rows of each queue; `levels` maps (queue, its keys in order)."""
    import numpy as np

    from gsched.model.ranks import RankTable

    columns: dict[str, list[Any]] = {
        name: [] for name in ("rows", "queue", "position", "out_of", "key", "level")
    }
    for queue, rows in queues.items():
        columns["rows"].append(rows)
        columns["queue"].append(np.full(len(rows), QUEUES.index(queue), dtype=np.int64))
        columns["position"].append(np.arange(1, len(rows) + 1))
        columns["out_of"].append(np.full(len(rows), len(rows), dtype=np.int64))
        columns["key"].append(keys[rows])
        columns["level"].append(levels(queue, keys[rows]))
    return RankTable(jobs, **{name: np.concatenate(parts) for name, parts in columns.items()})


def rank_by_magnitude(
    jobs: JobTable, keys: FloatColumn, memory: Mapping[str, JsonValue], span_octaves: float
) -> tuple[RankTable, dict[str, JsonValue]]:
    """Ranks whose level depends on the job's own key only, and the memory for the next round.

    The level is the distance of the key from the queue's reference in octaves. The reference is
    kept while the queue's median stays near it, so a job's level is fixed once for its life.
    """
    known = _references(memory)
    queues = order_queues(jobs, keys)
    found = {queue: _recentred(known.get(queue), keys[rows]) for queue, rows in queues.items()}
    references = {queue: value for queue, value in found.items() if value is not None}

    def levels(queue: str, ordered: FloatColumn) -> FloatColumn:
        return magnitude_level(ordered, references.get(queue, 1.0), span_octaves)

    kept: dict[str, JsonValue] = {**references}
    order = rank_queues(jobs, keys, queues, levels)
    return order, {"version": MEMORY_VERSION, "reference": kept}


def magnitude_level(keys: FloatColumn, reference: float, span_octaves: float) -> FloatColumn:
    """+1 for a key `span_octaves` doublings below `reference`, -1 for one as far above."""
    import numpy as np

    with np.errstate(divide="ignore"):  # a key of 0 is infinitely far below
        octaves_below = math.log2(reference) - np.log2(keys)  # a quotient could overflow
    return np.clip(octaves_below / span_octaves, -1.0, 1.0)


def position_level(positions: IntColumn, of: int) -> FloatColumn:
    """Near +1 for the first of `of`, near -1 for the last, 0 for the middle one."""
    levels: FloatColumn = 1.0 - 2.0 * (positions - 0.5) / of
    return levels


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


def _recentred(reference: float | None, ordered: FloatColumn) -> float | None:
    """The reference to use: the old one if it still fits, else the median of the rising keys."""
    positive = ordered[ordered > 0]
    if not len(positive):  # nothing to centre on; a queue of zero keys is ranked around 1
        return reference or (1.0 if len(ordered) else None)
    low, high = float(positive[(len(positive) - 1) // 2]), float(positive[len(positive) // 2])
    median = low + (high - low) / 2
    if reference is not None and abs(math.log(median / reference)) <= math.log(RECENTRE_FACTOR):
        return reference
    return median
