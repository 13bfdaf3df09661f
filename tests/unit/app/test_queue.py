"""The order of ``gsched queue``, its note, and to which job an answer of the daemon belongs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.queue import row

from gsched.app.queue import NO_DAEMON, QueuedJob, _note, _place, view_queue
from gsched.config.settings import Settings
from gsched.model.job import JobState

AT = 10_000
ANSWERED: dict[str, Any] = {"as_of": AT - 30, "interval_s": 30, "acting": True}


def test_the_note_says_what_is_wrong_with_the_answer():
    assert _note(None, AT) == NO_DAEMON
    assert _note(ANSWERED, AT) == ""
    assert "observes" in _note(ANSWERED | {"acting": False}, AT)
    assert "PrivateData" in _note(ANSWERED | {"private": True, "as_of": 0}, AT)


def test_an_answer_grows_old_after_ten_rounds():
    assert _note(ANSWERED | {"as_of": AT - 300}, AT) == ""
    assert "301 s old" in _note(ANSWERED | {"as_of": AT - 301}, AT)
    assert "301 s old" in _note({"as_of": AT - 301, "acting": True}, AT)  # rounds of 30 s
    assert "does not run" in _note({"interval_s": 30, "acting": True}, AT)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path)


def answer(settings: Settings, **jobs: Any) -> None:
    document = {"version": 1, "cluster": "c", "policy": "qssf", **ANSWERED, "jobs": jobs}
    settings.status_file.write_text(json.dumps(document))


def job(settings: Settings, *args: Any, **facts: Any) -> QueuedJob:
    (only,) = view_queue(settings, [row(*args, **facts)], {}, "c").jobs
    return only


def test_places_ranks_first_then_priorities_then_what_runs(settings):
    waiting = job(settings, 9)
    ranked = [
        replace(waiting, raw_id=raw_id, rank={"queue": queue, "position": position, "of": 2})
        for raw_id, queue, position in ((5, "a", 1), (4, "a", 2), (3, "b", 1))
    ]
    unranked = [
        replace(waiting, raw_id=raw_id, priority=p) for raw_id, p in ((8, 70), (6, 7), (7, 7))
    ]
    running = [
        replace(waiting, raw_id=raw_id, is_pending=False, running_s=seconds)
        for raw_id, seconds in ((2, 100), (1, 10), (0, None))
    ]
    mixed = [*running[::-1], *unranked[::-1], *ranked[::-1]]
    assert sorted(mixed, key=_place) == [*ranked, *unranked, *running]


def test_an_answer_is_about_one_attempt_of_one_job(settings):
    rank = {"queue": "gpu", "position": 1, "of": 2}
    duration = {"mean": 40.0, "quantiles": [], "similar_jobs": 1}
    answer(settings, **{"7": {"submit_time": 1000, "rank": rank, "duration_s": duration}})
    assert job(settings, 7).rank_text == "1/2"
    assert job(settings, 7).predicted_duration_s == 40.0
    requeued = job(settings, 7, submit_time=1500)
    assert (requeued.rank, requeued.predicted_duration_s, requeued.answer) == (None, None, {})
    running = job(settings, 7, state=JobState.RUNNING, start_time=1001, node_list="n1")
    assert (running.rank, running.reason) == (None, "n1")
    assert job(settings, 7, array_task=7).rank is None


def test_the_answer_of_another_clusters_daemon_is_none(settings):
    rank = {"queue": "gpu", "position": 1, "of": 2}
    answer(settings, **{"7": {"submit_time": 1000, "rank": rank}})
    view = view_queue(settings, [row(7)], {}, "another")
    assert view.jobs[0].rank is None
    assert view.note == NO_DAEMON


@pytest.mark.parametrize("said", [None, [], "rank", {}, {"rank": {"position": 1, "of": 2}}])
def test_an_answer_that_names_no_attempt_is_none(settings, said):
    answer(settings, **{"7": said})
    assert job(settings, 7).answer == {}
