"""The commit of several ranks, step by step in one process: who waits for whom, who gives up."""

from __future__ import annotations

import errno
import json
import os
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from support.checkpoints import tear, write_checkpoint

from gsched.ckpt import layout, manifest
from gsched.ckpt.catalogue import examine
from gsched.ckpt.commit import Commit
from gsched.ckpt.disk import RealDisk
from gsched.ckpt.found import Depth
from gsched.ckpt.manifest import Job, Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget

RUN = "0123456789ab"
OTHER_RUN = "ba9876543210"
DATA = [memoryview(b"some " * 1000), memoryview(b"bytes")]
WAIT_S = 60.0


class FullDisk(RealDisk):
    """No room for files of some name."""

    def __init__(self, word: str, error: int = errno.ENOSPC) -> None:
        self._word = word
        self._error = error

    def create(self, path: Path) -> int:
        if self._word in path.name:
            raise OSError(self._error, os.strerror(self._error), str(path))
        return super().create(path)


def write_and_wait(
    disk: RealDisk, target: RunTarget, step: int, reason: Reason, chunks: list[memoryview]
) -> Committed | Failed:
    """One rank alone waits for nobody."""
    commit = Commit(disk, target, step, reason)
    commit.write(chunks)
    with pytest.raises(StopIteration) as end:
        next(commit.finish())
    return end.value.value


class Ranks:
    """The commits of all ranks for one step, moved on by hand; `now` is their stopwatch."""

    def __init__(self, folder: Path, world_size: int, step: int = 7) -> None:
        self.now = 0.0
        self.folder = folder
        self.step = step
        self.world_size = world_size
        self.waiting: dict[int, object] = {}
        self.commits: dict[int, Commit] = {}

    def write(
        self, rank: int, disk: RealDisk | None = None, inherited: tuple[int, ...] = ()
    ) -> None:
        target = RunTarget(self.folder, RUN, rank, self.world_size, peer_wait_s=WAIT_S)
        commit = Commit(
            disk or RealDisk(),
            target,
            self.step,
            Reason.INTERVAL,
            inherited=inherited,
            stopwatch=lambda: self.now,
        )
        commit.write(DATA)
        self.commits[rank] = commit
        self.waiting[rank] = commit.finish()

    def look(self, rank: int) -> Committed | Failed | None:
        """One look at the other ranks; None while it waits."""
        try:
            next(self.waiting[rank])
        except StopIteration as end:
            return end.value
        return None

    @property
    def partial(self) -> Path:
        return self.folder / layout.partial_name(self.step, RUN)

    @property
    def committed(self) -> Path:
        return self.folder / layout.step_name(self.step)


def cut(place: Path) -> Path:
    """Shorten the first rank's file."""
    os.truncate(place / layout.rank_file_name(0, 3), 3)
    return place


@pytest.fixture
def ranks(tmp_path) -> Ranks:
    return Ranks(tmp_path / "a" / "checkpoints", 3)


def test_one_rank(tmp_path):
    target = RunTarget(
        tmp_path / "new" / "folder", RUN, job=Job("4711", 2), versions=(("torch", "2.13.0"),)
    )
    outcome = write_and_wait(RealDisk(), target, 7, Reason.END, DATA)
    assert isinstance(outcome, Committed)
    whole = b"".join(DATA)
    assert (outcome.step, outcome.num_bytes) == (7, len(whole))
    place = target.folder / "step-000000000007"
    names = {"manifest.json", "rank-00000-of-00001.safetensors"}
    assert {p.name for p in place.iterdir()} == names
    assert (place / "rank-00000-of-00001.safetensors").read_bytes() == whole
    assert {p.name for p in target.folder.iterdir()} == {"latest", place.name}
    assert (target.folder / "latest").read_text() == "step-000000000007\n"
    made = manifest.decode((place / "manifest.json").read_bytes())
    assert made.shards[0].crc32 == zlib.crc32(whole)
    assert (made.run, made.reason, made.job) == (RUN, Reason.END, Job("4711", 2))
    assert made.versions == {"torch": "2.13.0"}
    assert examine(place, Depth.CHECKSUMS).is_whole


