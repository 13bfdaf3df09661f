"""The power goes off at any moment: what lies on the disk then, and what of it still loads.

Programs run under strace(1); each prefix of what they asked of the disk is cut there, with every
combination of what had not been synced. The catalogue judges what is left.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.power_cut import Told, Tree, Volume, tree_of
from support.recorded_disk import (
    FOLDER,
    Judge,
    Recorded,
    record_command,
    record_writer,
    sync_kinds,
)
from support.writer_run import KEEP, TracedRun, WriterRun

STEPS = (3, 5, 8, 9)
"""KEEP of them stay."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Recorded:
    """One rank writes checkpoints."""
    return record_writer(tmp_path_factory.mktemp("alone"), STEPS)


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Recorded:
    """Two ranks do, each with its writer."""
    return record_writer(tmp_path_factory.mktemp("two"), STEPS[:3], world_size=2)


@pytest.fixture
def four(tmp_path) -> Path:
    """A disk with four checkpoints."""
    root = tmp_path / "disk"
    root.mkdir()
    for number in range(0, len(STEPS), KEEP):
        with WriterRun(root / FOLDER) as run:
            for step in STEPS[number : number + KEEP]:
                run.save(step)
        if number == 0:
            (root / FOLDER).rename(root / "first")
    for path in (root / "first").glob("step-*"):
        path.rename(root / FOLDER / path.name)
    shutil.rmtree(root / "first")
    return root


def test_the_log_is_all_that_happened(alone, two):
    """What the model says the program reads is what lies on the real disk."""
    for recorded in (alone, two):
        volume = Volume(recorded.start)
        for operation in recorded.log:
            volume.do(operation)
        assert volume.now() == recorded.end
    assert [o.step for o in alone.log if isinstance(o, Told)] == list(STEPS)


@pytest.mark.parametrize("name", ["alone", "two"])
def test_after_a_cut_at_any_moment_the_newest_valid_one_loads(name, request):
    recorded = request.getfixturevalue(name)
    judge = Judge()
    assert not judge.first_complaint(recorded)
    assert judge.judged > len(recorded.log)


def test_each_fsync_is_needed(alone):
    """The control: without any one kind of them, a cut is found that breaks a promise."""
    kinds = set(sync_kinds(alone.log)) - {""}
    assert len(kinds) >= 7, kinds
    unnoticed = {kind for kind in kinds if not Judge().first_complaint(alone.without(kind))}
    assert not unnoticed


def test_no_rank_may_leave_out_its_fsync(two):
    kinds = {k for k in sync_kinds(two.log) if "-of-00002" in k or "manifest" in k}
    assert len(kinds) >= 4, kinds
    unnoticed = {kind for kind in kinds if not Judge().first_complaint(two.without(kind))}
    assert not unnoticed


def test_a_torn_checkpoint_of_the_same_step_is_in_the_way(four, tmp_path):
    shard = next((four / FOLDER / "step-000000000009").glob("*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-100])
    recorded = _record_save(four, tmp_path, 9)
    judge = Judge(standing=(5, 8), torn=(9,))
    assert not judge.first_complaint(recorded)


def test_what_a_failed_fsync_has_forgotten_is_not_committed(tmp_path):
    """A later fsync of the same file would succeed, and save nothing."""
    for when in range(1, 8):
        here = tmp_path / str(when)
        here.mkdir()
        recorded = record_writer(here, STEPS[:2], inject=[f"fsync:error=EIO:when={when}"])
        assert not Judge(looks_at_pointer=False).first_complaint(recorded), when


def test_a_cut_while_pruning(four, tmp_path):
    command = ["prune", str(four / FOLDER), "--keep", "1", "--apply"]
    recorded = record_command(tmp_path, four, [*_GSCHED, *command])
    assert {p for p in recorded.end if p.startswith(f"{FOLDER}/step-")} < set(recorded.start)
    assert not Judge(keep=1, standing=STEPS).first_complaint(recorded)


def test_a_cut_while_an_earlier_one_is_resumed_and_back(four, tmp_path):
    """Each checkpoint is in its place, or set aside."""
    for words in (["--step", "5"], ["--undo"]):
        command = ["resume", str(four / FOLDER), *words]
        recorded = record_command(tmp_path, four, [*_GSCHED, *command])
        judge = Judge(len(STEPS), STEPS, looks_aside=True, looks_at_pointer=False)
        assert not judge.first_complaint(recorded)
        assert recorded.end != recorded.start
        assert all(_manifests(tree) == _manifests(recorded.end) for tree in _after(recorded))
    assert _manifests(tree_of(four)) == {
        f"{FOLDER}/step-{step:012d}/manifest.json" for step in STEPS
    }


def _after(recorded: Recorded) -> Iterator[Tree]:
    """What a cut may leave once the program has ended."""
    volume = Volume(recorded.start)
    for operation in recorded.log:
        volume.do(operation)
    return volume.after_a_cut()


def _manifests(tree: Tree) -> set[str]:
    return {path for path in tree if path.endswith("manifest.json")}


_GSCHED = [sys.executable, "-m", "gsched_cli.main", "ckpt"]


def _record_save(root: Path, scratch: Path, step: int) -> Recorded:
    start = tree_of(root)
    with TracedRun(root / FOLDER, scratch) as run:
        run.save(step)
    files = [path for path, data in start.items() if data is not None]
    return Recorded(start, run.operations(root, files), tree_of(root))
