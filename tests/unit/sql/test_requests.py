"""Captured requests, as people read them."""

from __future__ import annotations

from dataclasses import replace

from support.servers import each_engine

from gsched.model.job import JobKey, Wants
from gsched.model.jobid import parse_job_id
from gsched.model.user_request import UserRequest

KEY = JobKey("alpha", 7, epoch=1000)
REQUEST = UserRequest(KEY, "名前", "gs1{share}", Wants(shareable=True), 2000)

pytestmark = each_engine


def tokens(history, job=None, **facts):
    wanted = None if job is None else parse_job_id(job)
    return [r.token for r in history.requests("alpha", wanted, **facts)]


def test_all_that_a_job_ever_asked_for_the_newest_first(history):
    task = replace(REQUEST, key=replace(KEY, array_task=3), token="gs1{n=3}", first_seen=2001)
    other = replace(REQUEST, key=replace(KEY, job_id=8), token="gs1{n=8}", first_seen=2002)
    later = replace(REQUEST, token="gs1{}", wants=Wants(), first_seen=2003)
    store = history.request_store()
    for request in (REQUEST, task, other, later):
        store.capture([request])
    assert tokens(history) == ["gs1{}", "gs1{n=8}", "gs1{n=3}", "gs1{share}"]
    assert tokens(history, "7") == ["gs1{}", "gs1{n=3}", "gs1{share}"]
    assert tokens(history, "7_3") == ["gs1{n=3}"]
    assert tokens(history, limit=2) == ["gs1{}", "gs1{n=8}"]
    assert history.requests("alpha", parse_job_id("7"))[-1] == REQUEST
    assert history.requests("beta") == []
