"""The heartbeat of a training loop: what it tells, what it costs, and what it never disturbs."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gsched.runtime import heartbeat_thread
from gsched.runtime.checkpoint import Checkpointer
from gsched.runtime.heartbeat import Heartbeat
from gsched.runtime.pace import WINDOW_S, Pace, Sample
from gsched.telemetry.heartbeat_file import HeartbeatRecord
from gsched.telemetry.heartbeats import HeartbeatFolder
from gsched.telemetry.loss_curve import LossCurve
from gsched.testbed.wait import wait_for

ME = os.getuid()


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Of a job whose heart beats fifty times a second."""
    monkeypatch.setattr(heartbeat_thread, "INTERVAL_S", 0.02)
    return {"GSCHED_HEARTBEAT_DIR": str(tmp_path), "SLURM_JOB_ID": "7"}


def told(tmp_path: Path, job: str = "7", rank: int = 0) -> HeartbeatRecord | None:
    with HeartbeatFolder(tmp_path) as folder:
        return folder.record(ME, job, rank)


def curve(tmp_path: Path) -> LossCurve:
    with HeartbeatFolder(tmp_path) as folder:
        found = folder.curve(ME, "7")
    assert found is not None
    return found


def eventually(tmp_path: Path, holds: Callable[[HeartbeatRecord], object]) -> HeartbeatRecord:
    """What is told, once that holds."""

    def look() -> HeartbeatRecord | None:
        found = told(tmp_path)
        return found if found is not None and holds(found) else None

    return wait_for(look, "the heartbeat")


def test_a_loop_tells_step_loss_tokens_and_checkpoint(tmp_path, environ):
    with Heartbeat(100, environ=environ, checkpoint_dir=tmp_path / "ck") as heartbeat:
        at_once = eventually(tmp_path, lambda _: True)
        assert (at_once.step, at_once.total_steps, at_once.ended_time) == (0, 100, None)
        for step in range(1, 11):
            heartbeat.report(step, loss=torch.tensor(2.0, requires_grad=True) / step, tokens=30)
        heartbeat.committed(8)
        now = eventually(tmp_path, lambda r: r.committed_step)
        assert now.step_time >= at_once.started_time
    last = told(tmp_path)
    assert (last.step, last.loss, last.tokens) == (10, pytest.approx(0.2), 300)
    assert (last.committed_step, last.checkpoint_dir) == (8, str(tmp_path / "ck"))
    assert last.ended_time is not None
    assert [(p.step, p.loss) for p in curve(tmp_path).points] == [(10, pytest.approx(0.2))]


def test_a_checkpoint_that_is_being_written_is_told(tmp_path, environ):
    with Heartbeat(environ=environ) as heartbeat:
        assert eventually(tmp_path, lambda _: True).saving_since is None
        heartbeat.saving(begins=True)
        began = eventually(tmp_path, lambda r: r.saving_since).saving_since
        heartbeat.saving(begins=True)  # another one, before the first is done
        heartbeat.report(1)
        assert eventually(tmp_path, lambda r: r.step == 1).saving_since == began
        heartbeat.saving(begins=False)
        eventually(tmp_path, lambda r: r.saving_since is None)