def test_nothing_is_committed_before_all_have_written(ranks):
    for rank in (0, 2):
        ranks.write(rank)
    for _ in range(3):
        assert ranks.look(0) is None
        assert ranks.look(2) is None
    assert not ranks.committed.exists()
    ranks.write(1)
    assert ranks.look(1) is None
    assert isinstance(ranks.look(0), Committed)
    assert isinstance(ranks.look(1), Committed)
    assert isinstance(ranks.look(2), Committed)
    assert examine(ranks.committed, Depth.CHECKSUMS).is_whole
    assert not list(ranks.committed.glob("*.json.new"))
    assert {p.suffix for p in ranks.committed.iterdir()} == {".json", ".safetensors"}
    assert not (ranks.committed / layout.mark_name(1)).exists()


@pytest.mark.parametrize("full", [0, 2])
def test_one_rank_without_room_and_none_commits(full, ranks):
    for rank in (0, 1, 2):
        ranks.write(rank, FullDisk(".safetensors") if rank == full else None)
    lead = ranks.look(0)
    assert isinstance(lead, Failed)
    assert lead.error == "ENOSPC"
    assert "rank-" in lead.message or "rank 2" in lead.message
    for rank in (1, 2):
        assert isinstance(ranks.look(rank), Failed)
    assert not ranks.committed.exists()
    assert list(ranks.folder.iterdir()) == []


@pytest.mark.parametrize("file", ["manifest", "rank-00000.json"])
def test_rank_0_fails_at_a_small_file(file, ranks):
    for rank in (1, 2, 0):
        ranks.write(rank, FullDisk(file, errno.EDQUOT) if rank == 0 else None)
    lead = ranks.look(0)
    assert isinstance(lead, Failed)
    assert lead.error == "EDQUOT"
    other = ranks.look(1)
    assert isinstance(other, Failed)
    assert other.error == "given-up"
    assert list(ranks.folder.iterdir()) == []


def test_a_rank_that_never_writes(ranks):
    ranks.write(0)
    ranks.write(1)
    assert ranks.look(0) is None
    ranks.now = WAIT_S - 1
    assert ranks.look(0) is None
    ranks.now = WAIT_S + 1
    lead = ranks.look(0)
    assert isinstance(lead, Failed)
    assert lead.error == "no-answer"
    assert "rank 2" in lead.message
    assert isinstance(ranks.look(1), Failed)


def test_a_rank_that_writes_slowly_is_waited_for(ranks):
    ranks.write(0)
    ranks.write(1)
    slow = ranks.partial / layout.rank_file_name(2, 3)
    for size in range(1, 6):
        slow.write_bytes(b"x" * size)
        ranks.now += WAIT_S * 0.9
        assert ranks.look(0) is None, size
        assert ranks.look(1) is None, size
    ranks.write(2)
    assert isinstance(ranks.look(0), Committed)


def test_rank_0_that_died_is_not_waited_for_without_end(ranks):
    ranks.write(1)
    assert ranks.look(1) is None
    ranks.now = WAIT_S + 1
    gone = ranks.look(1)
    assert isinstance(gone, Failed)
    assert gone.error == "no-answer"


def test_a_mark_that_is_nonsense(ranks):
    ranks.write(0)
    (ranks.partial / layout.mark_name(1)).write_text('{"file": "../../etc/passwd"}')
    lead = ranks.look(0)
    assert isinstance(lead, Failed)
    assert "rank 1" in lead.message


def test_a_mark_may_be_a_link_to_nothing_of_ours(ranks, tmp_path):
    ranks.write(0)
    (ranks.partial / layout.mark_name(1)).symlink_to("/etc/passwd")
    assert isinstance(ranks.look(0), Failed)


