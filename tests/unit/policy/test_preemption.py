"""What preempting policies ask of leases, and what becomes of it in the leases' machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.formed import NOW, cluster, runs, waits
from support.jobs import T0
from support.memory_leases import MemoryLeases
from support.toy_slurm import ToySlurm, node

from gsched.engine.lease_driver import LeaseDriver
from gsched.engine.validate import validate
from gsched.model.decision import Grant, Renew, Revoke
from gsched.model.job import Capability, Exclusion, JobState, LeaseState, Wants
from gsched.model.jobtable import JobTable
from gsched.policy.registry import load

LEFT_ALONE = (Exclusion(Capability.PREEMPT, "no-checkpoint", ""),)


def decided(views, policy=None, gpus=8):
    return (policy or load("edf")).decide(cluster(views, gpu=gpus), {}, NOW)


def told(views, policy=None, gpus=8):
    """(kind, job) of every action."""
    actions = decided(views, policy, gpus).actions
    return [(type(a).__name__, a.key.job_id) for a in actions]


def test_who_begins_is_granted_and_who_gives_way_knows_for_whom():
    urgent = waits(2, 6, deadline=T0 + 10)
    views = [runs(waits(1, 8), lease_end=NOW), urgent]
    grant, revoke = decided(views).actions
    assert isinstance(grant, Grant)
    assert (grant.key, grant.length_s, grant.undo) == (urgent.key, 0, "revoke")
    assert isinstance(revoke, Revoke)
    assert (revoke.action_id, revoke.beneficiary, revoke.undo) == ("l1/revoke", urgent.key, "renew")
    assert (revoke.grace_s, revoke.valid_until) == (60, NOW + 660)
    assert decided(views, load("edf", grace_s=5)).actions[1].grace_s == 5


def test_a_lease_that_runs_or_a_job_that_cannot_save_is_not_touched():
    urgent = waits(2, 6, deadline=T0 + 10)
    for kept in (
        runs(waits(1, 8), lease_end=NOW + 1),
        replace(runs(waits(1, 8), lease_end=NOW), exclusions=LEFT_ALONE),
    ):
        assert told([kept, urgent]) == []
    assert told([runs(waits(1, 8)), urgent]) == [("Grant", 1)]  # first of all it gets a lease
    assert told([replace(runs(waits(1, 8)), exclusions=LEFT_ALONE), urgent]) == []


def test_leases_are_renewed_where_they_have_a_length_and_a_revoke_is_taken_back():
    over = runs(waits(1, 8), lease_end=NOW)
    assert told([over], load("edf")) == []
    renew, *_ = decided([over], load("edf", lease_s=900)).actions
    assert isinstance(renew, Renew)
    assert renew.length_s == 900
    told_to_save = runs(waits(1, 8), lease_end=NOW, lease_state=LeaseState.SIGNALLED)
    assert told([told_to_save]) == [("Renew", 1)]  # whoever it was for is gone


def test_a_job_that_cannot_start_is_given_nothing():
    held = replace(waits(1, 2), eligible=None)
    excluded = replace(waits(2, 2), exclusions=(Exclusion(Capability.REORDER, "x", ""),))
    without_gpus = replace(waits(3, 0))
    assert told([held, excluded, without_gpus, waits(4, 2)]) == [("Grant", 4)]
    assert told([waits(1, 2), waits(2, 2)], gpus=3) == [("Grant", 1)]


def test_jobs_of_more_gpus_than_are_left_are_passed_by_smaller_ones():
    views = [waits(1, 4, submit=T0), waits(2, 8, submit=T0 + 1), waits(3, 4, submit=T0 + 2)]
    assert told(views, load("tiresias")) == [("Grant", 1), ("Grant", 3)]


def test_it_wakes_up_when_a_lease_ends_or_a_job_comes_to_the_next_queue():
    running = runs(waits(1, 2), lease_end=NOW + 70)  # has received 2000 GPU-s
    policy = load("tiresias", threshold_gpu_s=2101)
    assert decided([running, waits(2)], policy).next_wakeup == NOW + 51
    assert decided([running], policy).next_wakeup == NOW + 70
    assert decided([running, waits(2)], load("tiresias-l")).next_wakeup == NOW + 70
    assert decided([waits(2)], policy).next_wakeup is None
    assert decided([runs(waits(1, 2), lease_end=NOW), waits(2)], load("edf")).next_wakeup is None
    leased = load("edf", lease_s=900)
    assert decided([waits(2)], leased).next_wakeup == NOW + 900  # of the lease that it grants
    assert decided([runs(waits(1, 2), lease_end=NOW)], leased).next_wakeup == NOW + 900


def test_a_live_job_of_which_nobody_tells_what_it_received_comes_to_the_second_queue_too():
    old = replace(runs(waits(1, 8), lease_end=NOW - 1), attained_gpu_s=None)  # 8 × 1000 GPU-s
    views = [old, waits(2, 8, submit=T0 + 1)]
    assert told(views, load("tiresias", threshold_gpu_s=8001)) == []
    assert told(views, load("tiresias", threshold_gpu_s=8000)) == [("Grant", 2), ("Revoke", 1)]


@pytest.mark.parametrize("name", ["srtf", "edf", "tiresias", "themis", "gandiva-fair", "optimus"])
def test_all_that_is_asked_passes_the_check_of_the_engine(name):
    views = [
        runs(waits(1, 4, duration_s=50_000, attained_gpu_s=50_000), lease_end=NOW - 1),
        runs(waits(2, 2, "b", duration_s=5000)),
        waits(3, 4, "b", duration_s=10, deadline=T0),
        waits(4, 1, "c", duration_s=10),
    ]
    state = cluster(views, gpu=8)
    kept, problems = validate(load(name).decide(state, {}, NOW), state, frozenset(Capability), NOW)
    assert problems == ()
    assert {type(a) for a in kept.actions} >= {Grant, Revoke}


class Site:
    """Jobs of 8 GPUs, a policy, and the leases' machine between them."""

    def __init__(self, gpus=8):
        self.gpus = gpus
        self.slurm = ToySlurm("c", T0)
        self.store = MemoryLeases()
        self.driver = LeaseDriver("c", self.store, self.slurm, self.slurm.clock)
        self.deadlines = {}
        self.policy = load("edf")

    def round(self):
        """One round; what was not done."""
        state = self.driver.seen(self.slurm.snapshot(), acting=True)
        views = [
            replace(v, wants=Wants(deadline=self.deadlines.get(v.key))) for v in state.jobs.views
        ]
        in_use = 8 * sum(v.holds_gpus for v in views)
        nodes = (replace(node("gn01", self.gpus), gpus_used=in_use),)
        state = replace(state, jobs=JobTable.from_views(views), nodes=nodes, as_of=self.slurm.now)
        decision = self.policy.decide(state, {}, self.slurm.now)
        decision, problems = validate(decision, state, frozenset(Capability), self.slurm.now)
        return [*problems, *self.driver.carry_out(decision, state)]


