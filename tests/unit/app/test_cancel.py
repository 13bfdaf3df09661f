"""Which jobs a command line of scancel means."""

from __future__ import annotations

import pytest
from support.queue import row

from gsched.app.cancel import preview
from gsched.config.settings import Settings
from gsched.jobscript.command_line import SCANCEL, scan
from gsched.model.jobid import TaskRange
from gsched.slurm.records import QueueListing


@pytest.fixture
def units(monkeypatch):
    """The units that a command line would cancel of an array, of which one task runs already."""

    class Slurm:
        def queue(self, *, with_texts):
            waiting = row(7, is_unsplit_array=True, array_tasks="1-3999999:2")
            return QueueListing((waiting, row(8, job_id=7, array_task=0)), ())

    monkeypatch.setattr("gsched.app.cancel.slurm_client", lambda _: Slurm())
    return lambda *words: [t.unit for t in preview(Settings(), scan(list(words), SCANCEL)).targets]


def test_the_tasks_of_an_array_that_are_named(units):
    assert units("7_[0-9]") == ["7_[1-9:2]", "7_0"]
    assert units("7_[3,4]") == ["7_3"]
    assert units("7_5") == ["7_5"]
    assert units("7_4") == []


def test_no_range_is_expanded(units, monkeypatch):
    def expands(_):
        raise AssertionError

    monkeypatch.setattr(TaskRange, "__iter__", expands)
    assert units("7_[0-3999999]") == ["7_[1-3999999:2]", "7_0"]