def test_a_durable_file_of_a_writer_that_died_is_taken(ranks):
    """Rank 0 may have read its mark already: it must not change."""
    ranks.write(1)
    file = ranks.partial / layout.rank_file_name(1, 3)
    before = file.stat()
    ranks.write(1)  # a new writer, asked for the same
    assert file.stat().st_ino == before.st_ino
    assert json.loads((ranks.partial / layout.mark_name(1)).read_text())["file"] == file.name


def test_a_half_written_file_of_a_writer_that_died_is_not(ranks):
    ranks.partial.mkdir(parents=True)
    file = ranks.partial / layout.rank_file_name(1, 3)
    file.write_bytes(b"half")
    ranks.write(1)
    assert file.read_bytes() == b"".join(DATA)


def test_a_step_that_is_committed_is_left_as_it_is(ranks):
    place = write_checkpoint(ranks.folder, 7)
    before = {p.name: p.read_bytes() for p in place.iterdir()}
    ranks.write(0)
    outcome = ranks.look(0)
    assert isinstance(outcome, Committed)
    assert outcome.num_bytes == 0
    assert {p.name: p.read_bytes() for p in place.iterdir()} == before
    assert not ranks.partial.exists()


@pytest.mark.parametrize("is_there_first", [True, False])
def test_another_run_was_faster(is_there_first, ranks):
    """Two jobs in one folder, by mistake: what is valid is never moved, and the loss is told."""
    if is_there_first:
        place = write_checkpoint(ranks.folder, 7, num_ranks=3, run=OTHER_RUN)
    for rank in (1, 2, 0):
        ranks.write(rank)
    if not is_there_first:
        place = write_checkpoint(ranks.folder, 7, num_ranks=3, run=OTHER_RUN)
    before = {p.name: p.read_bytes() for p in place.iterdir()}
    for rank in (0, 1, 2):
        failed = ranks.look(rank)
        assert isinstance(failed, Failed)
        assert failed.error == "other-run"
        assert OTHER_RUN in failed.message
        assert "a folder of its own" in failed.message
    assert {p.name: p.read_bytes() for p in place.iterdir()} == before
    assert {p.name for p in ranks.folder.iterdir()} == {place.name}


@pytest.mark.parametrize(
    ("other", "inherited", "is_there"),
    [
        (None, (), False),
        (None, (7,), True),  # what this run may have gone on from
        (Job("4711", 1), (), True),  # the job's start before this one: its writer was late
        (Job("4711", 2), (), False),  # two trainings in one job
        (Job("4712", 1), (), False),
    ],
)
def test_of_the_same_training_a_step_is_written_once(other, inherited, is_there, tmp_path):
    place = write_checkpoint(tmp_path, 7, num_ranks=1, run=OTHER_RUN, job=other)
    before = {p.name: p.read_bytes() for p in place.iterdir()}
    target = RunTarget(tmp_path, RUN, job=Job("4711", 2))
    commit = Commit(RealDisk(), target, 7, Reason.END, inherited=inherited)
    commit.write(DATA)
    with pytest.raises(StopIteration) as end:
        next(commit.finish())
    outcome = end.value.value
    assert isinstance(outcome, Committed) == is_there
    assert not is_there or outcome.num_bytes == 0
    assert {p.name: p.read_bytes() for p in place.iterdir()} == before
    assert not target.partial(7).exists()


def test_another_users_that_cannot_be_read_is_no_damage(tmp_path, monkeypatch):
    place = write_checkpoint(tmp_path, 7, num_ranks=1, run=OTHER_RUN)
    (place / layout.MANIFEST_NAME).write_bytes(b" " * (manifest.MAX_BYTES + 1))  # it is not read
    for euid, error in ((os.geteuid() + 1, "other-run"), (os.geteuid(), "")):
        monkeypatch.setattr(os, "geteuid", lambda euid=euid: euid)
        outcome = write_and_wait(RealDisk(), RunTarget(tmp_path, RUN), 7, Reason.INTERVAL, DATA)
        assert isinstance(outcome, Failed if error else Committed)
        assert not error or outcome.error == error


