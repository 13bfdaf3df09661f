"""The one list of jobs that are never touched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gsched.model.job import Capability, JobState
from gsched.slurm.exclusions import CHANGES_JOB, Rules, exclusions
from gsched.slurm.parse_priority import parse_priorities
from gsched.slurm.parse_queue import parse_free_text, parse_queue

REORDER, PREEMPT, ADMIT = Capability.REORDER, Capability.PREEMPT, Capability.ADMIT
CHANGES = set(CHANGES_JOB)


@pytest.fixture
def jobs(recorded, separator):
    """Recorded (row, priority) by name."""
    texts = parse_free_text(recorded("squeue-text.txt"), separator)
    priorities = parse_priorities(recorded("sprio.txt"), separator)
    return {
        texts[row.raw_id].name: (row, priorities.get(row.raw_id))
        for row in parse_queue(recorded("squeue.txt"), separator).rows
    }


def found(row, priority=None, rules=None, **flags):
    answers = dict.fromkeys(("opted_out", "is_cron", "is_foreign"), False) | {"saves": True} | flags
    return exclusions(row, priority, rules or Rules(), **answers)


def barred(code, *args, **flags):
    """The capabilities that `code` keeps away."""
    return {e.capability for e in found(*args, **flags) if e.code == code}


def codes(capability, *args, **flags):
    return {e.code for e in found(*args, **flags) if e.capability is capability}


@pytest.mark.parametrize("name", ["two-nodes", "mixed-types", "shards", "moved", "sunk", "later"])
def test_an_ordinary_job_may_be_moved(jobs, name):
    assert found(*jobs[name]) == ()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("single", "unsplit-array"),
        ("dep", "unsplit-array"),
        ("high", "held"),
        ("manual", "manual-priority"),
        ("manual-site", "manual-priority"),
    ],
)
def test_what_may_not_be_changed_for_now(jobs, name, code):
    assert codes(REORDER, *jobs[name]) == {code}
    assert barred(code, *jobs[name]) == CHANGES


@pytest.mark.parametrize(("name", "code"), [("alloc", "interactive"), ("course", "reservation")])
def test_what_is_left_alone_altogether(jobs, name, code):
    assert codes(REORDER, *jobs[name]) == {code}
    assert barred(code, *jobs[name]) == {*CHANGES, ADMIT}


def test_heterogeneous_jobs(jobs):
    row, _ = jobs["het"]
    assert barred("het-component", row) == {*CHANGES, ADMIT}


def test_no_requeue_counts_for_what_takes_a_requeue(jobs):
    row, priority = jobs["j.sh"]  # --no-requeue
    assert codes(REORDER, row, priority) == set()
    assert barred("no-requeue", row, priority) == {PREEMPT, Capability.RESIZE}


@pytest.mark.parametrize(
    ("flags", "code", "capabilities"),
    [
        ({"opted_out": True}, "opted-out", {*CHANGES, ADMIT}),
        ({"is_cron": True}, "cron", {*CHANGES, ADMIT}),
        ({"is_foreign": True}, "foreign-site-factor", {REORDER}),
    ],
)
def test_what_the_caller_knows(jobs, flags, code, capabilities):
    assert codes(REORDER, *jobs["moved"], **flags) == {code}
    assert barred(code, *jobs["moved"], **flags) == capabilities


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        (Rules(users=frozenset({"root"})), "excluded-user"),
        (Rules(users=frozenset({"ann"})), None),
        (Rules(accounts=frozenset({"root"})), "excluded-account"),
        (Rules(accounts=frozenset({"lab1"})), None),
        (Rules(partitions=frozenset({"gpu"})), "out-of-scope"),
        (Rules(partitions=frozenset({"gpu", "long"})), None),
        (Rules(partitions=frozenset({"other"})), "out-of-scope"),
        (Rules(), None),
    ],
)
def test_what_the_site_excludes(jobs, rules, code):
    """The job may run in gpu and long: with one of them out of scope it is not moved."""
    row, priority = jobs["mixed-types"]
    wanted = {code} if code else set()
    assert codes(REORDER, row, priority, rules) == wanted
    assert barred(code, row, priority, rules) == ({*CHANGES, ADMIT} if code else set())


def test_a_held_job_says_why(jobs):
    row, _ = jobs["high"]
    assert {e.detail for e in found(row)} == {"held (JobHeldUser)"}
    assert {e.detail for e in found(replace(row, reason=""))} == {"held"}


def test_only_jobs_whose_users_have_asked_for_checkpoints_are_preempted(jobs):
    row, _ = jobs["run-typed"]
    answers = dict.fromkeys(("opted_out", "is_cron", "is_foreign"), False)
    by_default = exclusions(row, None, Rules(), **answers)
    assert [(e.capability, e.code) for e in by_default] == [(PREEMPT, "no-checkpoint")]
    assert exclusions(row, None, Rules(), saves=True, **answers) == ()
    waiting = replace(row, state=JobState.PENDING)
    assert exclusions(waiting, None, Rules(), **answers) == ()


def test_the_out_of_scope_partition_is_named(jobs):
    first, *_ = found(*jobs["mixed-types"], Rules(partitions=frozenset({"gpu"})))
    assert first.detail == "partition long is not among those that gsched orders"


def test_a_running_job_of_priority_zero_is_not_held(jobs):
    row, _ = jobs["run-typed"]
    assert codes(REORDER, replace(row, priority=0)) == set()
    assert codes(REORDER, replace(row, priority=0, state=JobState.PENDING)) == {"held"}


def test_all_reasons_are_given(jobs):
    row, _ = jobs["alloc"]
    many = replace(row, priority=0, reservation="course", can_requeue=False)
    assert codes(REORDER, many, is_cron=True) == {"cron", "interactive", "reservation", "held"}
    assert codes(PREEMPT, many, is_cron=True) == {
        "cron", "interactive", "reservation", "held", "no-requeue"}  # fmt: skip
    assert codes(ADMIT, many, is_cron=True) == {"cron", "interactive", "reservation"}


def test_every_exclusion_explains_itself(jobs):
    for row, priority in jobs.values():
        for exclusion in found(row, priority, opted_out=True, is_cron=True, is_foreign=True):
            assert len(exclusion.detail) > 3


def test_a_job_in_the_reservation_that_gsched_made_for_it_is_managed(jobs):
    row, priority = jobs["two-nodes"]
    own = replace(row, reservation=f"gsched_target_{row.slurm_id}")
    ours = Rules(reservations=frozenset({own.reservation, "gsched_target_1000"}))
    assert found(own, priority, ours) == ()
    assert codes(REORDER, own, priority) == {"reservation"}  # nobody knows that it is ours
    guest = replace(row, reservation="gsched_target_1000")
    assert codes(REORDER, guest, priority, ours) == {"reservation"}
