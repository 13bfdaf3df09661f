from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from gsched.app import awaiting
from gsched.app.answers import Answer
from gsched.app.awaiting import submit_and_wait
from gsched.app.queue_filter import own_name
from gsched.app.submit import Submission
from gsched.app.submitted import Fate, Submitted
from gsched.config.settings import Settings
from gsched.errors import TryAgainError, UnavailableError
from gsched.model.job import Wants

WANTS = Wants(deadline=1_800_000_000)


class Scene:
    """An sbatch and an scancel that note how they are called, and an answer made to measure."""

    def __init__(self, folder, monkeypatch):
        self.said = []
        self._folder = folder
        self._monkeypatch = monkeypatch
        self.program("sbatch", "echo Submitted batch job 7")
        self.program("scancel", f"echo $* >>{folder}/cancelled")
        self.answer(Answer(True, ("on target",), {}))
        self.fate(Fate.WAITS)

    def program(self, name, text):
        path = self._folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def answer(self, answer):
        def await_answer(settings, job, wait_s, asked, *, suggests):
            self.job, self.suggests = job, suggests
            self.asked = (job.job_id, wait_s, job.cluster, asked)
            if isinstance(answer, BaseException):
                raise answer
            return answer() if callable(answer) else answer

        self._monkeypatch.setattr(awaiting, "await_answer", await_answer)

    def fate(self, fate):
        def found(job, timeout_s):
            self.looked_s = timeout_s
            if isinstance(fate, BaseException):
                raise fate
            return fate

        self._monkeypatch.setattr(Submitted, "fate", found)

    def submit(self, otherwise="best-effort", **facts):
        facts = {"wait_s": 5.0} | facts
        environ = {"PATH": f"{self._folder}:/usr/bin:/bin"}
        submission = Submission(("sbatch",), environ, wants=WANTS, otherwise=otherwise, **facts)
        return submit_and_wait(submission, Settings(), self.said.append)

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
    assert scene.said[-1].startswith("job 7 could not be cancelled: scancel failed: no")


@pytest.mark.parametrize(
    ("fate", "words"),
    [
        (Fate.ENDED, "has ended already"),
        (Fate.GONE, "is unknown to Slurm by now"),
        (Fate.ANOTHER, "is by now another job of that id"),
    ],
)
def test_only_the_job_that_was_submitted_is_cancelled(scene, fate, words):
    scene.answer(TryAgainError("no answer"))
    scene.fate(fate)
    assert scene.submit("cancel") == 75
    assert scene.said[1:] == [f"job 7 {words}: nothing is cancelled"]
    assert scene.cancelled == []
    scene.said.clear()
    assert scene.submit() == 75
    assert scene.said[1:] == [f"job 7 {words}"]


def test_a_job_that_runs_already_is_cancelled_too(scene):
    scene.answer(Answer(False, ("no",), {}))
    scene.fate(Fate.RUNS)
    assert scene.submit() == 3
    assert scene.said[-1] == "job 7 runs already"
    assert scene.submit("cancel") == 3
    assert scene.cancelled == ["7"]


def test_where_nobody_can_look_nothing_is_claimed_and_nothing_cancelled(scene):
    scene.answer(TryAgainError("no answer"))
    scene.fate(UnavailableError("squeue failed: away"))
    assert scene.submit() == 75
    assert scene.said[-1] == "job 7 is submitted"
    assert scene.looked_s == awaiting.LOOK_S  # words are not worth more time than was given
    assert scene.submit("cancel") == 75
    assert scene.said[-1] == "job 7 could not be cancelled: squeue failed: away"
    assert scene.cancelled == []


def test_whose_job_it_is_and_when_it_was_submitted(scene):
    before = time.time()
    scene.submit()
    assert scene.job.user == own_name()
    assert before <= scene.job.began <= scene.job.ended <= time.time()
    scene.submit(as_user="news")
    assert scene.job.user == "news"
    scene.submit(as_user="9")
    assert scene.job.user == "news"


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
    assert scene.said == ["not waiting any longer; job 7 is submitted and not cancelled"]
    assert scene.cancelled == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_that_end_a_process_leave_the_job_too(scene, number):
    before = signal.getsignal(number)

    def end():
        os.kill(os.getpid(), number)
        raise AssertionError("it went on")

    scene.answer(end)
    assert scene.submit("cancel") == 128 + number
    assert scene.said == ["not waiting any longer; job 7 is submitted and not cancelled"]
    assert scene.cancelled == []
    assert signal.getsignal(number) == before


def test_under_nohup_a_closed_terminal_does_not_end_the_waiting(scene):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        scene.answer(lambda: os.kill(os.getpid(), signal.SIGHUP) or Answer(True, ("fine",), {}))
        assert scene.submit() == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert scene.said == ["fine"]


def test_output_that_nobody_can_take_does_not_stop_the_asking(scene, monkeypatch):
    with Path("/dev/full").open("wb") as full:
        monkeypatch.setattr(awaiting, "_STDOUT", full.fileno())
        assert scene.submit() == 0
    assert scene.said == [
        "what sbatch says could not be written: No space left on device",
        "on target",
    ]


# -- suggestions ---------------------------------------------------------------------------------


@pytest.fixture
def suggesting(scene, monkeypatch):
    """Submits with ``--gs-suggest`` alone; what is suggested is told by `lines`."""

    def submit(lines, **facts):
        def suggestions(settings, job):
            scene.job = job
            if isinstance(lines, BaseException):
                raise lines
            return lines() if callable(lines) else lines

        monkeypatch.setattr(awaiting, "suggestions", suggestions)
        scene.answer(AssertionError("an answer was waited for"))
        return scene.submit(wait_s=None, suggests=True, **facts)

    return submit


def test_a_suggestion_is_told_after_sbatch_and_changes_nothing(scene, suggesting, capfd):
    assert suggesting(("predicted run 0:42", "your limit is too long")) == 0
    assert capfd.readouterr().out == "Submitted batch job 7\n"
    assert scene.said == ["predicted run 0:42", "your limit is too long"]
    assert (scene.job.job_id, scene.cancelled) == ("7", [])


def test_where_nothing_is_known_nothing_is_said(scene, suggesting):
    assert (suggesting(()), scene.said) == (0, [])


def test_where_sbatch_names_no_job_nothing_is_suggested(scene, suggesting):
    scene.program("sbatch", "echo hello")
    assert (suggesting(AssertionError("asked")), scene.said) == (0, [])


def test_where_sbatch_fails_its_code_counts_and_nothing_is_suggested(scene, suggesting):
    scene.program("sbatch", "exit 9")
    assert (suggesting(AssertionError("asked")), scene.said) == (9, [])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_suggestion_and_the_submission_was_good(scene, suggesting, number):
    before = signal.getsignal(number)

    def end():
        os.kill(os.getpid(), number)
        raise AssertionError("it went on")

    assert suggesting(end) == 0
    assert (scene.said, scene.cancelled) == ([], [])
    assert signal.getsignal(number) == before


def test_a_terminal_that_is_gone_changes_nothing(scene, suggesting):
    assert suggesting(BrokenPipeError(32, "Broken pipe")) == 0


def test_with_an_answer_its_code_counts_and_both_are_told_at_once(scene):
    assert scene.submit(suggests=True) == 0
    assert scene.suggests is True
    scene.answer(Answer(False, ("no",), {}))
    assert scene.submit(suggests=True) == 3
    assert scene.submit() == 3
    assert scene.suggests is False
