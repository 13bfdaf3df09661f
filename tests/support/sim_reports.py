"""Reports of simulations that nobody simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gsched.app.sim.report import PolicyRuns, SimReport
from gsched.policy.registry import load
from gsched.sim.cluster import SimCluster
from gsched.sim.metrics import summarise
from gsched.sim.rules import SimRules

from .sim_results import queued


def report_of(
    factors: Mapping[str, Sequence[float]], seeds: Sequence[int] = (1,), days: float = 20.0
) -> SimReport:
    """By policy how long jobs wait in each run, the same jobs for all policies."""
    policies = [
        PolicyRuns(
            name,
            load(name),
            [
                replace(summarise(queued(2000, seed, factor, days)), seed=seed, policy=name)
                for seed, factor in zip(seeds, per_run, strict=True)
            ],
        )
        for name, per_run in factors.items()
    ]
    cluster = SimCluster.uniform({"p": 1}, gpus_a_node=4)
    return SimReport("a made-up trace", [], [], cluster, SimRules(), policies)
