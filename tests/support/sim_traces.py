"""Past jobs for tests of what a simulation is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gsched.app.sim.inputs import Chosen, Past, choose
from gsched.app.sim.left_out import LeftOut
from gsched.app.sim.rows import Gatherer, PastColumns
from gsched.model.history import AttemptRecord
from gsched.model.trace import columns_of
from support.history import attempt


def gathered(records: Sequence[AttemptRecord]) -> PastColumns:
    """The logical jobs of some attempts."""
    gatherer = Gatherer()
    gatherer.take(columns_of(records))
    return gatherer.jobs()


def chosen(records: Sequence[AttemptRecord]) -> Chosen:
    """Those of them that can be simulated."""
    jobs = gathered(records)
    return choose(Past("test", jobs, LeftOut("rejected", 0)))


def ran(
    job_id: int, submit: int, wait_s: int, run_s: int, gpus: int, **facts: Any
) -> AttemptRecord:
    """A job that waited and ran so long."""
    start = submit + wait_s
    told = {"start_time": start, "end_time": start + run_s, "num_gpus": gpus, "allocated": ()}
    return attempt(job_id, submit, **(told | facts))
