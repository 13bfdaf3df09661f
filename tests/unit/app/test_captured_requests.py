"""What `gsched show` tells of requests: of a job that waits, and of one that has gone."""

from __future__ import annotations

import pytest
from support.history import attempt, batch
from support.queue import StandInSlurm, row

from gsched.app.requests import captured_requests
from gsched.app.show import show_job
from gsched.config.settings import Settings
from gsched.model.job import JobKey, JobState, Wants
from gsched.model.jobid import parse_job_id
from gsched.model.user_request import UserRequest
from gsched_sql import History


def request(token, first_seen, job_id=7, **part):
    key = JobKey("alpha", job_id, epoch=1000, **part)
    return UserRequest(key, "alice", token, Wants(shareable=True), first_seen)


@pytest.fixture
def settings(tmp_path):
    found = Settings(state_dir=tmp_path)
    History.create(found.database_url)
    with History.open(found.database_url) as history:
        tasks = [attempt(7, 1000, array_task=task) for task in (1, 2)]
        history.ingest(batch(*tasks, attempt(9, 1000)), source_key=None)
    return found


def capture(settings, *requests):
    with History.open(settings.database_url) as history:
        for made in requests:
            history.request_store().capture([made])


@pytest.fixture
def slurm(monkeypatch):
    made = StandInSlurm()
    monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: made)
    return made


def shown(settings, job):
    return [asked["token"] for asked in show_job(settings, job).document["requests"]]


def test_they_stay_when_the_job_has_left_the_queue(settings, slurm):
    capture(settings, request("gs1{share}", 2000, 9))
    slurm.rows = (row(9),)
    assert shown(settings, "9") == ["gs1{share}"]
    slurm.rows = ()
    assert shown(settings, "9") == ["gs1{share}"]


def test_a_task_has_its_own_and_its_arrays_the_newest_first(settings, slurm):
    capture(
        settings,
        request("own", 2000, array_task=1),
        request("array", 2001),
        request("later", 2002, array_task=1),
        request("other", 2003, array_task=2),
        request("job", 2004, 9),
    )
    assert shown(settings, "7_1") == ["later", "array", "own"]
    assert shown(settings, "7") == ["other", "later", "array", "own"]


def test_many_requests_of_other_tasks_hide_none(settings):
    capture(settings, request("array", 2000))
    capture(settings, *(request(f"n{n}", 2001 + n, array_task=100 + n) for n in range(120)))
    found = captured_requests(settings, parse_job_id("7_1"), "alpha")
    assert [asked["token"] for asked in found] == ["array"]


def test_a_waiting_job_shows_when_slurm_expects_it_to_start(settings, slurm):
    slurm.rows = (row(9, start_time=5000, end_time=6000),)
    facts = show_job(settings, "9").document["slurm"]
    assert facts is not None
    times = [facts[key] for key in ("start_time", "end_time", "slurm_start_time")]
    assert times == [None, None, 5000]
    running = {"state": JobState.RUNNING, "state_text": "RUNNING"}
    slurm.rows = (row(9, start_time=5000, end_time=6000, **running),)
    facts = show_job(settings, "9").document["slurm"]
    assert facts is not None
    times = [facts[key] for key in ("start_time", "end_time", "slurm_start_time")]
    assert times == [5000, 6000, None]
