"""QSSF against other orders on one log: what ``tests/bench/bench_qssf.py`` records of it."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from gsched.model.times import DAY_S
from gsched.policy.registry import load as load_policy
from gsched.sim.jobs import Floats
from gsched.sim.result import SimResult
from gsched.sim.rules import Scheduler, SimRules
from gsched.sim.run import simulate
from support.qssf_figures import (
    extra_waits,
    figures,
    has_queue,
    overtakers,
    recovered,
    spearman,
)
from support.qssf_logs import LOADED, OWN, Log, log_of, sizings
from support.qssf_online import Model, Rolling, run_online

BOUNDS_S = (DAY_S, 7 * DAY_S)
"""Starvation bounds; the last one is the setting's default."""
SHIPPED = "qssf as shipped: model, backfill, bound 7 d"
PLAIN = SimRules(sample_s=float(DAY_S))
BACKFILL = replace(PLAIN, scheduler=Scheduler.SLURM)
SEED = 1


class Trial:
    """One log on one machine, and what has been simulated on it so far."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.fifo = self._run("fifo", PLAIN)
        self.sjf = self._run("sjf", PLAIN)
        self.has_queue = has_queue(self.fifo, self.sjf)
        self.told: dict[str, Any] = {"fifo": figures(self.fifo), "sjf, oracle": figures(self.sjf)}

    def _run(self, policy: str, rules: SimRules, predicted_s: Floats | None = None) -> SimResult:
        jobs = self.log.jobs
        if predicted_s is not None:
            jobs = replace(jobs, predicted_duration_s=predicted_s)
        return simulate(jobs, self.log.cluster, load_policy(policy), rules)

    def _note(self, name: str, result: SimResult) -> dict[str, Any]:
        told = figures(result) | {"recovered": recovered(self.fifo, self.sjf, result)}
        self.told[name] = told
        return told

    def orders_without_predictions(self) -> None:
        """The other oracle, sizes alone, and Slurm's own order with its backfill."""
        self._note("srtf, oracle", self._run("srtf", PLAIN))
        self._note("fewest GPUs", self._run("fewest-gpus", PLAIN))
        self._note("multifactor, backfill", self._run("multifactor", BACKFILL))
        self._note("fifo, backfill", self._run("fifo", BACKFILL))

    def controls(self) -> None:
        """QSSF that knows the truth, and QSSF whose predictions are another job's."""
        true_s = self.log.jobs.duration_s
        self._note("qssf, true run times", self._run("qssf", PLAIN, true_s))
        shuffled_s = np.random.default_rng(SEED).permutation(true_s)
        self._note("qssf, shuffled run times", self._run("qssf", PLAIN, shuffled_s))

    def rolling(self) -> SimResult:
        """QSSF by the rolling estimate alone."""
        return self._online("qssf, rolling", PLAIN, Rolling())

    def model(self, rolling: SimResult) -> None:
        """QSSF by the model, alone and as it is shipped: on top of Slurm's backfill, with the
        bound. Other bounds and rules go by the predictions of the first run.
        """
        model = Model()
        base = self._online("qssf, model", PLAIN, model)
        more = recovered(self.fifo, self.sjf, base, rolling)
        self.told["qssf, model"] |= {"fits": model.fits, "more_than_rolling": more}
        self._online(SHIPPED, replace(BACKFILL, starvation_bound_s=BOUNDS_S[-1]), Model())
        for bound_s in (0, *BOUNDS_S):
            for words, rules in (("", PLAIN), (", backfill", BACKFILL)):
                if bound_s or words:
                    self._bounded(base, f"qssf, model{words}", rules, bound_s)

    def _bounded(self, base: SimResult, name: str, rules: SimRules, bound_s: int) -> None:
        """QSSF under other rules, by the predictions of `base`: how many jobs end later than there
        is told, from which those learnt too early.
        """
        bound = replace(rules, starvation_bound_s=bound_s)
        result = self._run("qssf", bound, base.jobs.predicted_duration_s)
        told = self._note(f"{name}, bound {bound_s // DAY_S} d" if bound_s else name, result)
        told["learnt_early"] = int((result.end_s > base.end_s).sum())
        told["against_fifo"] = extra_waits(self.fifo, result, bound_s)
        if bound_s and rules is PLAIN:  # backfill passes who starves, where by the limits it may
            told["overtakers_of_starving"] = len(overtakers(result, bound_s))

    def _online(self, name: str, rules: SimRules, learner: Model | Rolling) -> SimResult:
        log = self.log
        began = time.process_time()
        result, predicted_s = run_online(log.jobs, log.past, log.cluster, rules, learner)
        told = self._note(name, result)
        told["rank_correlation"] = spearman(predicted_s, log.jobs)
        told["against_fifo"] = extra_waits(self.fifo, result, rules.starvation_bound_s)
        told["cpu_s"] = round(time.process_time() - began, 1)
        return result


def judged(name: str) -> dict[str, Any]:
    """All of one log. The model is judged on the log's OWN machine where that has a queue."""
    trials = {sizing: Trial(log_of(name, sizing)) for sizing in sizings(name)}
    headline = OWN if trials[OWN].has_queue or LOADED not in trials else LOADED
    machines = {}
    for sizing, trial in trials.items():
        if trial.has_queue:
            trial.orders_without_predictions()
            trial.controls()
            rolling = trial.rolling()
            if sizing == headline:
                trial.model(rolling)
        machines[sizing] = _machine(trial.log) | {"has_queue": trial.has_queue, "runs": trial.told}
    told = trials[headline].log.told
    return {
        "unit": told.unit,
        "judges": told.judges,
        "has_names": told.has_names,
        "predicted_by": "user, name and size"
        if told.has_names
        else f"{'user' if told.has_users else 'account'} and size alone: the log has no names",
        "has_limits": told.has_limits,
        "headline_machine": headline,
        "machines": machines,
    }


def _machine(log: Log) -> dict[str, Any]:
    return {
        "jobs": len(log.jobs),
        "left_out": log.left_out,
        "days": round(float(np.ptp(log.jobs.submit_s)) / DAY_S, 1),
        "units": log.cluster.num_gpus,
        "nodes": log.cluster.num_nodes,
        "pools": len(log.cluster.pools),
        "offered_load": round(log.offered_load, 3),
    }
