"""A profile run ends by itself after its first steps, and leaves nothing behind."""

from __future__ import annotations

import os
import sys

import pytest
from support.launching import launch

from gsched.launch import profile
from gsched.telemetry.heartbeats import HeartbeatFolder

TRAINER = """
import sys, time
from pathlib import Path
from gsched.runtime.heartbeat import Heartbeat
import os
folder = Path(os.environ["GSCHED_CHECKPOINT_DIR"])
folder.mkdir(parents=True)
(folder / "weights").write_text("x")
print("checkpoints in", folder, flush=True)
with Heartbeat(100_000) as heartbeat:
    for step in range(100_000):
        time.sleep(0.02)
        heartbeat.report(step + 1)
"""


@pytest.fixture
def trainer(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAINER)
    return f"exec {sys.executable} {path}"


def run(tmp_path, body, *options):
    beats = tmp_path / "beats"
    beats.mkdir(mode=0o1777)
    folder = ("--checkpoints", "ck", "--heartbeat", str(beats))
    return launch(tmp_path, body, *folder, *options, SLURM_JOB_ID="71")


def test_it_ends_so_long_after_its_first_step(tmp_path, trainer):
    code, said = run(tmp_path, trainer, "--profile", "3").end()
    assert code == 0
    assert "the profile run ends: it has run for 3 s from its first step on" in said
    with HeartbeatFolder(tmp_path / "beats") as beats:
        record = beats.record(os.getuid(), "71")
    assert 5 < record.step < 100_000
    assert record.iteration_s > 0.02


def test_its_checkpoints_are_apart_and_thrown_away(tmp_path, trainer):
    (tmp_path / "ck" / "70").mkdir(parents=True)
    _, said = run(tmp_path, trainer, "--profile", "1").end()
    assert f"checkpoints in {tmp_path}/ck/profile-71" in said
    assert [path.name for path in (tmp_path / "ck").iterdir()] == ["70"]


def test_a_folder_that_the_job_itself_would_use_is_not_touched(tmp_path, trainer):
    own = tmp_path / "own"
    own.mkdir()
    options = ("--checkpoint-folder", str(own), "--profile", "1")
    _, said = run(tmp_path, trainer, *options).end()
    assert "ck/profile-71" in said
    assert list(own.iterdir()) == []
    assert not (tmp_path / "ck").exists()


def test_a_script_that_ends_before_has_its_own_end(tmp_path):
    assert run(tmp_path, "exit 3", "--profile", "60").end()[0] == 3


class Clock:
    now = 0.0


def test_a_script_that_comes_to_no_step_ends_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(profile.time, "monotonic", lambda: Clock.now)
    waits = profile.Profile(5.0, None, {"GSCHED_HEARTBEAT_DIR": str(tmp_path)})
    for Clock.now in range(0, int(profile.START_S) + 1, 10):
        assert not waits.is_due()
    Clock.now += 10
    assert waits.is_due()
    assert waits.is_over
    assert not waits.is_due()  # said once


def test_a_link_in_place_of_the_checkpoints_leads_nowhere(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "kept").touch()
    link = tmp_path / "profile-71"
    link.symlink_to(own)
    profile.throw_away(link)
    profile.throw_away(None)
    assert (own / "kept").exists()
