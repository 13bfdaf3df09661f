"""To which attempt a heartbeat belongs, what it means, and that one that lies is no harm."""

from __future__ import annotations

import os
import pwd
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.heartbeats import record, tell
from support.queue import row

from gsched.app.job_progress import NOTHING_TOLD, SILENT_S, JobProgress
from gsched.app.queued_job import QueuedJob
from gsched.app.told_progress import CLOCK_SKEW_S, told_by, with_progress
from gsched.config.settings import HeartbeatSettings, Settings
from gsched.errors import DataError
from gsched.model.job import JobKey, JobState
from gsched.model.past import HistoryJob
from gsched.slurm.records import FreeText, QueueRow
from gsched.telemetry.loss_curve import Attempt, LossCurve, Point

ME = pwd.getpwuid(os.getuid()).pw_name
AT = 5000


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(heartbeat=HeartbeatSettings(str(tmp_path)))


def running(raw_id: int = 7, **facts: Any) -> QueueRow:
    usual: dict[str, Any] = {"state": JobState.RUNNING, "start_time": 4790, "user": ME}
    return row(raw_id, **(usual | facts))


def queued(settings: Settings, *rows: QueueRow) -> list[JobProgress | None]:
    jobs = [QueuedJob(r, FreeText("", ""), {}, AT) for r in rows]
    return [job.progress for job in with_progress(settings, jobs)]


def progress(**facts: Any) -> JobProgress:
    return JobProgress(record(**facts), AT, is_running=True)


def test_a_running_job_tells_how_far_it_is(settings, tmp_path):
    tell(tmp_path, record())
    mine, other, unknown = queued(settings, running(), running(8), running(user="nobody-here"))
    assert mine == JobProgress(record(), AT, is_running=True)
    assert (other, unknown) == (None, None)
    assert (mine.done, mine.remaining_s, mine.eta_time) == (0.4, 300.0, 5300)


def test_without_a_folder_nobody_tells_anything(settings, tmp_path):
    tell(tmp_path, record())
    assert queued(Settings(), running()) == [None]
    assert told_by(Settings(), running(), AT) is None


@pytest.mark.parametrize(
    ("facts", "of_now"),
    [
        ({}, True),
        ({"state": JobState.SUSPENDED}, False),
        ({"state": JobState.COMPLETED, "end_time": 5000}, False),
        ({"restarts": 1, "start_time": 4990}, False),
        ({"state": JobState.PENDING, "restarts": 1, "start_time": None}, False),
    ],
    ids=str,
)
def test_only_a_running_attempt_has_an_end_to_come(settings, tmp_path, facts, of_now):
    tell(tmp_path, record())
    (found,) = queued(settings, running(**facts))
    assert found is not None
    assert found.is_running is of_now
    assert (found.eta_time is not None) is of_now


@pytest.mark.parametrize(
    "facts",
    [
        {"state": JobState.PENDING, "start_time": None},
        {"start_time": 5000 + CLOCK_SKEW_S + 1},
        {"is_unsplit_array": True, "array_tasks": "1-3"},
    ],
    ids=str,
)
def test_what_another_job_of_that_number_told_is_not_believed(settings, tmp_path, facts):
    tell(tmp_path, record())
    assert queued(settings, running(**facts)) == [None]


def test_what_a_later_attempt_than_slurm_knows_told_is_another_jobs(settings, tmp_path):
    tell(tmp_path, record(restart=1))
    assert queued(settings, running(), running(restarts=1))[0] is None
    assert queued(settings, running(restarts=1))[0] is not None


def test_tasks_of_arrays_go_by_their_place_and_het_jobs_by_their_number(settings, tmp_path):
    tell(tmp_path, record(job="5_3"))
    tell(tmp_path, record(job="9"))
    found = queued(
        settings,
        running(8, job_id=5, array_task=3),
        running(5, job_id=5, array_task=5),
        running(9, job_id=9, het_offset=0),
        running(10, job_id=9, het_offset=1),
    )
    assert [p is not None for p in found] == [True, False, True, False]


