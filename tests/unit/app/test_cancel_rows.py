"""Which rows of squeue the preview of a cancel means."""

from __future__ import annotations

import pytest
from support.queue import row

from gsched.app.cancel import preview
from gsched.config.settings import Settings
from gsched.jobscript.command_line import SCANCEL, scan
from gsched.model.job import JobState
from gsched.slurm.records import QueueListing

ENDING = {"state": JobState.COMPLETING, "state_text": "COMPLETING"}
ROWS = (
    row(5, **ENDING),
    row(7, is_unsplit_array=True, array_tasks="4-9"),
    row(21, job_id=7, array_task=3),
    row(31, job_id=30, het_offset=1),
)


@pytest.fixture
def found(monkeypatch):
    class Slurm:
        def queue(self, *, with_texts):
            return QueueListing(ROWS, ())

    monkeypatch.setattr("gsched.app.cancel.slurm_client", lambda _: Slurm())
    return lambda *words: preview(Settings(), scan(list(words), SCANCEL))


def units(shown):
    return [target.unit for target in shown.targets]


def test_a_job_that_ends_anyway_is_left_out(found):
    shown = found("5", "7_3")
    assert (units(shown), shown.unmatched) == (["7_3"], ("5",))
    assert "5" not in units(found("--user=alice"))


def test_slurms_own_number_means_its_task_or_component(found):
    assert units(found("21")) == ["7_3"]
    assert units(found("31")) == ["30+1"]


def test_a_step_stays_a_step(found):
    assert units(found("7_3.batch")) == ["7_3.batch"]
    assert units(found("7_6.batch")) == ["7_6.batch"]
    assert units(found("21.0")) == ["7_3.0"]
