"""Runs a policy over simulated jobs, round by round, with the engine that the daemon uses."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gsched.engine.deciding import NO_RULES, RoundRules
from gsched.engine.memory_journal import MemoryJournal
from gsched.engine.ports import Predictor
from gsched.engine.round import RoundRunner, WithProgress, untold
from gsched.model.job import Capability, JobView, Prediction
from gsched.model.progress import Progress, silent
from gsched.policy.base import Policy
from gsched.policy.order_form import Misfit
from gsched.sim.backend import SimBackend
from gsched.sim.cluster import SimCluster
from gsched.sim.jobs import SimJobs
from gsched.sim.result import SimResult
from gsched.sim.rules import SimRules
from gsched.sim.table import Records, job_table

VAIN_ROUNDS = 1000
"""So many rounds in a row in which nothing runs and no job comes or starts are the last ones."""

_ROUNDS_A_WORD = 256
_NEVER = float("inf")


def run_rounds(
    jobs: SimJobs,
    cluster: SimCluster,
    policy: Policy,
    rules: SimRules,
    told: Progress = silent,
    progress: WithProgress = untold,
) -> SimResult:
    """What `policy` does when it decides at every event; see ``gsched.sim.run.simulate``.

    `progress` adds what running jobs tell of themselves, as heartbeats do live. Raises GschedError
    when the policy fails.
    """
    oracle = Capability.ORACLE in policy.requires
    form = policy.order_form(job_table(jobs, cluster, oracle))
    backend = SimBackend(
        jobs,
        cluster,
        rules,
        Records(jobs, cluster, oracle),
        misfit=form.discipline.misfit if form else Misfit.BLOCK,
        by_grant=form.discipline.preempts if form else Capability.PREEMPT in policy.requires,
    )
    interrupted = False
    try:
        bound = RoundRules(starvation_bound_s=rules.starvation_bound_s)
        replay(backend, policy, AlreadyPredicted(), bound, told, progress)
    except KeyboardInterrupt:
        interrupted = True
    return backend.result(policy.name, interrupted)


def replay(
    backend: SimBackend,
    policy: Policy,
    predictor: Predictor,
    rules: RoundRules = NO_RULES,
    told: Progress = silent,
    progress: WithProgress = untold,
) -> None:
    """Go through all events, with a round at each and whenever the policy wants to wake up."""
    numbers = itertools.count()
    runner = RoundRunner(
        backend,
        policy,
        MemoryJournal(),
        predictor,
        clock=lambda: backend.now,
        new_id=lambda: f"sim-{next(numbers)}",
        rules=rules,
        progress=progress,
    )
    wakeup_s = _NEVER
    moves, vain = 0, 0
    for done in itertools.count():
        if vain == VAIN_ROUNDS or not backend.advance(wakeup_s):
            break
        wakeup_s = backend.next_round_s
        if wakeup_s > backend.time_s:
            continue
        decision = runner.run(acting=True).decision
        backend.carry_out(decision)
        backend.start_jobs()
        vain = vain + 1 if backend.moves == moves and not backend.running else 0
        moves = backend.moves
        wakeup_s = backend.next_starving_s
        if decision.next_wakeup is not None and decision.next_wakeup > backend.now:
            wakeup_s = min(wakeup_s, float(decision.next_wakeup - backend.origin))
        if done % _ROUNDS_A_WORD == 0:
            told("jobs ended", backend.ended)


class AlreadyPredicted:
    """Leaves jobs the predictions that their records have."""

    model_id = "told with the jobs"

    def predict(self, jobs: Sequence[JobView], now: int) -> list[Prediction | None]:
        """None for each."""
        del now
        return [None] * len(jobs)