@pytest.mark.parametrize("damage", [tear, cut], ids=["flipped", "cut"])
@pytest.mark.parametrize("is_inherited", [True, False])
def test_a_torn_one_of_the_same_step_is_set_aside(damage, is_inherited, ranks):
    """On all ranks, whoever has written it, and as often as it takes."""
    for number in (1, 2):
        torn = damage(write_checkpoint(ranks.folder, 7, num_ranks=3, run=OTHER_RUN))
        for rank in (1, 2, 0):
            ranks.write(rank, inherited=(7,) if is_inherited else ())
        outcomes = [ranks.look(rank) for rank in (0, 1, 2)]
        assert [type(outcome) for outcome in outcomes] == [Committed] * 3
        assert all(outcome.num_bytes for outcome in outcomes)
        assert examine(torn, Depth.CHECKSUMS).is_whole
        assert manifest.decode((torn / layout.MANIFEST_NAME).read_bytes()).run == RUN
        assert len(list((ranks.folder / ".set-aside").iterdir())) == number
        torn.rename(ranks.folder / "done")
        shutil.rmtree(ranks.folder / "done")


def test_those_who_wait_see_that_rank_0_reads(ranks):
    write_checkpoint(ranks.folder, 7, num_ranks=3, run=OTHER_RUN)
    for rank in (1, 2, 0):
        ranks.write(rank)
    signs: list[Path] = []
    with patch.object(os, "utime", signs.append):
        ranks.look(0)
    assert set(signs) == {ranks.partial / layout.mark_name(0)}


def test_a_follower_is_not_misled_by_an_old_pointer(ranks):
    """`latest` named this step before, which is torn now."""
    torn = write_checkpoint(ranks.folder, 7, num_ranks=3)
    (torn / layout.rank_file_name(2, 3)).unlink()
    (ranks.folder / "latest").write_bytes(layout.encode_latest(7))
    for rank in (1, 0):
        ranks.write(rank)
    assert ranks.look(1) is None
    ranks.write(2)
    assert isinstance(ranks.look(0), Committed)
    assert isinstance(ranks.look(1), Committed)


def test_the_pointer_does_not_go_back(tmp_path):
    target = RunTarget(tmp_path, RUN)
    for step in (9, 7):
        assert isinstance(
            write_and_wait(RealDisk(), target, step, Reason.INTERVAL, DATA), Committed
        )
    assert (tmp_path / "latest").read_text() == "step-000000000009\n"
    newest = tmp_path / "step-000000000009"
    (newest / layout.MANIFEST_NAME).unlink()
    write_and_wait(RealDisk(), target, 8, Reason.INTERVAL, DATA)
    assert (tmp_path / "latest").read_text() == "step-000000000008\n"


def test_a_pointer_that_cannot_be_written_loses_nothing(tmp_path):
    target = RunTarget(tmp_path, RUN)
    commit = Commit(FullDisk("latest"), target, 7, Reason.INTERVAL)
    commit.write(DATA)
    with pytest.raises(StopIteration) as end:
        next(commit.finish())
    assert isinstance(end.value.value, Committed)
    assert "latest still names the one before" in commit.warning
    assert examine(tmp_path / "step-000000000007", Depth.CHECKSUMS).is_whole


def test_a_target_that_makes_no_sense():
    good = RunTarget(Path("/tmp/x"), RUN)
    for wrong in (
        {"folder": Path("relative")},
        {"run": "run"},
        {"rank": 1},
        {"rank": -1},
        {"world_size": 10**6},
        {"keep": 0},
    ):
        with pytest.raises(ValueError):
            replace(good, **wrong)
