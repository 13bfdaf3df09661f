"""Runs a policy over simulated jobs, round by round, with the engine that the daemon uses."""

from __future__ import annotations

import itertools

from gsched.engine.deciding import NO_RULES, RoundRules
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.ports import Predictor
from gsched.engine.round import RoundRunner
from gsched.model.job import JobKey
from gsched.policy.base import Policy
from gsched.sim.backend import SimBackend


def replay(
    backend: SimBackend, policy: Policy, predictor: Predictor, rules: RoundRules = NO_RULES
) -> dict[JobKey, int]:
    """Start times (epoch seconds) by job; a round at every arrival and every end."""
    numbers = itertools.count()
    runner = RoundRunner(
        backend,
        policy,
        MemoryJournal(),
        predictor,
        clock=lambda: backend.now,
        new_id=lambda: f"sim-{next(numbers)}",
        rules=rules,
    )
    while backend.advance():
        runner.run(acting=True)
        backend.start_jobs()
    return backend.start_times
