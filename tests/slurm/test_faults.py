"""What a daemon survives, on one busy site: a cheap selection of the matrix of ``bench_faults``.

The faults follow each other on the same cluster, as in life: what one leaves, the next one finds.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.faults import Fault, strike
from support.faults_check import findings
from support.faults_policy import policy_environment
from support.faults_process import at_once
from support.faults_settings import ALL_FAULTS, learn
from support.faults_site import FaultSite, fault_site

from gsched.engine.faults import ROUND_POINTS

pytestmark = pytest.mark.slurm

CHEAP = ("daemon-stopped", "policy-raise", "policy-untouchable")


@pytest.fixture(scope="module")
def site() -> Iterator[FaultSite]:
    with fault_site(seed=5) as made:
        text = made.config.read_text().replace("[daemon]", '[daemon]\npolicy = "faulty"', 1)
        made.config.write_text(text)
        made.extra_env = policy_environment(made)
        yield made


def test_the_check_finds_what_is_planted_behind_the_journals_back(site: FaultSite) -> None:
    """Else it would say nothing after faults either."""
    site.ok_once()
    assert findings(site, after_recovery=True) == []
    ours, witness = site.right_order()[0], next(iter(site.own_factors))
    before = site.factors()
    site.slurm("scontrol", "update", f"jobid={ours}", f"sitefactor={before[ours] + 7}")
    site.slurm("scontrol", "update", f"jobid={witness}", "sitefactor=1", "nice=9")
    found = "\n".join(findings(site, after_recovery=True))
    assert f"job {ours} carries {before[ours] + 7}; the journal knows of" in found
    assert f"job {ours} was confirmed at {before[ours]}, Slurm shows {before[ours] + 7}" in found
    assert f"the SiteFactor of job {witness} (foreign-site-factor) became 1" in found
    assert f"Nice of job {witness} was 0, is 9" in found
    for job in (ours, witness):
        site.slurm("scontrol", "update", f"jobid={job}", f"sitefactor={before[job]}", "nice=0")
    assert findings(site, after_recovery=True) == []


def test_killed_at_one_point_after_the_other(site: FaultSite) -> None:
    """Each round recovers what the one before left; Slurm's queue goes on all the time."""
    began = site.ended_jobs()
    for point in ROUND_POINTS:
        site.enlarge()
        at_once(site, point)
    site.enlarge()
    site.ok_once()
    assert findings(site, after_recovery=True) == []
    assert site.is_in_order()
    assert site.ended_jobs() > began


@pytest.mark.parametrize("name", CHEAP)
def test_a_fault_is_survived(site: FaultSite, name: str) -> None:
    fault = _named(name)
    outcome = strike(site, fault)
    assert outcome.findings == []
    assert outcome.said or name == "daemon-stopped", "a fault that is felt is said"


def test_a_model_that_is_corrupted_costs_nothing(site: FaultSite) -> None:
    site.stop()
    learn(site)
    outcome = strike(site, _named("model-corrupted"))
    assert outcome.findings == []
    assert "is no model file or is damaged" in "".join(outcome.said)


def _named(name: str) -> Fault:
    return next(fault for fault in ALL_FAULTS if fault.name == name)
