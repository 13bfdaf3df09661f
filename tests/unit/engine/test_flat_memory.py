"""Rounds without end: what a runner holds is bounded by the jobs that there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from support.rounds import runner_for
from support.sim import TruePredictor, job, simulated

from gsched.engine.deciding import RoundRules
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.round import RoundRunner
from gsched.model.journal import Change, Outcome
from gsched.policy.registry import load_scoped
from gsched.sim.backend import SimBackend

JOBS = 1500
ROUNDS = 2000
ALIVE = 12  # at any time no more than so many jobs wait or run
CHURN = [job(i, gpus=8, duration_s=2 + i % 3, submit=3 * i) for i in range(1, JOBS + 1)]


class RefusingSome(SimBackend):
    """As Slurm does now and then."""

    def apply(self, changes: Sequence[Change]) -> list[Outcome]:
        refused = [c for c in changes if c.key.job_id % 5 == 0]
        kept = [c for c in changes if c not in refused]
        return super().apply(kept) + [Outcome(c.change_id, False, "denied") for c in refused]


def held(thing: object, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Sizes of all that the containers of an object hold, through gsched's own objects."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    for name, value in vars(thing).items():
        if isinstance(value, (dict, list, set, tuple, frozenset)):
            yield f"{type(thing).__name__}.{name}", len(value)
        elif type(value).__module__.startswith("gsched.") and hasattr(value, "__dict__"):
            yield from held(value, seen)


@pytest.mark.parametrize("acting", [True, False])
def test_thousands_of_rounds_with_coming_and_leaving_jobs_hold_no_more_than_a_few(
    acting: bool,
) -> None:
    backend = RefusingSome(*simulated(CHURN))
    journal = MemoryJournal()  # grows: that is what a journal is for
    predictor = TruePredictor(CHURN)
    runner: RoundRunner = runner_for(
        backend,
        CHURN,
        journal,
        policy=load_scoped("qssf", {"other": "fifo"}, {}),
        predictor=predictor,
        rules=RoundRules(starvation_bound_s=60),
    )
    elsewhere = {id(backend), id(journal), id(predictor)}
    most: dict[str, int] = {}
    rounds = 0
    while backend.advance():
        result = runner.run(acting)
        assert len(result.state.jobs) <= ALIVE
        backend.start_jobs()
        rounds += 1
        for name, size in held(runner, set(elsewhere)):
            most[name] = max(most.get(name, 0), size)
    assert rounds >= ROUNDS
    assert len(predictor.asked) == JOBS  # each once
    watched: dict[str, Any] = {
        "PredictionBook._predicted": ALIVE,
        "PredictionBook._filled": ALIVE,
        "RoundRunner._observed": ALIVE,
        "RoundRunner._refused": ALIVE,
    }
    assert watched.keys() <= most.keys()
    for name, size in most.items():
        assert size <= watched.get(name, ALIVE), name
