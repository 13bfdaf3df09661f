"""Runs a policy over simulated jobs, round by round, with the engine that the daemon uses."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.ports import Predictor
from gsched.engine.round import RoundRunner
from gsched.model.job import JobKey
from gsched.policy.base import Policy
from gsched.sim.backend import SimBackend


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Start times (epoch seconds) by job, and how many rounds it took."""

    start_times: dict[JobKey, int]
    rounds: int

    def mean_queueing_s(self) -> float:
        """Mean of start − first submit over all jobs, in seconds; 0 for none."""
        waits = [start - key.epoch for key, start in self.start_times.items()]
        return sum(waits) / len(waits) if waits else 0.0


def replay(backend: SimBackend, policy: Policy, predictor: Predictor) -> ReplayResult:
    """Run until the last job has started; a round at every arrival and every end."""
    numbers = itertools.count()
    runner = RoundRunner(
        backend,
        policy,
        MemoryJournal(),
        predictor,
        clock=lambda: backend.now,
        new_id=lambda: f"sim-{next(numbers)}",
    )
    rounds = 0
    while backend.advance():
        runner.run(acting=True)
        rounds += 1
        backend.start_jobs()
    return ReplayResult(backend.start_times, rounds)
