"""The order of ``gsched queue``, its note, and to which job an answer of the daemon belongs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.queue import row

from gsched.app.daemon_note import NO_DAEMON, note_about
from gsched.app.queue import list_queue, view_listing, view_queue
from gsched.app.queue_filter import QueueFilter
from gsched.app.queued_job import QueuedJob
from gsched.config.settings import Settings
from gsched.explain.words import moment
from gsched.model.history import Reject
from gsched.model.job import UNLIMITED_S, JobState
from gsched.slurm.records import FreeText, QueueListing, SlurmConfig

AT = 10_000
ANSWERED: dict[str, Any] = {"as_of": AT - 30, "interval_s": 30, "acting": True}


def test_the_note_says_what_is_wrong_with_the_answer():
    assert note_about(None, AT) == NO_DAEMON
    assert note_about(ANSWERED, AT) == ""
    assert "observes" in note_about(ANSWERED | {"acting": False}, AT)
    assert "PrivateData" in note_about(ANSWERED | {"private": True, "as_of": 0}, AT)


def test_an_answer_grows_old_after_ten_rounds():
    assert note_about(ANSWERED | {"as_of": AT - 300}, AT) == ""
    assert "301 s old" in note_about(ANSWERED | {"as_of": AT - 301}, AT)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state_dir=tmp_path)


def answer(settings: Settings, **jobs: Any) -> None:
    document = {"version": 1, "cluster": "c", "policy": "qssf", **ANSWERED, "jobs": jobs}
    settings.status_file.write_text(json.dumps(document))


def job(settings: Settings, *args: Any, **facts: Any) -> QueuedJob:
    (only,) = view_queue(settings, [row(*args, **facts)], {}, "c").jobs
    return only


def ranked(queue: str, position: int) -> dict[str, Any]:
    return {"submit_time": 1000, "rank": {"queue": queue, "position": position, "of": 2}}


def test_places_ranks_first_then_priorities_then_what_ends_first(settings):
    answer(settings, **{"5": ranked("a", 1), "4": ranked("a", 2), "3": ranked("b", 1)})
    unranked = [row(raw_id, priority=p) for raw_id, p in ((8, 70), (6, 7), (7, 7))]
    running = [
        row(raw_id, state=JobState.RUNNING, start_time=1000, end_time=end)
        for raw_id, end in ((2, 2000), (1, 3000), (9, None))
    ]
    wanted = [row(5), row(4), row(3), *unranked, *running]
    view = view_queue(settings, wanted[::-1], {}, "c")
    assert [j.row for j in view.jobs] == wanted


def test_without_a_rank_squeues_own_order_stands(settings):
    rows = [row(3, priority=99), row(7), row(5), row(9, state_text="RUNNING"), row(6)]
    assert [j.raw_id for j in view_queue(settings, rows, {}, "c").jobs] == [3, 5, 7, 9, 6]


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


@pytest.mark.parametrize(
    ("facts", "place"),
    [
        ({"is_unsplit_array": True, "array_tasks": "2%1"}, "1/2"),
        ({"is_unsplit_array": True, "array_tasks": "1-2"}, None),
        ({"job_id": 7, "array_task": 2}, "1/2"),
    ],
)
def test_the_last_task_of_an_array_has_its_answer_from_when_it_waits_alone(settings, facts, place):
    answer(settings, **{"7_2": ranked("gpu", 1)})
    found = job(settings, 7, **facts)
    assert (found.rank_text if found.rank else None) == place


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


def test_times_of_a_job_that_waits_runs_or_has_ended(settings, monkeypatch):
    monkeypatch.setattr("gsched.app.queue.now", lambda: 5000)
    waiting = job(settings, 1, submit_time=1000, start_time=9000, end_time=9060)
    assert (waiting.waited_s, waiting.running_s, waiting.time_left_s) == (4000, None, None)
    assert (waiting.start_time, waiting.end_time, waiting.slurm_start_time) == (None, None, 9000)
    runs = job(
        settings, 2, state=JobState.RUNNING, submit_time=1000, start_time=4000, end_time=7600,
        time_limit_s=3600,
    )  # fmt: skip
    assert (runs.waited_s, runs.running_s, runs.time_left_s) == (3000, 1000, 2600)
    assert (runs.start_time, runs.end_time, runs.slurm_start_time) == (4000, 7600, None)
    endless = job(
        settings, 2, state=JobState.RUNNING, start_time=4000, end_time=10**9,
        time_limit_s=UNLIMITED_S,
    )  # fmt: skip
    assert endless.time_left_s is None
    ended = job(settings, 3, state=JobState.FAILED, start_time=2000, end_time=2500)
    assert (ended.running_s, ended.time_left_s, ended.waited_s) == (500, None, 1000)
    withdrawn = job(settings, 4, state=JobState.CANCELLED, end_time=1700)
    assert (withdrawn.running_s, withdrawn.waited_s) == (None, 700)


def test_an_array_can_be_shown_task_by_task(settings):
    array = job(settings, 7, is_unsplit_array=True, array_tasks="1-5:2,9%2")
    assert array.slurm_id == "7_[1-5:2,9%2]"
    assert [task.slurm_id for task in array.tasks()] == ["7_1", "7_3", "7_5", "7_9"]
    odd = job(settings, 7, is_unsplit_array=True, array_tasks="1-5...")
    assert [task.slurm_id for task in odd.tasks()] == ["7_[1-5...]"]
    assert [task.slurm_id for task in job(settings, 8).tasks()] == ["8"]


def test_what_is_not_understood_is_kept_counted_and_said(settings):
    listing = QueueListing(
        (row(1, state=JobState.UNKNOWN, state_text="NEW_STATE"),),
        (Reject("squeue", 2, "no submit time: ''", "2|x"),),
        {1: FreeText("train", "a note")},
    )
    view = view_listing(settings, listing, "c")
    assert view.warnings() == ["lines of squeue that are not understood: 1 (no submit time: '')"]
    document = view.document()
    assert document["counts"] == {"NEW_STATE": 1}
    assert document["rejects"] == [{"why": "no submit time: ''", "raw": "2|x"}]
    assert document["jobs"][0]["name"] == "train"
    assert document["jobs"][0]["comment"] == "a note"


def test_other_clusters_of_slurms_environment_are_said_to_be_missing(settings):
    view = view_queue(settings, [], {}, "alpha")
    assert view.warnings("") == view.warnings("alpha") == []
    assert view.warnings("beta,alpha") == ["SLURM_CLUSTERS names beta,alpha; this is alpha alone"]


def test_of_a_job_that_the_daemon_has_not_seen_it_is_said_when_it_looks(settings, monkeypatch):
    monkeypatch.setattr("gsched.app.queue.now", lambda: AT)
    answer(settings, **{"7": ranked("a", 1)})
    rows = [row(7), row(8, submit_time=AT - 5), row(9, submit_time=2000)]
    view = view_queue(settings, [*rows, row(10, state=JobState.RUNNING)], {}, "c")
    notes = {job.raw_id: view.note_on(job) for job in view.jobs}
    looked = f"it looked at {moment(AT - 30)}, and looks every 30 s"
    assert notes == {
        7: "",
        8: f"the gsched daemon has not seen this job yet: {looked}",
        9: f"the gsched daemon said nothing of this job: {looked}",
        10: "",
    }
    monkeypatch.setattr("gsched.app.queue.now", lambda: AT + 1000)
    view = view_queue(settings, rows, {}, "c")
    assert {view.note_on(job) for job in view.jobs} == {view.note}  # it is silent


def test_a_single_job_that_is_listed_has_its_own_note(settings, monkeypatch):
    class Slurm:
        def config(self):
            return SlurmConfig({"ClusterName": "c"})

        def queue(self, *_args, **_options):
            return QueueListing((row(7), row(8, submit_time=AT - 5)), ())

    monkeypatch.setattr("gsched.app.queue.now", lambda: AT)
    monkeypatch.setattr("gsched.app.queue.slurm_client", lambda _: Slurm())
    answer(settings, **{"7": ranked("a", 1)})
    assert list_queue(settings, QueueFilter()).note == ""
    assert "has not seen this job yet" in list_queue(settings, QueueFilter(job_ids=("8",))).note


def test_an_answer_that_may_not_be_read_is_not_called_absent(settings, monkeypatch):
    def denied(*_args, **_options):
        raise PermissionError(13, "Permission denied")

    settings.status_file.write_text("{}")
    assert "is damaged" in view_queue(settings, [], {}, "c").note
    monkeypatch.setattr(Path, "open", denied)
    monkeypatch.setattr(Path, "read_text", denied)
    note = view_queue(settings, [], {}, "c").note
    assert note == f"no predictions: {settings.status_file} is not readable for you " + (
        "(Permission denied)"
    )


def test_a_job_without_a_limit_has_none_in_its_document(settings):
    found = job(settings, 7, time_limit_s=UNLIMITED_S)
    assert found.document()["time_limit_s"] is None
    assert job(settings, 7).document()["time_limit_s"] == 60
