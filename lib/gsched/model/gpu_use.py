"""When past and present attempts asked for GPUs and when they held some, as the history tells it.

By column, for a million at once. Times are UTC epoch seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NOT_TOLD = -(2**62)
"""In a column: nobody has told it."""

GpuCounts = Sequence[tuple[str, int]]
"""GPUs by type; the type is "" where none was told."""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Attempts, a row each. NOT_TOLD stands for whatever nobody has told.

    `job` names the logical job, by a number of no meaning outside; `tenant`, `user`, `requested`
    and `allocated` are keys of the mappings. `ends_by` is there where no end is told: by then it
    must have ended, as the next attempt of its id was submitted or its time limit was over.
    `pruned_before`: jobs that ended before that time are gone from the history.
    """

    job: Sequence[int]
    job_id: Sequence[int]
    array_task: Sequence[int]
    het_offset: Sequence[int]
    epoch: Sequence[int]
    tenant: Sequence[int]
    user: Sequence[int]
    submit_time: Sequence[int]
    eligible_time: Sequence[int]
    start_time: Sequence[int]
    end_time: Sequence[int]
    ends_by: Sequence[int]
    num_gpus: Sequence[int]
    requested: Sequence[int]
    allocated: Sequence[int]
    tenants: Mapping[int, str]
    users: Mapping[int, str]
    gpus: Mapping[int, GpuCounts]
    pruned_before: int | None = None

    def __len__(self) -> int:
        return len(self.job)