def test_a_checkpointer_tells_while_it_writes(tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(Heartbeat, "saving", lambda _, begins: told.append(begins))
    monkeypatch.setattr(Heartbeat, "committed", lambda _, step: told.append(f"step {step}"))
    with Checkpointer(tmp_path, model=torch.nn.Linear(2, 2), every=1e9) as ckpt:
        for step in ckpt.steps(4):
            if step == 1:
                ckpt.save()
            if step == 2:
                wait_for(lambda: ckpt._take_outcomes() or "step 2" in told, "the commit")
    changes = [what for what, before in zip(told, [None, *told], strict=False) if what != before]
    assert changes == [False, True, "step 2", False, True, "step 4", False]


def test_a_second_attempt_goes_on_with_the_curve(tmp_path, environ):
    with Heartbeat(100, environ=environ) as heartbeat:
        heartbeat.report(30, loss=3.0)
        eventually(tmp_path, lambda r: r.step == 30)
        heartbeat.report(50, loss=2.0)
    again = environ | {"SLURM_RESTART_COUNT": "1"}
    with Heartbeat(100, environ=again, first_step=40) as heartbeat:
        assert eventually(tmp_path, lambda r: r.restart == 1).step == 40
        heartbeat.report(41, loss=2.5)
    found = curve(tmp_path)
    assert [(p.step, p.loss) for p in found.points] == [(30, 3.0), (41, 2.5)]
    assert [(a.restart, a.first_step, a.last_step) for a in found.attempts] == [
        (0, 0, 50), (1, 40, 41),
    ]  # fmt: skip


def test_a_number_that_slurm_gave_again_begins_a_new_curve(tmp_path, environ):
    with Heartbeat(environ=environ | {"SLURM_RESTART_COUNT": "2"}) as heartbeat:
        heartbeat.report(30, loss=3.0)
    with Heartbeat(environ=environ) as heartbeat:
        heartbeat.report(1, loss=9.0)
    assert [(p.step, p.loss) for p in curve(tmp_path).points] == [(1, 9.0)]
    assert len(curve(tmp_path).attempts) == 1


def test_a_loss_that_is_not_finite_is_told_as_such(tmp_path, environ):
    with Heartbeat(environ=environ) as heartbeat:
        heartbeat.report(1, loss=1.5)
        eventually(tmp_path, lambda r: r.loss)
        heartbeat.report(2, loss=float("nan"))
        assert eventually(tmp_path, lambda r: r.bad_losses).loss == 1.5
        heartbeat.report(3, loss=1.25)
        assert eventually(tmp_path, lambda r: not r.bad_losses).loss == 1.25


def test_only_news_are_written(tmp_path, environ):
    with Heartbeat(environ=environ) as heartbeat:
        eventually(tmp_path, lambda _: True)
        heartbeat.report(1)
        eventually(tmp_path, lambda r: r.step == 1)
        heartbeat.committed(1)
        eventually(tmp_path, lambda r: r.committed_step == 1)
    assert told(tmp_path).seq == 3  # the begin, a step, a checkpoint, and the end


def test_a_process_that_does_no_step_says_that_it_lives(tmp_path, environ, monkeypatch):
    monkeypatch.setattr(heartbeat_thread, "ALIVE_INTERVAL_S", 0.0)
    with Heartbeat(environ=environ):
        began = eventually(tmp_path, lambda _: True)
        later = eventually(tmp_path, lambda r: r.seq > 3)
    assert later.written_time > began.written_time
    assert later.step_time == began.step_time


def test_ranks_tell_for_themselves_and_arrays_by_task(tmp_path, environ):
    task = environ | {"SLURM_ARRAY_JOB_ID": "5", "SLURM_ARRAY_TASK_ID": "0", "RANK": "2"}
    with Heartbeat(environ=task | {"WORLD_SIZE": "4", "SLURM_PROCID": "0"}) as heartbeat:
        heartbeat.report(9)
    last = told(tmp_path, "5_0", rank=2)
    assert (last.rank, last.world_size, last.step) == (2, 4, 9)
    srun = environ | {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "2"}
    with Heartbeat(environ=srun):
        pass
    assert told(tmp_path, rank=1).world_size == 2


@pytest.mark.parametrize("missing", ["GSCHED_HEARTBEAT_DIR", "SLURM_JOB_ID"])
def test_outside_a_job_nothing_is_written(tmp_path, environ, missing):
    del environ[missing]
    with Heartbeat(environ=environ) as heartbeat:
        heartbeat.report(1, loss=1.0, tokens=2)
        heartbeat.committed(1)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_fails_is_told_once_and_the_loop_goes_on(tmp_path, environ, caplog):
    place = tmp_path / "later"
    environ["GSCHED_HEARTBEAT_DIR"] = str(place)
    with caplog.at_level(logging.WARNING), Heartbeat(environ=environ) as heartbeat:
        heartbeat.report(1)
        wait_for(lambda: caplog.records, "a warning")
        place.mkdir()
        heartbeat.report(2)
        wait_for(lambda: told(place), "the folder to be used")
    assert [r.getMessage() for r in caplog.records if "later" not in r.getMessage()] == []
    assert len(caplog.records) == 1


def test_a_loss_that_is_no_number_is_told_once(tmp_path, environ, caplog):
    with caplog.at_level(logging.WARNING), Heartbeat(environ=environ) as heartbeat:
        heartbeat.report(1, loss=torch.ones(2))
        wait_for(lambda: caplog.records, "a warning")
        eventually(tmp_path, lambda r: r.step == 1)
        heartbeat.report(2)
        assert eventually(tmp_path, lambda r: r.step == 2).loss is None
    assert len(caplog.records) == 1


LOOP = """
import os, sys, time
from gsched.runtime.heartbeat import Heartbeat
heartbeat = Heartbeat(1000)
heartbeat.report(5, loss=1.0)
print("torch" in sys.modules, flush=True)
if os.fork() == 0:
    heartbeat.report(99)
    os._exit(0)
time.sleep(600)
"""


def test_a_killed_process_leaves_its_last_word(tmp_path, environ):
    """Neither torch nor a forked worker is needed for that, nor do they spoil it."""
    child = subprocess.Popen(
        [sys.executable, "-c", LOOP], env=os.environ | environ, stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "False\n"
        eventually(tmp_path, lambda r: r.step == 5)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
    last = told(tmp_path)
    assert (last.step, last.ended_time) == (5, None)


def paced(*samples: tuple[float, int, int]) -> tuple[float | None, float | None, float | None]:
    pace = Pace()
    for sample in samples:
        pace.add(Sample(*sample))
    return pace.iteration_s, pace.pace_s, pace.tokens_per_s


def test_the_pace_is_that_of_the_last_ten_minutes():
    assert paced() == paced((0, 1, 0)) == (None, None, None)
    assert paced((0, 1, 0), (10, 6, 500)) == (2, 2, 50)
    assert paced((0, 1, 0), (10, 6, 500), (14, 7, 560)) == (4, 14 / 6, 40)
    late = (0, 1, 0), (10, 11, 0), (WINDOW_S, 12, 0), (WINDOW_S + 20, 13, 0)
    assert paced(*late)[:2] == (20, (WINDOW_S + 10) / 2)


def test_two_samples_stay_however_slow_the_steps_are():
    hour = 6 * WINDOW_S
    assert paced((0, 1, 0), (hour, 2, 0), (2 * hour, 3, 0))[:2] == (hour, hour)


def test_steps_that_go_back_begin_a_new_pace():
    assert paced((0, 100, 0), (10, 110, 0), (11, 1, 0)) == (None, None, None)
    assert paced((0, 5, 0), (1, 5, 0)) == (None, None, None)
