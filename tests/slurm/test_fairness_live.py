"""Long-term fairness on a real Slurm: three tenants, one of them greedy, train on leased GPUs.

The daemon leases by the policy ltgf; leases last one hand-over at least, not twenty, so that a test
can wait for them. In the midst the daemon, slurmctld and a training are killed. The bench
(``tests/bench/bench_leases.py``) has leases of full length, a control, and all kills.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.lease_site import LeaseSite
from support.lease_trials import (
    books_agree,
    converge,
    farthest,
    finish,
    greedy_first,
    hand_overs_of,
    kill_by,
    lease_site,
    lost_steps,
    over_time,
    wrong_ways,
)

pytestmark = pytest.mark.slurm

GPUS, LEASE_S = 2, 16
QUOTAS = {"greedy": 1.0, "lab1": 1.0, "lab2": 1.0}
TRAININGS = {"greedy": 3, "lab1": 2, "lab2": 1}
PLAN = ("daemon lease-requeue-sent", "slurmctld signalled", "step saved")
HAND_OVERS = 4
CLOSE = 0.1
"""Of all GPU-time; each tenant's quota is a third."""


@dataclass(frozen=True)
class Trial:
    """What became of it all."""

    site: LeaseSite
    before: dict[str, Any]
    """Each tenant's share of all GPU-time when the leases began."""
    after: dict[str, Any]
    """The same some leases later."""
    kills: list[dict[str, Any]]


@pytest.fixture(scope="module")
def trial() -> Iterator[Trial]:
    """The trial from its first job to the last training's end."""
    with lease_site(QUOTAS, GPUS, 3000, 0.2) as site:
        greedy_first(site, TRAININGS, GPUS)
        site.lease_by("ltgf", lease_s=LEASE_S, grace_s=15)
        before = over_time(site, min(h.start for h in site.held()), 1.0)[-1]
        site.begin(hand_overs=1)
        kills = kill_by(site, PLAN, limit_s=240)
        after = converge(site, CLOSE, LEASE_S, HAND_OVERS)
        finish(site)
        yield Trial(site, before, after, kills)


def test_shares_come_to_the_quotas(trial: Trial) -> None:
    """All that was received since the first job counts, which the greedy tenant had alone."""
    assert trial.before["greedy"] == 1.0
    assert farthest(trial.site, trial.after) <= CLOSE, trial.after
    print(f"after {trial.after['leases']} leases: {trial.after}")


def test_every_training_ends_as_if_nobody_had_leased_its_gpus(trial: Trial) -> None:
    site = trial.site
    assert hand_overs_of(site).total() >= HAND_OVERS
    for training in site.trainings.values():
        assert site.differences(training) == [], training.name


def test_kills_lose_no_saved_step_no_lease_and_no_job(trial: Trial) -> None:
    site = trial.site
    assert [f"{kill['what']} {kill['when']}" for kill in trial.kills] == list(PLAN)
    assert site.counted["daemons started"] == site.counted["slurmctld started"] == 1
    assert lost_steps(site, trial.kills) == []
    assert wrong_ways(site) == []


def test_no_gpu_time_is_missing_from_the_books(trial: Trial) -> None:
    agreed = books_agree(trial.site)
    assert agreed["farthest GPU-s"] <= agreed["attempts"], agreed
