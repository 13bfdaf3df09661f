"""Writers of two runs in one folder: at the same time by mistake, or one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.checkpoints import tear, write_checkpoint

from gsched.ckpt import layout
from gsched.ckpt.catalogue import examine
from gsched.ckpt.found import Depth
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.target import RunTarget
from gsched.ckpt.writer.link import WriterLink

LIMIT_S = 30.0


@contextmanager
def run_in(folder: Path, run: str) -> Iterator[WriterLink]:
    link = WriterLink.open(RunTarget(folder, run, keep=1))
    link.ensure_room(1000)
    yield link
    link.close(LIMIT_S)


def save(link: WriterLink, step: int) -> Committed | Failed | None:
    slot = link.free_slot()
    assert slot is not None
    link.buffer(slot)[:12] = link.target.run.encode()
    link.filled(slot, step, 12)
    link.persist(step, Reason.INTERVAL)
    return link.wait(step, LIMIT_S)


def written_by(folder: Path, step: int) -> bytes:
    return (folder / layout.step_name(step) / layout.rank_file_name(0, 1)).read_bytes()


def test_what_one_run_has_saved_is_not_taken_for_the_others(tmp_path):
    with run_in(tmp_path, "a" * 12) as first, run_in(tmp_path, "b" * 12) as second:
        assert isinstance(save(first, 7), Committed)
        failed = save(second, 7)
        assert isinstance(failed, Failed)
        assert failed.error == "other-run"
        assert "a" * 12 in failed.message
        assert written_by(tmp_path, 7) == b"a" * 12
        assert isinstance(save(second, 8), Committed)
        assert written_by(tmp_path, 8) == b"b" * 12


@pytest.mark.parametrize("is_damaged", [False, True])
def test_what_was_there_at_the_start_is_written_anew_only_if_damaged(is_damaged, tmp_path):
    place = write_checkpoint(tmp_path, 7, num_ranks=1)
    before = written_by(tmp_path, 7)
    if is_damaged:
        tear(place)
        (tmp_path / layout.LATEST_NAME).write_bytes(layout.encode_latest(7))
    with run_in(tmp_path, "b" * 12) as link:
        assert not is_damaged or isinstance(save(link, 5), Committed)
        pointer = tmp_path / layout.LATEST_NAME
        assert not is_damaged or pointer.read_bytes() == layout.encode_latest(5)
        outcome = save(link, 7)
    assert isinstance(outcome, Committed)
    assert (outcome.num_bytes > 0) == is_damaged
    assert written_by(tmp_path, 7) == (b"b" * 12 if is_damaged else before)
    assert examine(place, Depth.CHECKSUMS).is_whole
    assert (tmp_path / layout.SET_ASIDE_NAME).exists() == is_damaged
