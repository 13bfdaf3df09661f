"""Which attempts are one job: requeues, restarts, and ids that are used again."""

from __future__ import annotations

import itertools

import pytest
from support.history import CLUSTER, attempt, batch, pending, running

from gsched.model.job import JobKey, JobState
from gsched.model.logical_jobs import REQUEUE_WINDOW_S
from gsched.model.past import HistoryFilter

FIRST = attempt(7, 1000, state=JobState.REQUEUED)  # ends at 1110
DAY = 86400


class Live:
    """A line of squeue, as far as the history looks at it."""

    def __init__(self, job_id, submit_time, restarts=0, array_task=None, het_offset=None):
        self.job_id = job_id
        self.submit_time = submit_time
        self.restarts = restarts
        self.array_task = array_task
        self.het_offset = het_offset


def epochs(history, *records):
    """Ingest the records one by one; gives (epoch, submit times of its attempts) of all jobs."""
    for record in records:
        history.ingest(batch(record), source_key=None)
    jobs = history.jobs(HistoryFilter())
    found = [(job.key.epoch, tuple(a.submit_time for a in job.attempts)) for job in jobs]
    return sorted(found)


def test_a_requeued_attempt_is_continued_however_late(history):
    # Recorded with an epilog of 9 s: the attempt ended at 54, the new submit time was 63.
    assert epochs(history, FIRST, attempt(7, 1119)) == [(1000, (1000, 1119))]
    assert epochs(history, attempt(7, 1119 + DAY)) == [(1000, (1000, 1119)), (87519, (87519,))]


@pytest.mark.parametrize("state", [JobState.PREEMPTED, JobState.NODE_FAIL, JobState.FAILED])
def test_an_attempt_soon_after_an_end_continues_the_job(history, state):
    first = attempt(7, 1000, state=state)
    second = attempt(7, 1110 + REQUEUE_WINDOW_S)
    assert epochs(history, second, first) == [(1000, (1000, 1410))]


def test_an_id_used_again_later_is_another_job(history):
    second = attempt(7, 1110 + REQUEUE_WINDOW_S + 1)
    assert epochs(history, second, attempt(7, 1000)) == [(1000, (1000,)), (1411, (1411,))]


def test_another_user_never_continues_a_job(history):
    assert len(epochs(history, FIRST, attempt(7, 1111, user="bob"))) == 2


def test_the_restart_count_decides_where_it_is_known(history):
    again = running(7, 1112, restarts=0)  # slurmctld lost its state and counts ids from 1 again
    assert len(epochs(history, attempt(7, 1000), again)) == 2
    much_later = running(7, 1000 + DAY, restarts=2)
    assert epochs(history, much_later)[-1] == (1112, (1112, 1000 + DAY))


def test_an_end_that_nobody_has_told_is_no_sign_until_it_arrives(history):
    sightings = (running(7, 1000), attempt(7, 1119, source="jobcomp"))
    assert len(epochs(history, *sightings)) == 2
    assert epochs(history, attempt(7, 1000, state=JobState.REQUEUED)) == [(1000, (1000, 1119))]


def test_an_attempt_in_between_that_arrives_last_joins_both_sides(history):
    third = attempt(7, 1119 + 119)
    second = attempt(7, 1119, state=JobState.REQUEUED)
    assert epochs(history, third, FIRST, second) == [(1000, (1000, 1119, 1238))]


def test_no_wait_is_made_up_where_no_start_was_told(history):
    history.ingest(batch(attempt(7, 1000, start_assumed=1), attempt(8, 1000)), source_key=None)
    waits = {job.key.job_id: job.queueing_s for job in history.jobs(HistoryFilter())}
    assert waits[7] is None
    assert waits[8] is not None


