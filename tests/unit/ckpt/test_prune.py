"""Pruning never takes the last valid checkpoint: killed, refused or overtaken at any operation."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from support.checkpoints import names, tear, write_checkpoint

from gsched.ckpt import layout, prune, removal, resume
from gsched.ckpt.catalogue import newest_valid, scan
from gsched.ckpt.disk import RealDisk
from gsched.ckpt.found import Depth, Verdict
from gsched.errors import TryAgainError, UsageError

RUN = "0123456789ab"


def steps(checkpoints):
    return [c.step for c in checkpoints]


@pytest.fixture
def folder(tmp_path):
    """Five whole ones, a torn one among them and one on top, one given up, one being written."""
    run = tmp_path / "run"
    for step in (10, 20, 30, 40, 50):
        write_checkpoint(run, step)
    tear(write_checkpoint(run, 45))
    tear(write_checkpoint(run, 60))
    given_up = write_checkpoint(run, 25, name=layout.partial_name(25, RUN))
    for path in (given_up, *given_up.iterdir()):
        os.utime(path, (1, 1))
    write_checkpoint(run, 48, name=layout.partial_name(48, RUN))
    return run


def test_the_newest_valid_ones_stay(folder):
    planned = prune.plan(folder, 2)
    assert steps(planned.kept) == [50, 40]
    assert steps(planned.removed) == [45, 30, 25, 20, 10]
    assert [(c.step, why) for c, why in planned.spared] == [
        (60, "checksum of rank-00000-of-00002.safetensors; it is newer than every valid one"),
        (48, "it may still be being written"),
    ]
    assert len(names(folder)) == 9  # a plan changes nothing
    assert steps(prune.apply(planned)) == [10, 20, 25, 30, 45]
    assert names(folder) == {
        layout.step_name(60),
        layout.step_name(50),
        layout.step_name(40),
        layout.partial_name(48, RUN),
    }


def test_one_that_seems_whole_and_is_not_does_not_count(folder):
    tear(folder / layout.step_name(50))
    assert steps(prune.plan(folder, 1).kept) == [40]


def test_what_the_caller_has_just_written_is_not_read_again(folder):
    told = []
    prune.plan(folder, 2, trusted_steps={50}, tell=lambda *words: told.append(words))
    assert len(told) == 1 + 1 + 2  # torn 60 and 45 up to the first file, both files of 40


def test_with_none_valid_nothing_goes(tmp_path):
    for step in (1, 2, 3):
        tear(write_checkpoint(tmp_path, step))
    (tmp_path / ".removing-x").mkdir()
    planned = prune.plan(tmp_path, 1, with_set_aside=True)
    assert (planned.kept, planned.removed, planned.leftovers) == ((), (), ())
    assert {why for _, why in planned.spared} == {"no checkpoint is valid, so nothing is removed"}
    assert prune.apply(planned) == ()
    assert len(names(tmp_path)) == 4


def test_what_somebody_has_named_stays_and_does_not_count(tmp_path):
    write_checkpoint(tmp_path, 50, name="best")
    for step in (10, 20):
        write_checkpoint(tmp_path, step)
    planned = prune.plan(tmp_path, 1)
    assert steps(planned.kept) == [20]
    assert [c.path.name for c, _ in planned.spared] == ["best"]


def test_step_0_is_a_step(tmp_path):
    for step in (0, 1):
        write_checkpoint(tmp_path, step)
    assert steps(prune.apply(prune.plan(tmp_path, 1))) == [0]


def test_another_users_stay(folder, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    planned = prune.plan(folder, 1)
    assert planned.removed == ()
    assert f"it belongs to another user (uid {os.getuid()})" in {why for _, why in planned.spared}


def test_what_was_set_aside_goes_when_asked(folder):
    resume.apply(resume.plan(folder, 30))
    planned = prune.plan(folder, 1, with_set_aside=True)
    prune.apply(planned)
    assert names(folder) == {
        layout.step_name(30),
        layout.LATEST_NAME,
        layout.partial_name(48, RUN),
        layout.partial_name(25, RUN),
    } - {layout.partial_name(25, RUN)}


def test_a_link_in_the_place_of_what_was_set_aside_is_not_followed(folder, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").touch()
    (folder / layout.SET_ASIDE_NAME).symlink_to(other)
    assert prune.plan(folder, 1, with_set_aside=True).set_aside is None
    with pytest.raises(UsageError, match="symbolic link"):
        resume.apply(resume.plan(folder, 30))
    inside = folder / layout.step_name(10) / "a-link"
    inside.symlink_to(other)
    prune.apply(prune.plan(folder, 1))
    assert names(other) == {"file"}
    assert not (folder / layout.step_name(10)).exists()


def test_a_checkpoint_itself_is_not_pruned(folder):
    with pytest.raises(UsageError, match="is a checkpoint"):
        prune.plan(folder / layout.step_name(10), 1)
    with pytest.raises(ValueError, match="below 1"):
        prune.plan(folder, 0)


class CutDisk(RealDisk):
    """Fails, or ends the process, at one operation that changes something."""

    def __init__(self, at: int, number: int = 0) -> None:
        self.count = 0
        self._at = at
        self._number = number

    def _step(self) -> None:
        self.count += 1
        if self.count == self._at:
            if not self._number:
                os.kill(os.getpid(), signal.SIGKILL)
            raise OSError(self._number, os.strerror(self._number))

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def fsync_folder(self, path: Path) -> None:
        self._step()
        super().fsync_folder(path)

    def unlink(self, path: Path) -> None:
        self._step()
        super().unlink(path)

    def remove_folder(self, path: Path) -> None:
        self._step()
        super().remove_folder(path)


def operations(folder: Path) -> int:
    """How many operations a whole pruning of a copy takes."""
    disk = CutDisk(0)
    prune.apply(prune.plan(folder, 2), disk)
    return disk.count


def assert_nothing_is_lost(folder: Path) -> None:
    """Those to stay are whole, no half of another has a checkpoint's name; pruning goes on."""
    found = {c.step: c for c in scan(folder, Depth.CHECKSUMS).checkpoints}
    assert found[50].is_whole
    assert found[40].is_whole
    assert all(found[step].is_whole for step in (10, 20, 30) if step in found)
    prune.apply(prune.plan(folder, 2))
    assert steps(scan(folder, Depth.CHECKSUMS).of(Verdict.WHOLE)) == [50, 40]
    assert removal.leftovers(folder) == []


