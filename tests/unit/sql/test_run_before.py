"""For how long the attempts of a job have run before the present one."""

from __future__ import annotations

from support.history import CLUSTER, attempt, batch, pending, running
from support.servers import each_engine

from gsched.model.job import JobKey, JobState

KEY = JobKey(CLUSTER, 7, epoch=1000)


def requeued(submit_time, start_time, end_time, **facts):
    return attempt(
        submit_time=submit_time, start_time=start_time, end_time=end_time,
        state=JobState.REQUEUED, state_text="REQUEUED", **facts,
    )  # fmt: skip


@each_engine
def test_the_attempts_before_count_and_the_present_one_does_not(history):
    history.ingest(
        batch(
            requeued(1000, 1010, 1110),
            requeued(1200, 1250, 1300),
            requeued(1400, None, None),  # cancelled by its requeue before it ran
            running(submit_time=1500, start_time=1600, restarts=3),
            attempt(8, 1000),
        ),
        source_key=None,
    )
    ran = history.leases().run_before
    assert ran(CLUSTER, {KEY: 1500}) == {KEY: 150}
    assert ran(CLUSTER, {KEY: 1400}) == {KEY: 150}
    assert ran(CLUSTER, {KEY: 1200}) == {KEY: 100}
    assert ran(CLUSTER, {KEY: 1000}) == {}
    # the history has not heard of the present attempt yet
    assert ran(CLUSTER, {KEY: 9999}) == {KEY: 150 + 9999 - 1600}
    other = JobKey(CLUSTER, 7, epoch=1)  # another job of this number
    assert ran(CLUSTER, {KEY: 1500, other: 1500}) == {KEY: 150}
    assert ran("elsewhere", {KEY: 1500}) == {}
    assert ran(CLUSTER, {}) == {}


@each_engine
def test_an_attempt_without_an_end_has_ended_when_the_next_was_submitted(history):
    history.ingest(
        batch(running(start_time=1010), pending(submit_time=1300, restarts=1)), source_key=None
    )
    assert history.leases().run_before(CLUSTER, {KEY: 1300}) == {KEY: 290}
