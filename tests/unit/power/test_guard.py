"""Whose power is cut: what Slurm shows, who asks, and what is done without an answer."""

from __future__ import annotations

import pytest

from gsched.power import guard as guards
from gsched.power import records
from gsched.power.guard import Guard, Seen, unguarded
from gsched.slurm.states import parse_node_state

JOBS = ["MIXED", "ALLOCATED", "IDLE", "MIXED+POWER_DOWN", "MIXED+DRAIN", "IDLE+COMPLETING+DRAIN"]
ASLEEP = ["IDLE+POWERED_DOWN", "IDLE+POWERING_DOWN", "IDLE+DRAIN+POWERED_DOWN"]
WOKEN = ["IDLE+POWERING_UP", "MIXED+POWERED_DOWN+POWERING_UP"]


def guard(state, *, by_hand=True, is_late=False, asked=None):
    def look():
        if asked is not None:
            asked.append(1)
        if state is None:
            return None
        base, flags = parse_node_state(state)
        return {"gn01": Seen(base, frozenset(flags))}

    return Guard(look, is_by_hand=by_hand, is_late=lambda: is_late)


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize("state", [*JOBS, *WOKEN, "DOWN", "IDLE+DRAIN"])
def test_nothing_is_switched_off_that_slurm_has_not_powered_down(site, state, by_hand):
    """A suspend that begins late is no other: its node has been woken since."""
    site.call("resume", "gn01")
    before = site.state
    result = site.call("suspend", "gn01", guard=guard(state, by_hand=by_hand))
    assert state.split("+")[0] in result.refused["gn01"]
    assert "suspend gn01" not in site.begun()
    assert site.state == before  # the order to wake is not overtaken


@pytest.mark.parametrize("state", ASLEEP)
def test_what_slurm_has_powered_down_is_switched_off(site, state):
    assert site.call("suspend", "gn01", guard=guard(state)).done == ["gn01"]


@pytest.mark.parametrize(
    ("by_hand", "is_late", "is_done"),
    [(True, False, False), (False, False, True), (False, True, False)],
)
def test_without_an_answer_a_suspend_is_slurms_own_and_new(site, by_hand, is_late, is_done):
    judge = guard(None, by_hand=by_hand, is_late=is_late)
    result = site.call("suspend", "gn01", guard=judge)
    assert (result.done == ["gn01"], "gn01" in result.refused) == (is_done, not is_done)


def may_be_on(site, why="refused"):
    site.store.change(lambda state: records.refused(state, ["gn01"], why, 1.0))


@pytest.mark.parametrize("state", [s for s in JOBS if "POWERED" not in s])
def test_a_resume_cuts_no_power_where_jobs_may_run(site, state, caplog):
    may_be_on(site)
    assert site.call("resume", "gn01", guard=guard(state)).done == ["gn01"]
    assert site.begun() == ["resume gn01"]
    assert site.state.orders["gn01"].verb == "resume"  # so that the next one is a restart
    assert f"jobs may run on it: it is {state.split('+')[0]}" in caplog.text


@pytest.mark.parametrize("state", [*ASLEEP, *WOKEN, "DOWN", "DOWN+NOT_RESPONDING", "IDLE+DRAIN"])
def test_a_node_without_jobs_is_restarted(site, state):
    may_be_on(site)
    assert site.call("resume", "gn01", guard=guard(state)).done == ["gn01"]
    assert site.begun() == ["restart gn01"]


@pytest.mark.parametrize(("by_hand", "verb"), [(True, "resume"), (False, "restart")])
def test_no_answer_stops_no_resume_and_by_hand_it_cuts_no_power(site, by_hand, verb):
    may_be_on(site)
    assert site.call("resume", "gn01", guard=guard(None, by_hand=by_hand)).done == ["gn01"]
    assert site.begun() == [f"{verb} gn01"]


def test_a_restart_by_hand_is_refused_where_jobs_may_run_but_for_force(site):
    assert "MIXED" in site.call("restart", "gn01", guard=guard("MIXED")).refused["gn01"]
    assert site.call("restart", "gn01", guard=guard(None)).refused
    assert site.begun() == []
    assert site.call("restart", "gn01", guard=guard("DOWN")).done == ["gn01"]
    assert site.call("restart", "gn01", guard=unguarded()).done == ["gn01"]
    assert site.begun() == ["restart gn01"] * 2


def test_many_nodes_are_one_look(site):
    asked: list[int] = []
    judge = guard("IDLE+POWERED_DOWN", asked=asked)
    for node in (f"gn{n:02}" for n in range(1, 30)):
        judge.why_not_suspend(node)
        judge.why_not_restart(node)
    assert len(asked) == 1


def test_one_that_gave_no_answer_is_not_asked_again(monkeypatch):
    monkeypatch.setattr(guards, "MEMORY_S", 0.0)
    for state, times in (("IDLE", 3), (None, 1)):
        asked: list[int] = []
        judge = guard(state, asked=asked)
        for _ in range(3):
            judge.why_not_suspend("gn01")
        assert len(asked) == times