def test_live_the_job_with_the_earlier_deadline_gets_the_gpus():
    site = Site()
    first = site.slurm.submit()
    first.state = JobState.RUNNING
    assert site.round() == []
    (lease,) = site.store.standing("c")
    assert lease.lease.state is LeaseState.GRANTED
    urgent = site.slurm.submit()
    site.deadlines[urgent.key] = T0 + 99
    assert site.round() == []
    assert first.signals == []  # its lease runs
    site.slurm.now = lease.lease.end_time
    assert site.round() == []
    assert len(first.signals) == 1
    site.slurm.now += 30
    assert site.round() == []  # asks for the same once more: its grace goes on
    assert first.requeues == []
    site.slurm.now += 31
    assert site.round() == []
    assert len(first.requeues) == 1
    assert (first.wronged, urgent.wronged) == ([], [])


def test_live_others_are_not_told_while_one_is_about_to_give_way():
    site = Site(gpus=16)
    first, second = site.slurm.submit(), site.slurm.submit()
    first.state = second.state = JobState.RUNNING
    site.deadlines[first.key] = T0 + 5000
    assert site.round() == []
    urgent = site.slurm.submit()
    site.deadlines[urgent.key] = T0 + 99
    site.slurm.now += 3600
    assert site.round() == []
    assert (len(first.signals), len(second.signals)) == (0, 1)
    site.deadlines[second.key] = T0 + 100  # now the first would be the last of the order
    more_urgent = site.slurm.submit()
    site.deadlines[more_urgent.key] = T0 + 1
    site.slurm.now += 30
    assert site.round() == []  # who comes first now gets room of its own
    told = {g.key: g.revoke.beneficiary for g in site.store.standing("c")}
    assert told == {first.key: more_urgent.key.slurm_id, second.key: urgent.key.slurm_id}
    site.slurm.now += 31
    assert site.round() == []
    assert (len(second.signals), len(second.requeues)) == (1, 1)
    assert (len(first.signals), len(first.requeues)) == (1, 0)


def test_live_a_revoke_is_taken_back_when_nobody_needs_the_gpus_any_more():
    site = Site()
    first = site.slurm.submit()
    first.state = JobState.RUNNING
    site.round()
    urgent = site.slurm.submit()
    site.deadlines[urgent.key] = T0 + 99
    site.slurm.now += 3600
    site.round()
    assert len(first.signals) == 1
    urgent.state = JobState.CANCELLED
    site.slurm.now += 10
    assert site.round() == []
    (lease,) = site.store.standing("c")
    assert lease.lease.state is LeaseState.GRANTED
    site.slurm.now += 600
    site.round()
    assert first.requeues == []
