"""Two runs in one folder of checkpoints: one is refused, unless it is the same job's next."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest

from gsched.ckpt import layout, lock
from gsched.ckpt.lock import FolderLock, Holder
from gsched.ckpt.manifest import Job
from gsched.ckpt.presence import Presence
from gsched.ckpt.target import RunTarget
from gsched.errors import TryAgainError
from gsched.runtime.checkpoint import Checkpointer, folder_lock


def test_a_second_run_in_the_folder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711_3")
    first, second = {"seen": 0}, {"seen": -1}
    with Checkpointer(tmp_path, every=3600, note=first) as ckpt:
        for step in ckpt.steps(3):
            first["seen"] = step
            if step == 1:
                with pytest.raises(TryAgainError) as refused:
                    Checkpointer(tmp_path, note=second).start()
    words = "".join(traceback.format_exception(refused.value))
    assert Holder.this_process(Job("4711_3", 0)).words in words
    assert "GSCHED_CHECKPOINT_DIR" in words
    assert second == {"seen": -1}
    with Checkpointer(tmp_path, note=second) as ckpt:
        assert ckpt.step == 3
    assert second == {"seen": 2}


def test_an_attempt_that_slurm_has_lost_ends_when_a_later_one_has_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after the loss of a node: it trains on, while the job runs again elsewhere."""
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    clock = iter(range(10_000))
    later: list[FolderLock | None] = []

    def train() -> None:
        with Checkpointer(tmp_path, every=3600, note={"seen": 0}) as ckpt:
            for step in ckpt.steps(10**6):
                if step == 3:
                    holder = Holder("n2", 1, "4711", 2)
                    later.append(
                        lock.take(
                            tmp_path,
                            holder,
                            print,
                            stopwatch=lambda: next(clock),
                            sleep=lambda _: None,
                        )
                    )
                elif step > 3:
                    ckpt.save()

    with pytest.raises(TryAgainError, match="taken over by a later attempt of this job"):
        train()
    assert not list(tmp_path.glob("step-*"))
    assert later[0] is not None
    later[0].close()


def test_each_rank_holds_a_lock_of_its_own(tmp_path: Path) -> None:
    class SecondRank:
        rank = 1

        def from_first(self, _: list[str]) -> list[str]:
            return []

    run = layout.new_run()
    held = folder_lock.hold(tmp_path, run, None, SecondRank())  # type: ignore[arg-type]
    assert held is not None
    target = RunTarget(tmp_path, run, 0, 2)
    assert not Presence(target).has_ended(1)
    held.close()
    assert Presence(target).has_ended(1)
