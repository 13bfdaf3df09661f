"""What the log says of each round."""

from __future__ import annotations

import logging
import re

from gsched.engine.round import RoundResult
from gsched.engine.validate import Problem
from gsched.model.job import JobKey
from gsched.model.journal import ChangeState

log = logging.getLogger("gsched.daemon")

_ACTION_ID = re.compile(r"^(\w+) \S+: ")
_NUMBER = re.compile(r"\d[\d,.]*")


class RoundLog:
    """Told of each round; what a policy may not have carried out it says once for as long as it
    lasts, whatever the numbers in it: a policy that wants it each round is not asked to stop.
    """

    def __init__(self) -> None:
        self._before: frozenset[tuple[JobKey | None, str]] = frozenset()

    def __call__(self, result: RoundResult) -> None:
        """Log what is worth it."""
        told = {(p.key, _kind(p)): p for p in result.problems}
        new = [problem for which, problem in told.items() if which not in self._before]
        self._before = frozenset(told)
        if result.changes or result.recovered or new:
            counts = (f"{k} {v}" for k, v in result.summary.items() if isinstance(v, int))
            log.info("round: %s", ", ".join(counts))
        settled = result.settled
        refused = [c for c in result.changes if settled[c.change_id][0] is ChangeState.REJECTED]
        if refused:
            job, why = refused[0].key.slurm_id, settled[refused[0].change_id][1]
            log.warning("Slurm refused %d changes (job %s: %s)", len(refused), job, why)
        for problem in new:
            whose = f"job {problem.key.slurm_id}" if problem.key else f"policy {result.info.policy}"
            log.warning("%s: %s", whose, problem.what)


def _kind(problem: Problem) -> str:
    """The same for the like problem of another round: an action has another id then."""
    return _NUMBER.sub("#", _ACTION_ID.sub(r"\1: ", problem.what))
