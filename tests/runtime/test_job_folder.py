"""Several trainings of one job: each has its own checkpoints below the folder of the job."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gsched.runtime.checkpoint import Checkpointer, job_folder
from gsched.telemetry.job_environment import mark_as_of_job

VARIABLE = "GSCHED_CHECKPOINT_DIR"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the batch process of job 7 has told its script."""
    folder = tmp_path / "job" / "7"
    told = {"SLURM_JOB_ID": "7", VARIABLE: str(folder)}
    for name, value in (told | mark_as_of_job(told, [VARIABLE])).items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return folder


def train(named: str | Path | None, num_steps: int) -> tuple[Path, list[int]]:
    """The folder of a training, and the steps that it did."""
    with Checkpointer(named, every=3600, state={"x": 0}) as ckpt:
        return ckpt.folder, list(ckpt.steps(num_steps))


def test_a_second_training_does_not_go_on_after_the_first(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert train("pretrained", 4) == (folder, [0, 1, 2, 3])
    assert "another training" not in caplog.text
    fine_tuned, steps = train("fine/tuned", 3)
    assert (fine_tuned, steps) == (folder / "training-fine%2Ftuned", [0, 1, 2])
    assert caplog.text.count(f"another training of this job has {folder}; this one begins") == 1
    # as after a requeue, in whatever order they come then
    assert train("fine/tuned", 5) == (fine_tuned, [3, 4])
    assert train("./pretrained/", 6) == (folder, [4, 5])
    assert train(None, 1) == (folder / "training-", [0])


def test_without_a_name_it_may_be_the_first(folder: Path) -> None:
    assert train(None, 2) == (folder, [0, 1])
    assert train("named", 1) == (folder / "training-named", [0])
    assert train(None, 3) == (folder, [2])


def test_one_at_the_same_time_has_its_own_too(folder: Path) -> None:
    with Checkpointer("a", every=3600, state={"x": 0}) as first:
        for _ in first.steps(2):
            pass
        assert train(folder.parent / "b", 2)[1] == [0, 1]


def test_what_a_person_sets_is_the_folder_itself(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(folder.parent / "mine"))
    assert train("a", 1)[0] == train("b", 1)[0] == folder.parent / "mine"


def test_another_job_s_folder_is_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was submitted by sbatch within job 7, and has inherited all of its environment."""
    monkeypatch.setenv("SLURM_JOB_ID", "8")
    assert train("own", 1) == (Path.cwd() / "own", [0])
    assert not folder.exists()


@pytest.mark.parametrize("planted", ["link", "fifo", "foreign"])
def test_a_planted_name_is_not_believed(folder: Path, planted: str) -> None:
    folder.mkdir(parents=True)
    place = folder / job_folder.FIRST
    if planted == "link":
        (folder.parent / "there").write_text("a")
        place.symlink_to(folder.parent / "there")
    elif planted == "fifo":
        os.mkfifo(place)
    else:
        place.write_text("a")
        os.chown(place, 5, 60)
    assert job_folder.of_training(folder, "b") == folder


def test_a_long_name_is_shortened_and_still_its_own(folder: Path) -> None:
    job_folder.of_training(folder, "a")
    long, longer = (job_folder.of_training(folder, letter * 900) for letter in "xy")
    assert long != longer
    assert len(long.name) < 255
    assert job_folder.of_training(folder, "x" * 900) == long
