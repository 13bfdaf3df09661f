"""Old checkpoints go while others are written: found out aside, removed in between."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from support.checkpoints import tear, write_checkpoint

from gsched.ckpt import layout
from gsched.ckpt.disk import RealDisk
from gsched.ckpt.faults import no_faults
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.pruning import Pruning, remove_leftovers
from gsched.testbed.wait import wait_for

RUN = "0123456789ab"


class StubbornDisk(RealDisk):
    """Nothing can be renamed."""

    def rename(self, source: Path, target: Path) -> None:
        raise OSError(errno.EACCES, "Permission denied")


def pruning(folder: Path, keep: int | None = 2, disk: RealDisk | None = None) -> Pruning:
    return Pruning(disk or RealDisk(), RunTarget(folder, RUN, keep=keep), no_faults)


def carried_out(pruning: Pruning) -> str:
    """Let it come to its end, as the writer's loop does; what it says."""
    said = []

    def looked() -> bool:
        said.append(pruning.advance())
        return pruning.is_idle

    wait_for(looked, "the end of the pruning", timeout_s=30)
    return "".join(said)


def steps(folder: Path) -> list[int]:
    found = (layout.parse_step_name(p.name) for p in folder.iterdir())
    return sorted(step for step in found if step is not None)


def test_nothing_is_done_unasked(tmp_path):
    idle = pruning(tmp_path)
    assert idle.is_idle
    assert idle.advance() == ""
    assert idle.is_idle


def test_the_newest_stay(tmp_path):
    for step in (1, 2, 3, 4):
        write_checkpoint(tmp_path, step)
    asked = pruning(tmp_path)
    asked.committed(4, written_here=True)
    assert not asked.is_idle
    assert carried_out(asked) == ""
    assert steps(tmp_path) == [3, 4]


def test_what_an_earlier_run_wrote_is_verified(tmp_path):
    for step in (1, 2, 3, 4):
        write_checkpoint(tmp_path, step)
    tear(tmp_path / layout.step_name(3))
    asked = pruning(tmp_path)
    asked.committed(4, written_here=True)
    carried_out(asked)
    assert steps(tmp_path) == [2, 4]


def test_what_was_committed_and_not_written_here_is_verified(tmp_path):
    """A flush found its step there already: another run's, for all that is known."""
    for step in (1, 2, 3, 4):
        write_checkpoint(tmp_path, step)
    tear(tmp_path / layout.step_name(3))
    asked = pruning(tmp_path)
    asked.committed(3, written_here=False)
    asked.committed(4, written_here=True)
    carried_out(asked)
    assert steps(tmp_path) == [2, 4]


def test_what_was_written_here_is_not_read_again(tmp_path):
    """Seen by a damage that only reading would find."""
    asked = pruning(tmp_path)
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step)
        asked.committed(step, written_here=True)
    tear(tmp_path / layout.step_name(2))
    carried_out(asked)
    assert steps(tmp_path) == [2, 3]


def test_a_commit_meanwhile_is_seen_to_afterwards(tmp_path):
    asked = pruning(tmp_path)
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step)
    asked.committed(3, written_here=True)
    asked.advance()
    write_checkpoint(tmp_path, 4)
    asked.committed(4, written_here=True)
    carried_out(asked)
    assert steps(tmp_path) == [3, 4]


def test_all_stay_where_that_is_wanted(tmp_path):
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step)
    asked = pruning(tmp_path, keep=None)
    asked.committed(3, written_here=True)
    assert asked.is_idle
    assert steps(tmp_path) == [1, 2, 3]


def test_another_users_stay(tmp_path, monkeypatch):
    """As `gsched ckpt prune` has it: in a folder of several users nobody removes another's."""
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    asked = pruning(tmp_path, keep=1)
    asked.committed(3, written_here=True)
    assert carried_out(asked) == ""
    assert steps(tmp_path) == [1, 2, 3]


def test_what_cannot_be_removed_is_told(tmp_path):
    for step in (1, 2, 3):
        write_checkpoint(tmp_path, step)
    asked = pruning(tmp_path, disk=StubbornDisk())
    asked.committed(3, written_here=True)
    said = carried_out(asked)
    assert "not removed" in said
    assert "Permission denied" in said
    assert steps(tmp_path) == [1, 2, 3]


def test_a_folder_that_is_gone_is_told(tmp_path):
    asked = pruning(tmp_path / "gone")
    asked.committed(3, written_here=True)
    assert "gone" in carried_out(asked)


def test_partials_that_are_being_written_are_no_leftovers(tmp_path):
    places = {step: tmp_path / layout.partial_name(step, RUN) for step in (2, 3, 5)}
    for place in places.values():
        place.mkdir()
    remove_leftovers(RealDisk(), RunTarget(tmp_path, RUN), 4, active={3})
    assert [step for step, place in places.items() if place.exists()] == [3, 5]
