"""The writer is killed, or refused, at each of its system calls and at each of its fault points."""

from __future__ import annotations

import collections
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.traced import calls
from support.writer_run import KEEP, FaultyRun, TracedRun, WriterRun, whole_steps

from gsched.ckpt import layout
from gsched.ckpt.faults import FLUSH_POINTS, VARIABLE, FaultPoint
from gsched.ckpt.manifest import Reason
from gsched.ckpt.outcome import Committed, Failed
from gsched.ckpt.writer.messages import Notice
from gsched.errors import UnavailableError
from gsched.testbed.wait import wait_for

BEFORE = (3, 5)
"""Committed when the faults begin; KEEP of them stay, so that a third one's commit removes one."""
CHANGING = ("mkdir", "write", "fsync", "rename", "unlink", "rmdir")
"""The system calls with which the writer changes a disk, but for opening."""

OF_SEVERAL_RANKS = (FaultPoint.MARKED, *FLUSH_POINTS)
"""Fault points that a rank alone does not come to."""


@pytest.fixture(scope="module")
def before(tmp_path_factory) -> Path:
    """A folder with two checkpoints."""
    folder = tmp_path_factory.mktemp("before") / "checkpoints"
    with WriterRun(folder) as run:
        for step in BEFORE:
            assert isinstance(run.save(step)[0], Committed)
    assert whole_steps(folder) == set(BEFORE)
    return folder


@pytest.fixture(scope="module")
def counts(before, tmp_path_factory) -> collections.Counter[str]:
    """How often the writer makes each system call in its life, for one checkpoint."""
    scratch = tmp_path_factory.mktemp("counts")
    shutil.copytree(before, scratch / "checkpoints")
    with TracedRun(scratch / "checkpoints", scratch) as run:
        run.save(8)
        wait_until_tidy(scratch / "checkpoints", {5, 8})
    counted = collections.Counter(call.name for call in calls(run.logs[0]))
    # checkpoint, manifest and pointer; files and the folders that they are in; the removed one's
    assert counted["write"] >= 3
    assert counted["fsync"] >= 6
    assert counted["rename"] >= 4
    assert counted["unlink"] >= 2
    return counted


def folders(before: Path, scratch: Path, number: int) -> Iterator[tuple[int, Path]]:
    """A fresh copy of `before` for each of 1 … `number`."""
    for when in range(1, number + 1):
        here = scratch / str(when)
        shutil.copytree(before, here / "checkpoints")
        yield when, here / "checkpoints"


@pytest.mark.parametrize("call", CHANGING)
def test_killed_at_any_system_call(call, before, counts, tmp_path):
    for when, folder in folders(before, tmp_path, counts[call]):
        with TracedRun(folder, folder.parent, inject=[f"{call}:signal=KILL:when={when}"]) as run:
            survive_a_death(run, folder, when)
            wait_until_tidy(folder, {9, 12})


@pytest.mark.parametrize("point", [p for p in FaultPoint if p not in OF_SEVERAL_RANKS])
def test_killed_at_a_fault_point(point, before, tmp_path):
    folder = tmp_path / "checkpoints"
    shutil.copytree(before, folder)
    if point is FaultPoint.SET_ASIDE:
        shutil.copytree(folder / layout.step_name(5), folder / layout.step_name(8))
    with FaultyRun(folder, 1, {VARIABLE: point.value}) as run:
        survive_a_death(run, folder, point)
        aside = [layout.SET_ASIDE_NAME] if point is FaultPoint.SET_ASIDE else []
        wait_until_tidy(folder, {9, 12}, *aside)