def copies(folder: Path, name: str, number: int) -> list[Path]:
    places = [folder.parent / f"{name}-{index}" for index in range(number)]
    for place in places:
        shutil.copytree(folder, place)
    return places


def test_killed_at_any_operation(folder):
    (counted,) = copies(folder, "whole", 1)
    total = operations(counted)
    assert total > 25
    for at, place in enumerate(copies(folder, "cut", total), start=1):
        child = os.fork()
        if child == 0:
            prune.apply(prune.plan(place, 2), CutDisk(at))
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        assert_nothing_is_lost(place)


def test_refused_at_any_operation(folder):
    (counted,) = copies(folder, "whole", 1)
    total = operations(counted)
    for at, place in enumerate(copies(folder, "cut", total), start=1):
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            prune.apply(prune.plan(place, 2), CutDisk(at, errno.EIO))
        assert_nothing_is_lost(place)


class OvertakenDisk(RealDisk):
    """Somebody else does something in the folder just before one operation, or just after."""

    def __init__(self, what, at: int, *, is_after: bool) -> None:
        self._what = what
        self._at = at
        self._is_after = is_after
        self.count = 0

    def rename(self, source: Path, target: Path) -> None:
        self.count += 1
        is_here = self.count == self._at
        if is_here and not self._is_after:
            self._what()
        super().rename(source, target)
        if is_here and self._is_after:
            self._what()


def test_what_was_begun_stays_when_one_to_stay_has_gone(folder):
    """It may be all that is left, whoever had renamed it."""
    begun = folder / layout.step_name(50)
    begun.rename(folder / f"{layout.REMOVING_PREFIX}{begun.name}-00")
    planned = prune.plan(folder, 4)
    assert steps(planned.kept) == [40, 30, 20, 10]
    shutil.rmtree(folder / layout.step_name(40))
    only_begun = replace(planned, removed=())
    with pytest.raises(TryAgainError, match="nothing more was removed"):
        prune.apply(only_begun)
    assert removal.leftovers(folder) == list(planned.leftovers) != []


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("at", range(1, 8))
def test_a_resume_at_the_same_time(folder, at, is_after):
    """Whoever comes second notices: the one that the resume has chosen is still there."""
    planned = prune.plan(folder, 1)

    def chosen_by_somebody():
        found = [c for c in scan(folder).checkpoints if c.step in (10, 20, 30) and c.is_whole]
        if found:
            resume.apply(resume.plan(folder, found[-1].step))

    disk = OvertakenDisk(chosen_by_somebody, at, is_after=is_after)
    with contextlib.suppress(TryAgainError):
        prune.apply(planned, disk)
    assert newest_valid(folder).checkpoint is not None


@pytest.mark.parametrize("is_after", [False, True])
@pytest.mark.parametrize("at", range(1, 4))
def test_a_prune_in_the_midst_of_a_resume(folder, at, is_after):
    planned = resume.plan(folder, 30)
    disk = OvertakenDisk(lambda: prune.apply(prune.plan(folder, 1)), at, is_after=is_after)
    with contextlib.suppress(TryAgainError):
        resume.apply(planned, disk)
    assert newest_valid(folder).checkpoint is not None


def test_two_prunes_at_once(folder):
    planned = prune.plan(folder, 3)
    disk = OvertakenDisk(lambda: prune.apply(prune.plan(folder, 1)), 1, is_after=True)
    with pytest.raises(TryAgainError):
        prune.apply(planned, disk)
    assert newest_valid(folder).checkpoint.step == 50
