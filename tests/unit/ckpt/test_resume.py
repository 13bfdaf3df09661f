"""The checkpoint that somebody chooses is the one that the next start loads; and back again."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from support.checkpoints import names, tear, write_checkpoint

from gsched.ckpt import layout, resume
from gsched.ckpt.catalogue import newest_valid, scan
from gsched.ckpt.disk import RealDisk
from gsched.ckpt.found import Verdict
from gsched.errors import (
    EXIT_REFUSED,
    GschedError,
    NoCheckpointError,
    NoneValidError,
    TryAgainError,
    UsageError,
)


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "run"
    for step in (10, 20, 30):
        write_checkpoint(run, step)
    tear(write_checkpoint(run, 40))
    (run / layout.LATEST_NAME).write_bytes(layout.encode_latest(40))
    return run


def pointer(folder: Path) -> int | None:
    return layout.parse_latest((folder / layout.LATEST_NAME).read_bytes())


def test_the_chosen_one_is_loaded_next(folder):
    batch = resume.apply(resume.plan(folder, 10))
    assert newest_valid(folder).checkpoint.step == 10
    assert newest_valid(folder).passed_over == ()
    assert names(batch) == {layout.step_name(step) for step in (20, 30, 40)}
    assert pointer(folder) == 10


def test_without_a_step_it_is_the_newest_valid_one(folder):
    planned = resume.plan(folder)
    assert (planned.target.step, [c.step for c in planned.later]) == (30, [40])
    resume.apply(planned)
    assert pointer(folder) == 30
    again = resume.plan(folder)
    assert again.later == ()
    assert resume.apply(again) is None


def test_undo_brings_all_back(folder):
    before = names(folder)
    resume.apply(resume.plan(folder, 20))
    resume.apply(resume.plan(folder, 10))
    assert [path.name for path in resume.undo(folder)] == [layout.step_name(20)]
    assert newest_valid(folder).checkpoint.step == 20
    assert pointer(folder) == 20
    resume.undo(folder)
    assert names(folder) == before | {layout.SET_ASIDE_NAME}
    assert newest_valid(folder).checkpoint.step == 30
    with pytest.raises(UsageError, match="nothing of"):
        resume.undo(folder)


def test_undo_replaces_nothing(folder):
    batch = resume.apply(resume.plan(folder, 10))
    write_checkpoint(folder, 30)
    with pytest.raises(GschedError, match="was written since") as refused:
        resume.undo(folder)
    assert refused.value.exit_code == EXIT_REFUSED
    assert names(batch) == {layout.step_name(step) for step in (20, 30, 40)}


def test_what_is_being_written_stays(folder):
    write_checkpoint(folder, 50, name=layout.partial_name(50, "0123456789ab"))
    assert [c.step for c in resume.plan(folder, 10).later] == [40, 30, 20]


def test_one_that_is_not_there_or_torn_is_refused(folder, tmp_path):
    with pytest.raises(UsageError, match="no checkpoint of step 11") as error:
        resume.plan(folder, 11)
    assert error.value.hint == "there are: 40, 30, 20, 10"
    with pytest.raises(NoneValidError, match="step 40 is not valid: checksum of rank-00000"):
        resume.plan(folder, 40)
    for step in (10, 20, 30):
        tear(folder / layout.step_name(step))
    with pytest.raises(NoneValidError, match="none of 4 checkpoints"):
        resume.plan(folder)
    with pytest.raises(NoCheckpointError):
        resume.plan(tmp_path / "none")


def test_a_target_that_vanishes_meanwhile_leaves_all_as_it_was(folder):
    planned = resume.plan(folder, 20)
    shutil.rmtree(folder / layout.step_name(20))
    with pytest.raises(TryAgainError, match="all is as it was"):
        resume.apply(planned)
    assert newest_valid(folder).checkpoint.step == 30


class KillingDisk(RealDisk):
    def __init__(self, at: int) -> None:
        self.count = 0
        self._at = at

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.count += 1
        if self.count == self._at:
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_killed_anywhere_the_same_command_goes_on(folder, at):
    child = os.fork()
    if child == 0:
        resume.apply(resume.plan(folder, 10), KillingDisk(at))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    aside = list((folder / layout.SET_ASIDE_NAME).glob("*/step-*"))
    present = [path for path in folder.iterdir() if layout.parse_step_name(path.name) is not None]
    assert sorted(path.name for path in (*aside, *present)) == [
        layout.step_name(step) for step in (10, 20, 30, 40)
    ]
    resume.apply(resume.plan(folder, 10))
    assert [c.step for c in scan(folder).of(Verdict.WHOLE)] == [10]
    assert pointer(folder) == 10
