"""Which jobs a requeue means, and how what it cannot find is said."""

from __future__ import annotations

import os
import pwd

import pytest
from support.queue import row

from gsched.app.requeue import plan_requeue
from gsched.config.settings import Settings
from gsched.errors import EXIT_USAGE, GschedError
from gsched.model.job import JobState
from gsched.model.jobid import TaskRange
from gsched.slurm.records import QueueListing, SlurmConfig


@pytest.fixture
def plan(monkeypatch):
    """Plans a requeue of one id; of array 7, task 0 runs and four million wait."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    running = {"state": JobState.RUNNING, "state_text": "RUNNING", "user": user}

    class Slurm:
        def config(self):
            return SlurmConfig({"ClusterName": "alpha"})

        def queue(self, _):
            waiting = row(7, is_unsplit_array=True, array_tasks="1-3999999")
            task = row(8, job_id=7, array_task=0, can_requeue=True, **running)
            return QueueListing((waiting, task), ())

    monkeypatch.delenv("SLURM_CLUSTERS", raising=False)
    monkeypatch.setattr("gsched.app.requeue.slurm_client", lambda _: Slurm())
    return lambda job: plan_requeue(Settings(), [job], hold=False)


def test_a_job_that_is_unknown_may_be_anothers(plan):
    with pytest.raises(GschedError, match=r"no job 12 \(any more\), or it is not yours") as caught:
        plan("12")
    assert caught.value.exit_code == EXIT_USAGE
    assert "submit" not in caught.value.hint


def test_tasks_that_wait_are_counted_and_not_expanded(plan, monkeypatch):
    iterate = TaskRange.__iter__

    def expands(self):
        assert len(self) < 10
        return iterate(self)

    monkeypatch.setattr(TaskRange, "__iter__", expands)
    assert plan("7").notes == ("7 means 1 task of an array; 3999999 wait already",)
    with pytest.raises(GschedError, match="7_3999999 waits already"):
        plan("7_3999999")
