from __future__ import annotations

from support.jobs import T0, past_job, view

from gsched.model.job import UNLIMITED_S, JobState
from gsched.predict.attributes import of_past, of_view, select_jobs


def test_a_live_job_and_its_record_look_the_same():
    live = view(7, gpus=2, cpus=8, submit=T0, name="x", partitions=("gpu", "other"))
    past = past_job(7, 10, end=T0 + 60, submit=T0, gpus=2, cpus=8, name="x")
    assert of_view(live) == of_past(past)


def test_no_limit_is_unknown_however_it_is_spelt():
    assert of_view(view(1, time_limit_s=UNLIMITED_S)).time_limit_s is None
    assert of_view(view(1, time_limit_s=3600)).time_limit_s == 3600
    assert of_past(past_job(1, 5, end=T0, time_limit_s=UNLIMITED_S)).time_limit_s is None


def test_size_is_gpus_or_else_cpus():
    assert of_view(view(1, gpus=4, cpus=32)).size == "gpu:4"
    assert of_view(view(1, gpus=0, cpus=32)).size == "cpu:32"
    assert of_view(view(1, gpus=4, cpus=32)).num_units == 4
    assert of_view(view(1, gpus=0, cpus=32)).num_units == 32
    assert of_view(view(1, gpus=0, cpus=0)).num_units == 1
    assert of_view(view(1, partitions=())).partition == ""


def test_selection_keeps_the_order_of_endings_and_counts_what_it_leaves_out():
    jobs = [
        past_job(1, 10, end=T0 + 30),
        past_job(2, 10, end=T0 + 20, state=JobState.FAILED),
        past_job(3, 10, end=T0 + 20, state=JobState.TIMEOUT),
        past_job(4, 10, end=T0 + 40),
        past_job(5, 10, end=T0 + 41),
        past_job(6, 10, end=T0, state=JobState.NODE_FAIL),
        past_job(7, 10, end=T0, state=JobState.PREEMPTED),
        past_job(8, -5, end=T0),
        past_job(9, T0 + 20, end=T0 + 20),
    ]
    kept, left_out = select_jobs(jobs, as_of=T0 + 40)
    assert [job.job_id for job in kept] == [2, 3, 1]
    assert left_out == {
        "ended-later": 2,
        "ended-by-cluster": 2,
        "ended-before-start": 1,
        "never-ran": 1,
    }
    assert select_jobs(reversed(jobs), as_of=T0 + 40)[0] == kept
