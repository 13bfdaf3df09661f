"""Rounds on a small simulated cluster, also ones that are cut off."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from gsched.engine.faults import FaultPoint
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.round import RoundRunner
from gsched.model.journal import ChangeState
from gsched.policy.qssf import Qssf
from gsched.sim.backend import SimBackend
from support.sim import SimJob, TruePredictor, job, simulated

_round_numbers = itertools.count()

JOBS = [job(1, duration_s=400), job(2, duration_s=5), job(3, duration_s=60), job(4, duration_s=9)]
"""Four jobs that fit together, submitted at 100."""


class KilledError(BaseException):
    """Stands for SIGKILL: nothing of gsched catches it."""


def backend_with(jobs: Sequence[SimJob]) -> SimBackend:
    backend = SimBackend(*simulated(jobs))
    backend.advance()
    return backend


def runner_for(
    backend: SimBackend,
    jobs: Sequence[SimJob],
    journal: MemoryJournal | None = None,
    **overrides: Any,
) -> RoundRunner:
    parts: dict[str, Any] = {
        "backend": backend,
        "policy": Qssf(),
        "journal": journal or MemoryJournal(),
        "predictor": TruePredictor(jobs),
        "clock": lambda: backend.now,
        "new_id": lambda: f"r{next(_round_numbers)}",
        **overrides,
    }
    return RoundRunner(**parts)


def order(backend: SimBackend) -> list[int]:
    return [key.job_id for key in backend.pending_order()]


def killed_at(point: FaultPoint) -> Callable[[FaultPoint], None]:
    def kill(at: FaultPoint) -> None:
        if at is point:
            raise KilledError

    return kill


def states(journal: MemoryJournal) -> list[ChangeState]:
    return [e.state for e in journal.entries.values()]
