"""A full disk: the checkpoint is not written, the old ones stay, the next one may succeed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.machine import NO_NAMESPACES, has_mount_namespaces
from support.writer_run import WriterRun, whole_steps

from gsched.ckpt import layout
from gsched.ckpt.outcome import Committed, Failed

NUM_BYTES = 3 << 20
"""Of a checkpoint; writing takes chunks of 1 MiB."""


@contextmanager
def small_disk(path: Path, options: str) -> Iterator[Path]:
    """A file system in memory. Where none can be had, injected ENOSPC elsewhere has to do."""
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    if subprocess.run(mount, check=False).returncode != 0 and not has_mount_namespaces():
        pytest.skip(NO_NAMESPACES)
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.parametrize("room_chunks", [6, 7, 8])
def test_no_room_for_another(room_chunks, tmp_path):
    """Two checkpoints of three chunks fit; of a third none, one or two chunks do."""
    with small_disk(tmp_path / "disk", f"size={room_chunks * 1024 + 256}k") as disk:
        folder = disk / "checkpoints"
        with WriterRun(folder, num_bytes=NUM_BYTES) as run:
            assert isinstance(run.save(3)[0], Committed)
            assert isinstance(run.save(5)[0], Committed)
            for step in (8, 9):
                failed = run.save(step)[0]
                assert isinstance(failed, Failed)
                assert failed.error == "ENOSPC"
                assert layout.step_name(step) in failed.message
                assert whole_steps(folder) == {3, 5}
                assert len(list(folder.glob(".partial*"))) == 0, "what it had written is given back"
            subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
            assert isinstance(run.save(12)[0], Committed)
        assert whole_steps(folder) == {5, 12}


def test_no_inode_for_another(tmp_path):
    """A quota of files: the folder, or a file in it, cannot be made."""
    for inodes in range(9, 14):
        with small_disk(tmp_path / str(inodes), f"nr_inodes={inodes}") as disk:
            folder = disk / "checkpoints"
            with WriterRun(folder) as run:
                assert isinstance(run.save(3)[0], Committed)
                assert isinstance(run.save(5)[0], Committed)
                third = run.save(8)[0]
                whole = whole_steps(folder)
                if isinstance(third, Failed):
                    assert third.error == "ENOSPC"
                    assert whole == {3, 5}
                else:
                    assert whole >= {5, 8}
                subprocess.run(["mount", "-o", "remount,nr_inodes=100", str(disk)], check=True)
                assert isinstance(run.save(12)[0], Committed)
            assert 12 in whole_steps(folder)


def test_several_ranks_learn_that_one_has_no_room(tmp_path):
    with small_disk(tmp_path / "disk", f"size={2 * 6 * 1024 + 2 * 1024}k") as disk:
        folder = disk / "checkpoints"
        with WriterRun(folder, 2, num_bytes=NUM_BYTES) as run:
            assert all(isinstance(o, Committed) for o in run.save(3) + run.save(5))
            outcomes = run.save(8)
            assert all(isinstance(outcome, Failed) for outcome in outcomes)
            assert "ENOSPC" in {o.error for o in outcomes if isinstance(o, Failed)}
            assert whole_steps(folder, 2) == {3, 5}
            subprocess.run(["mount", "-o", "remount,size=30m", str(disk)], check=True)
            assert all(isinstance(outcome, Committed) for outcome in run.save(9))
        assert whole_steps(folder, 2) == {5, 9}