def test_slots_of_one_id_do_not_mix(history):
    records = [
        attempt(7, 1000, array_task=task, het_offset=offset)
        for task, offset in [(None, None), (0, None), (1, None), (None, 0), (None, 1)]
    ]
    assert len(epochs(history, *records)) == 5
    keys = {job.key for job in history.jobs(HistoryFilter())}
    assert JobKey(CLUSTER, 7, 1, None, 1000) in keys
    assert JobKey(CLUSTER, 7, None, 0, 1000) in keys


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_figures_of_a_requeued_job_in_any_order(history, order):
    attempts = [
        attempt(7, 1000, state=JobState.REQUEUED, start_time=1010, end_time=1110),
        attempt(7, 1119, state=JobState.PREEMPTED, start_time=1240, end_time=1300, num_gpus=None),
        attempt(7, 1310, start_time=1400, end_time=1450, name="renamed", num_gpus=4),
    ]
    for index in order:
        history.ingest(batch(attempts[index]), source_key=None)
    (job,) = history.jobs(HistoryFilter())
    assert job.key.epoch == 1000
    assert [a.submit_time for a in job.attempts] == [1000, 1119, 1310]
    assert (job.start_time, job.end_time, job.duration_s) == (1400, 1450, 50)
    assert job.queueing_s == 1400 - 1000 - 100 - 60  # waited in all three attempts
    assert job.gpu_time_s == 2 * 100 + 4 * 60 + 4 * 50  # an unknown count is the job's own
    assert (job.name, job.num_gpus, job.state) == ("renamed", 4, JobState.COMPLETED)


def test_a_job_whose_last_known_attempt_was_requeued_is_not_over(history):
    history.ingest(batch(FIRST), source_key=None)
    (job,) = history.jobs(HistoryFilter())
    assert (job.end_time, job.duration_s, job.gpu_time_s) == (None, None, None)
    assert history.past_jobs(CLUSTER, 0, 10**10).jobs == []


def test_a_job_cancelled_while_waiting_used_nothing_and_did_not_start(history):
    history.ingest(
        batch(attempt(state=JobState.CANCELLED, num_nodes=0, start_time=1110)), source_key=None
    )
    (job,) = history.jobs(HistoryFilter())
    assert (job.start_time, job.end_time, job.queueing_s, job.gpu_time_s) == (None, 1110, None, 0)


def test_live_attempts_find_the_epoch_of_their_job(history):
    history.ingest(batch(FIRST, attempt(8, 1000), attempt(9, 1000, array_task=3)), source_key=None)
    live = [
        Live(7, 1119, restarts=1),  # not in the history yet, but restarted
        Live(7, 1000),  # the attempt itself
        Live(8, 90000),  # the id is used again
        Live(9, 1500, restarts=1, array_task=3),
        Live(9, 1500, restarts=1, array_task=4),  # another task: nothing known of it
        Live(10, 1234, restarts=5),
    ]
    assert history.epochs(CLUSTER, live) == [1000, 1000, 90000, 1000, 1500, 1234]
    assert history.epochs("elsewhere", live) == [row.submit_time for row in live]


def test_a_live_attempt_keeps_its_epoch_when_it_is_ingested(history):
    history.ingest(batch(FIRST), source_key=None)
    live = Live(7, 1119, restarts=1)
    before = history.epochs(CLUSTER, [live])
    history.ingest(batch(pending(7, 1119, restarts=1)), source_key=None)
    assert history.epochs(CLUSTER, [live]) == before == [1000]


def test_what_was_submitted_before_the_end_is_another_job(history):
    assert len(epochs(history, attempt(7, 1000), attempt(7, 1109))) == 2  # the first ends at 1110
    assert len(epochs(history, attempt(8, 1000), attempt(8, 1110))) == 3


def test_no_gpu_time_where_the_clock_of_one_attempt_went_back(history):
    back = attempt(7, 1000, state=JobState.PREEMPTED, start_time=1200, end_time=1110)
    history.ingest(batch(back, attempt(7, 1119)), source_key=None)
    (job,) = history.jobs(HistoryFilter())
    assert (len(job.attempts), job.gpu_time_s, job.cpu_time_s) == (2, None, None)