def test_a_lie_spoils_no_listing_and_is_said_of_the_job(settings, tmp_path):
    path = tell(tmp_path, record())
    path.write_bytes(b"gsched-heartbeat 1 00000000 000002\n{}")
    assert queued(settings, running()) == [None]
    with pytest.raises(DataError, match="checksum"):
        told_by(settings, running(), AT)


def test_all_ranks_and_attempts_of_one_job(settings, tmp_path):
    curve = LossCurve([Point(1, 3.0, 1)], [Attempt(0, 0, 400, 4800.4, 5000.0)])
    tell(tmp_path, record(world_size=3), curve)
    tell(tmp_path, record(rank=1, world_size=3, step=390, step_time=4900.0, host="gn02"))
    told = told_by(settings, running(), AT)
    assert told is not None
    document = told.document()
    assert document["num_ranks_heard"] == 2
    assert document["behind"] == {"rank": 1, "host": "gn02", "step": 390, "step_time": 4900}
    assert document["losses"] == [[1, 3.0]]
    assert document["attempts"] == [
        {"restart": 0, "first_step": 0, "last_step": 400, "started_time": 4800, "step_time": 5000}
    ]
    assert document.keys() >= NOTHING_TOLD.keys()
    assert progress().summary().keys() == NOTHING_TOLD.keys()


def past(**facts: Any) -> HistoryJob:
    usual: dict[str, Any] = dict.fromkeys(HistoryJob.__dataclass_fields__)
    usual |= {
        "key": JobKey("c", 7, epoch=4000), "user": ME, "state": JobState.COMPLETED,
        "state_text": "COMPLETED", "end_time": 5000, "attempts": (),
    }  # fmt: skip
    return HistoryJob(**(usual | facts))


def test_a_job_that_has_left_the_queue_is_still_known(settings, tmp_path):
    tell(tmp_path, record(), LossCurve([Point(1, 3.0, 1)]))
    tell(tmp_path, record(job="5_3", step=3))
    tell(tmp_path, record(job="10", step=10))
    found = told_by(settings, past(), AT)
    assert found is not None
    assert (found.progress.is_running, found.progress.record.step) == (False, 400)
    assert found.document()["losses"] == [[1, 3.0]]
    task = told_by(settings, past(key=JobKey("c", 5, 3, epoch=4000)), AT)
    part = told_by(settings, past(key=JobKey("c", 9, None, 1, epoch=4000)), AT)
    assert task is not None
    assert part is not None
    assert (task.progress.record.step, part.progress.record.step) == (3, 10)
    assert told_by(settings, past(key=JobKey("c", 7, epoch=5400)), AT) is None
    assert told_by(settings, past(end_time=4400), AT) is None
    assert told_by(settings, past(user=None), AT) is None


# -- what it means ---------------------------------------------------------------------------------


def test_the_time_that_is_left_shrinks_while_a_step_is_under_way():
    assert progress(pace_s=10.0, step_time=AT - 4.0).remaining_s == 600 * 10 - 4
    assert progress(step=1000).remaining_s == 0
    assert progress(step=2000).done == 1


def test_a_clock_that_is_ahead_adds_no_time():
    ahead = progress(step_time=AT + 200.0, written_time=AT + 200.0)
    assert (ahead.since_step_s, ahead.remaining_s, ahead.is_silent) == (0, 300, False)


@pytest.mark.parametrize(
    "facts", [{"total_steps": None}, {"pace_s": None}, {"ended_time": 4999.0}], ids=str
)
def test_where_nothing_is_known_no_end_is_promised(facts):
    assert progress(**facts).eta_time is None


def test_a_job_whose_steps_no_longer_end_is_silent():
    assert not progress(step_time=AT - SILENT_S).is_silent
    late = progress(step_time=AT - SILENT_S - 1)
    assert (late.is_silent, late.eta_time) == (True, None)
    assert not progress(step_time=AT - SILENT_S - 1, pace_s=60.0).is_silent
    assert progress(step_time=AT - 601.0, pace_s=60.0).is_silent
    assert not progress(step_time=AT - 601.0, ended_time=AT - 600.0).is_silent
    assert not replace(late, is_running=False).is_silent
