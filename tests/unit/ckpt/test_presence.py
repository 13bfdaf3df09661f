"""A rank that has ended, trainer and writer: it is not waited for as one that is only silent is."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from unittest.mock import patch

import pytest

from gsched.ckpt import layout, presence
from gsched.ckpt.commit import Commit
from gsched.ckpt.disk import RealDisk
from gsched.ckpt.lock import FolderLock, Holder, take
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.presence import Presence
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.flush import Agreement, NoAgreementError
from gsched.ckpt.writer.link import WriterLink

RUN = "0123456789ab"
DATA = [memoryview(b"abc")]


class Ranks:
    """Two ranks with their locks; `now` is the stopwatch of both, and nobody waits long."""

    def __init__(self, folder):
        self.now = 0.0
        self.folder = folder
        self.targets = [RunTarget(folder, RUN, rank, 2) for rank in (0, 1)]
        first = take(folder, Holder("n1", 1), print)
        second = presence.hold(folder, RUN, 1)
        assert first is not None
        assert second is not None
        self.locks: list[FolderLock] = [first, second]

    def commit(self, rank: int) -> Commit:
        target = self.targets[rank]
        return Commit(RealDisk(), target, 7, Reason.INTERVAL, stopwatch=lambda: self.now)


@pytest.fixture
def ranks(tmp_path):
    return Ranks(tmp_path)


def look(waiting):
    """One look; what it came to, None while it waits."""
    try:
        next(waiting)
    except StopIteration as end:
        return end.value
    return None


@pytest.mark.parametrize("gone", [0, 1])
def test_a_commit_ends_when_the_other_has_ended(gone, ranks):
    commit = ranks.commit(1 - gone)
    commit.write(DATA)
    waiting = commit.finish()
    ranks.now = 100.0  # silent for nearly as long as is allowed, and there
    assert look(waiting) is None
    ranks.locks[gone].close()
    ranks.now += 1.0
    assert look(waiting) is None  # seen to have ended: what it has written until then counts
    failed = look(waiting)
    assert isinstance(failed, Failed)
    assert (failed.error, f"rank {gone} has ended" in failed.message) == ("ended", True)


def test_what_it_had_written_before_it_ended_is_committed(ranks):
    lead = ranks.commit(0)
    lead.write(DATA)
    waiting = lead.finish()
    assert look(waiting) is None
    ranks.now += 1.0
    ranks.locks[1].close()
    assert look(waiting) is None
    ranks.commit(1).write(DATA)
    assert isinstance(look(waiting), Committed)


@pytest.mark.parametrize("gone", [0, 1])
def test_so_does_an_agreement_on_a_flush(gone, ranks):
    own = Agreement(RealDisk(), ranks.targets[1 - gone], stopwatch=lambda: ranks.now)
    agreeing = own.agree([5])
    assert look(agreeing) is None
    ranks.locks[gone].close()
    ranks.now += 1.0
    with pytest.raises(NoAgreementError, match=f"rank {gone} has ended"):
        next(agreeing)


_SECOND = """
import sys, time
from pathlib import Path
from gsched.ckpt import presence
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.link import WriterLink

folder, run = Path(sys.argv[1]), sys.argv[2]
lock = presence.hold(folder, run, 1)
link = WriterLink.open(RunTarget(folder, run, 1, 2), lock=lock)
print(link.writer_pid, flush=True)
time.sleep(600)
"""


def test_a_rank_that_is_killed_with_its_writer_holds_nobody_back(tmp_path):
    """Real processes: the second rank's writer is killed first, for it would be heard of else."""
    link = WriterLink.open(
        RunTarget(tmp_path, RUN, 0, 2), lock=take(tmp_path, Holder("n1", 1), print)
    )
    link.ensure_room(1000)
    argv = [sys.executable, "-P", "-c", _SECOND, str(tmp_path), RUN]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as second:
        writer = int(second.stdout.readline())
        link.filled(link.free_slot(), 7, 100)
        link.persist(7, Reason.INTERVAL)
        assert link.wait(7, 1.5) is None  # the other one lives
        os.kill(writer, signal.SIGKILL)
        assert link.wait(7, 1.5) is None  # its trainer may start another
        second.kill()
    failed = link.wait(7, 60.0)  # of the 120 s that a silent one has
    assert isinstance(failed, Failed)
    assert failed.message == "rank 1 has ended, and its writer"
    link.close(30.0)


def test_the_last_to_leave_removes_the_locks(ranks):
    for target in ranks.targets:
        Agreement(RealDisk(), target).leave()
    assert sorted(path.name for path in ranks.folder.iterdir()) == [".lock"]


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_without_locks_nothing_is_known(error, tmp_path):
    with patch.object(fcntl, "flock", side_effect=OSError(error, os.strerror(error))):
        assert presence.hold(tmp_path, RUN, 1) is None
    assert not Presence(RunTarget(tmp_path, RUN, 0, 2)).has_ended(1)
    assert not list((tmp_path / layout.ranks_name(RUN)).iterdir())


def test_a_link_in_its_place_is_not_followed(tmp_path):
    folder = tmp_path / layout.ranks_name(RUN)
    folder.mkdir()
    (folder / layout.rank_lock_name(1)).symlink_to(tmp_path / "elsewhere")
    assert presence.hold(tmp_path, RUN, 1) is None
    (tmp_path / "elsewhere").touch()
    assert not Presence(RunTarget(tmp_path, RUN, 0, 2)).has_ended(1)