@pytest.mark.parametrize(
    "point", [FaultPoint.DATA_SYNCED, FaultPoint.ALL_MARKED, *OF_SEVERAL_RANKS]
)
def test_rank_0_is_killed_at_a_fault_point(point, tmp_path):
    """It is written once more by the next writer; what is flushed then may be lost, but no more."""
    folder = tmp_path / "checkpoints"
    with WriterRun(folder, 2) as run:
        assert all(isinstance(run.save(step)[1], Committed) for step in BEFORE)
    with FaultyRun(folder, 2, {VARIABLE: point.value}) as run:
        if point in FLUSH_POINTS:
            run.fill(8)
            for link in run.links:
                link.flush(Reason.SIGNAL)
            wait_for(run.links[1].poll, "an answer to the rank that lives", timeout_s=10)
        else:
            assert all(isinstance(outcome, Committed) for outcome in run.save(8))
        wait_for(lambda: death_notices(run), f"a death at {point}", timeout_s=10)
        assert whole_steps(folder, 2) - {8} <= set(BEFORE)
        assert len(whole_steps(folder, 2)) >= KEEP
        assert all(isinstance(outcome, Committed) for outcome in run.save(9))
        assert 9 in whole_steps(folder, 2)


def survive_a_death(run: WriterRun, folder: Path, where: object) -> None:
    """Save while the writer dies, and after it."""
    outcome = run.save(8)[0]  # by the next writer, where one has died
    assert isinstance(outcome, Committed), (where, outcome)
    assert whole_steps(folder) >= {5, 8}, where
    wait_for(lambda: death_notices(run), f"a death at {where}", timeout_s=10)
    for step in (9, 12):
        assert isinstance(run.save(step)[0], Committed), where


def death_notices(run: WriterRun) -> list[str]:
    """What is said of a writer that was killed, since this was last asked."""
    notices = [o.message for o in run.links[0].poll() if isinstance(o, Notice)]
    return [words for words in notices if "signal 9" in words]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        *(("write", error) for error in ("EDQUOT", "EIO", "ENOSPC")),
        *(("fsync", "EIO"), ("mkdir", "EDQUOT"), ("rename", "EIO"), ("unlink", "EIO")),
    ],
)
def test_refused_at_any_system_call(call, error, before, counts, tmp_path):
    failures = 0
    for when, folder in folders(before, tmp_path, counts[call]):
        with TracedRun(folder, folder.parent, inject=[f"{call}:error={error}:when={when}"]) as run:
            outcome = run.save(8)[0]
            if isinstance(outcome, Failed):
                failures += 1
                assert outcome.error == error
                assert whole_steps(folder) >= set(BEFORE), (when, outcome)
            else:
                assert isinstance(outcome, Committed)
                wait_for_removal(run, folder)
                assert whole_steps(folder) >= {5, 8}, (when, outcome)
            assert isinstance(run.save(9)[0], Committed), when
            assert isinstance(run.save(12)[0], Committed), when
            wait_until_tidy(folder, {9, 12})
    if call in ("write", "fsync"):
        assert failures >= 2, "the checkpoint's and the manifest's"


def wait_for_removal(run: WriterRun, folder: Path) -> None:
    """Until the writer has removed what is too old, or has said why it has not."""

    def settled() -> bool:
        told = any(isinstance(outcome, Notice) for outcome in run.links[0].poll())
        return told or len(list(folder.glob("step-*"))) <= KEEP

    wait_for(settled, "the removal of the oldest checkpoint", timeout_s=10)


def wait_until_tidy(folder: Path, steps: set[int], *others: str) -> None:
    """These checkpoints are there, the pointer names the last, and nothing else lies about."""
    expected = {layout.LATEST_NAME, *map(layout.step_name, steps), *others}

    def names() -> set[str]:
        return {path.name for path in folder.iterdir()}

    try:
        wait_for(lambda: names() == expected, "nothing else to lie about", timeout_s=5)
    except UnavailableError as e:
        raise AssertionError(f"{e}: {sorted(names())}") from e
    assert whole_steps(folder) == steps
    assert layout.parse_latest((folder / layout.LATEST_NAME).read_bytes()) == max(steps)
