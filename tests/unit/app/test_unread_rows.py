"""A row whose tasks or nodes are in no grammar that is known: kept, shown as it is, no error."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from support.queue import StandInSlurm, row

from gsched.app.cancel import preview
from gsched.app.queue_filter import QueueFilter, own_name
from gsched.app.queued_job import QueuedJob
from gsched.app.requeue import plan_requeue
from gsched.app.why import explain_job, num_tasks
from gsched.config.settings import Settings
from gsched.errors import EXIT_REFUSED, GschedError
from gsched.jobscript.command_line import SCANCEL, scan
from gsched.model.job import JobState
from gsched.slurm.records import FreeText, QueueListing, SlurmConfig

UNREAD = row(7, is_unsplit_array=True, array_tasks="1-5,...")
LOST = row(8, state=JobState.RUNNING, state_text="RUNNING", node_list="n[1-", user=own_name())


def test_what_is_not_understood_is_not_known():
    assert (UNREAD.tasks, LOST.hosts) == (None, None)
    read = replace(UNREAD, array_tasks="1-9:2%3")
    assert (list(read.tasks), replace(LOST, node_list="n[1-2]").hosts) == (
        [1, 3, 5, 7, 9],
        {"n1", "n2"},
    )
    assert (list(row(9, array_task=4).tasks), list(row(9).tasks), row(9).hosts) == ([4], [], set())


def test_the_queue_shows_it():
    assert QueueFilter(job_ids=("7_9",)).test()(UNREAD, "")
    assert not QueueFilter(job_ids=("9_9",)).test()(UNREAD, "")
    assert QueueFilter(node_lists=("n3",)).test()(LOST, "")
    assert not QueueFilter(node_lists=("n3",)).test()(UNREAD, "")
    job = QueuedJob(UNREAD, FreeText("", ""), {}, 0)
    assert (job.slurm_id, list(job.tasks())) == ("7_[1-5,...]", [job])


def test_why_counts_it_once_and_explains_it(monkeypatch, tmp_path):
    slurm = StandInSlurm(UNREAD, row(71, job_id=7, array_task=0))
    monkeypatch.setattr("gsched.app.job.slurm_client", lambda _: slurm)
    found = explain_job(Settings(state_dir=tmp_path), "7")
    assert "2 tasks that slurmctld knows" in found.lines[0].words
    assert num_tasks(SimpleNamespace(row=replace(UNREAD, array_tasks="1-4"))) == 4


@pytest.fixture
def slurm(monkeypatch):
    class Slurm:
        rows = (UNREAD, LOST)

        def config(self):
            return SlurmConfig({"ClusterName": "alpha"})

        def queue(self, *_, **__):
            return QueueListing(self.rows, ())

    monkeypatch.delenv("SLURM_CLUSTERS", raising=False)
    made = Slurm()
    for module in ("cancel", "requeue"):
        monkeypatch.setattr(f"gsched.app.{module}.slurm_client", lambda _: made)
    return made


def units(*words):
    return [t.unit for t in preview(Settings(), scan(list(words), SCANCEL)).targets]


def test_what_would_be_cancelled_is_shown_as_slurm_has_it(slurm):
    assert units("7_3") == ["7_[1-5,...]"]
    assert units("--nodelist=n3") == ["8"]


def test_a_requeue_says_that_it_cannot_tell(slurm):
    task = row(9, job_id=7, array_task=0, state=JobState.RUNNING, user=own_name())
    slurm.rows = (UNREAD, task)
    for job, words in (
        ("7_3", r"7_3 may be one of \[1-5,\.\.\.\], which wait already"),
        ("7_0", ""),
    ):
        if words:
            with pytest.raises(GschedError, match=words) as caught:
                plan_requeue(Settings(), [job], hold=False)
            assert caught.value.exit_code == EXIT_REFUSED
        else:
            assert plan_requeue(Settings(), [job], hold=False).units[0].slurm_id == "7_0"
    plan = plan_requeue(Settings(), ["7"], hold=False)
    assert plan.notes == ("7 means 1 task of an array; [1-5,...] wait already",)
    slurm.rows = (UNREAD,)
    with pytest.raises(GschedError, match=r"all \[1-5,\.\.\.\] tasks of 7 wait already"):
        plan_requeue(Settings(), ["7"], hold=False)
