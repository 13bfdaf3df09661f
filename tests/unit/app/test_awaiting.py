from __future__ import annotations

from pathlib import Path

import pytest

from gsched.app import awaiting
from gsched.app.answers import Answer
from gsched.app.awaiting import Submitted, submit_and_wait, submitted_job
from gsched.app.submit import Submission
from gsched.config.settings import Settings
from gsched.errors import TryAgainError
from gsched.model.job import Wants

WANTS = Wants(deadline=1_800_000_000)


@pytest.mark.parametrize(
    ("stdout", "job"),
    [
        ("Submitted batch job 7\n", Submitted("7", None)),
        ("Submitted batch job 7 on cluster b\n", Submitted("7", "b")),
        ("7\n", Submitted("7", None)),
        ("7;b\n", Submitted("7", "b")),
        ("Welcome\n2026\nSubmitted batch job 7\n", Submitted("7", None)),
        ("Submitted batch job 7", Submitted("7", None)),
        ("Welcome, 12 jobs\n", None),
        ("x Submitted batch job 7\n", None),
        ("Submitted batch job seven\n", None),
        ("", None),
    ],
)
def test_the_job_is_the_one_that_sbatch_names_last(stdout, job):
    assert submitted_job(stdout) == job


class Scene:
    """An sbatch and an scancel that note how they are called, and an answer made to measure."""

    def __init__(self, folder, monkeypatch):
        self.said = []
        self._folder = folder
        self._monkeypatch = monkeypatch
        self.program("sbatch", "echo Submitted batch job 7")
        self.program("scancel", f"echo $* >>{folder}/cancelled")
        self.answer(Answer(True, ("on target",), {}))

    def program(self, name, text):
        path = self._folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def answer(self, answer):
        def await_answer(settings, slurm_id, wait_s, cluster, asked):
            self.asked = (slurm_id, wait_s, cluster, asked)
            if isinstance(answer, BaseException):
                raise answer
            return answer

        self._monkeypatch.setattr(awaiting, "await_answer", await_answer)

    def submit(self, otherwise="best-effort"):
        environ = {"PATH": f"{self._folder}:/usr/bin:/bin"}
        submission = Submission(("sbatch",), environ, wants=WANTS, otherwise=otherwise)
        return submit_and_wait(submission, 5.0, Settings(), self.said.append)

    @property
    def cancelled(self):
        path = self._folder / "cancelled"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.delenv("SLURM_CONF", raising=False)
    return Scene(tmp_path, monkeypatch)


def test_a_good_answer(scene, capfd):
    assert scene.submit("cancel") == 0
    assert capfd.readouterr().out == "Submitted batch job 7\n"
    assert scene.asked == ("7", 5.0, None, WANTS)
    assert (scene.said, scene.cancelled) == (["on target"], [])


def test_a_refused_job_stays_or_goes_as_told(scene):
    scene.answer(Answer(False, ("not feasible", "earliest Tue 02:10"), {}))
    assert scene.submit() == 3
    lines = ["not feasible", "earliest Tue 02:10"]
    assert scene.said == [*lines, "job 7 stays in the queue"]
    assert scene.cancelled == []
    scene.said.clear()
    assert scene.submit("cancel") == 3
    assert scene.said == [*lines, "job 7 is cancelled"]
    assert scene.cancelled == ["7"]


def test_without_an_answer(scene):
    scene.answer(TryAgainError("no answer within 5 s", "ask later"))
    assert scene.submit() == 75
    assert scene.said == ["no answer within 5 s", "hint: ask later", "job 7 stays in the queue"]
    assert scene.submit("cancel") == 75
    assert scene.cancelled == ["7"]


def test_another_clusters_job_is_asked_for_and_cancelled_there(scene):
    scene.program("sbatch", "echo '7;b'")
    scene.answer(TryAgainError("no answer"))
    assert scene.submit("cancel") == 75
    assert scene.asked[:3] == ("7", 5.0, "b")
    assert scene.cancelled == ["--clusters b 7"]


def test_a_job_that_could_not_be_cancelled_is_said_to_be_there(scene):
    scene.answer(TryAgainError("no answer"))
    scene.program("scancel", "echo no >&2; exit 1")
    assert scene.submit("cancel") == 75
    assert "could not be cancelled and is still there" in scene.said[-1]


def test_where_sbatch_fails_its_code_counts_and_nothing_is_asked(scene, capfd):
    scene.program("sbatch", "echo sbatch: error: no >&2; exit 9")
    scene.answer(AssertionError("asked"))
    assert scene.submit("cancel") == 9
    assert capfd.readouterr().err == "sbatch: error: no\n"
    assert scene.said == []


def test_where_sbatch_names_no_job_nothing_can_be_asked(scene):
    scene.program("sbatch", "echo hello")
    scene.answer(AssertionError("asked"))
    assert scene.submit() == 75
    assert scene.said == ["no answer of gsched: sbatch named no job"]


def test_control_c_leaves_the_job_and_says_so(scene):
    scene.answer(KeyboardInterrupt())
    assert scene.submit("cancel") == 130
    assert scene.said == ["not waiting any longer; job 7 is submitted and stays in the queue"]
    assert scene.cancelled == []


def test_output_that_nobody_can_take_does_not_stop_the_asking(scene, monkeypatch):
    with Path("/dev/full").open("wb") as full:
        monkeypatch.setattr(awaiting, "_STDOUT", full.fileno())
        assert scene.submit() == 0
    assert scene.said == [
        "what sbatch says could not be written: No space left on device",
        "on target",
    ]
