"""Jobs' progress and the cost of restarts in the rounds, for policies that go by them."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from support.heartbeats import record, tell
from support.history import url_of
from support.jobs import T0, snapshot, view

from gsched.app import daemon_estimates
from gsched.app.daemon_estimates import FIRST_RESTART_S, FIRST_SAVE_S, Estimates
from gsched.model.accounts import LeaseGrant, LeaseRevoke
from gsched.model.job import Allocation, JobKey, JobState, Lease, LeaseState
from gsched.policy.base import KnobSpec
from gsched.policy.edf import Edf
from gsched.policy.fifo import Fifo
from gsched.policy.scoped import Scoped
from gsched_sql import History

NOW = T0 + 600


class Reading(Edf):
    name = "reading"
    reads_progress = True
    knobs = (*Edf.knobs, KnobSpec("resume_s", 0.0, 0.0, 3600.0, "s", "cost of an interruption"))


@pytest.fixture
def history(tmp_path):
    url = url_of(tmp_path / "history.db")
    History.create(url)
    with History.open(url) as opened:
        yield opened


@pytest.fixture
def estimates(tmp_path, history, monkeypatch):
    monkeypatch.setattr(daemon_estimates, "user_number", lambda _name: os.getuid())
    folder = tmp_path / "heartbeats"
    folder.mkdir()
    return Estimates(history, "c", lambda: str(folder), clock=lambda: float(NOW))


def runs(restarts=0):
    held = Allocation(("n1",), (1,), T0 + 100)
    return replace(view(7), state=JobState.RUNNING, allocation=held, restarts=restarts)


def seen(estimates, policy, job):
    return estimates.seen(replace(snapshot([job]), as_of=NOW), policy)


def heartbeat(tmp_path, **facts):
    usual = {"started_time": T0 + 130.0, "written_time": NOW - 5.0, "step_time": NOW - 5.0}
    tell(tmp_path / "heartbeats", record(**(usual | facts)))


def test_a_policy_that_does_not_read_progress_has_nobody_asked(tmp_path, estimates):
    heartbeat(tmp_path)
    state = snapshot([runs()])
    for policy in (Edf(), Fifo(), Scoped(Fifo(), {"gpu": Edf()})):
        assert estimates.seen(state, policy) is state


def test_a_policy_that_reads_it_gets_it_also_as_a_part_of_several(tmp_path, estimates):
    heartbeat(tmp_path)
    for policy in (Reading(), Scoped(Fifo(), {"gpu": Reading()})):
        assert seen(estimates, policy, runs()).jobs.views[0].progress is not None


def test_what_an_interruption_costs_is_assumed_until_it_is_seen(tmp_path, history, estimates):
    assert estimates.resume_s == FIRST_SAVE_S + FIRST_RESTART_S
    fitted = estimates.fitted(Reading(), {})
    assert fitted.knob_values["resume_s"] == 120
    _saved_within(history, 20)
    heartbeat(tmp_path, restart=1, step=100, pace_s=4.0)
    seen(estimates, Reading(), runs(restarts=1))
    assert estimates.resume_s == 20 + 30 + 65  # saved, began, and stood still between its steps
    heartbeat(tmp_path, restart=2, first_step=100, step=216, pace_s=4.0, run="b" * 12, seq=1)
    seen(estimates, Reading(), runs(restarts=2))
    assert estimates.resume_s == 20 + (95 + 31) / 2
    assert estimates.fitted(fitted, {}).knob_values["resume_s"] == 83


def _saved_within(history, seconds):
    key = JobKey("c", 9, epoch=T0)
    leases = history.leases()
    lease = Lease("l9", LeaseState.GRANTED, T0, 60)
    leases.grant(LeaseGrant(lease, key, T0, 1, 0, T0), T0)
    leases.revoke("l9", LeaseRevoke("l9/revoke", 60, T0 + 900, ""), T0 + 60)
    leases.move("l9", LeaseState.SIGNALLED, T0 + 61)
    leases.move("l9", LeaseState.SAVED, T0 + 61 + seconds)


def test_the_sites_knob_stands_and_a_small_difference_changes_nothing(estimates):
    policy = Reading(resume_s=10.0)
    assert estimates.fitted(policy, {"resume_s": 10.0}) is policy
    near = Reading(resume_s=110.0)
    assert estimates.fitted(near, {}) is near
    plain = Edf()
    assert estimates.fitted(plain, {}) is plain
    mixed = estimates.fitted(Scoped(Fifo(), {"gpu": Reading()}), {})
    assert [p.knob_values.get("resume_s") for p in mixed.policies] == [None, 120.0]
