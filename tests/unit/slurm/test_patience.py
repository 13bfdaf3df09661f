"""Asking again, giving up, pacing: with a clock that only sleeping moves."""

from __future__ import annotations

import threading

import pytest

from gsched.errors import TryAgainError
from gsched.slurm.patience import CALLS_PER_S, MOST_PAUSE_S, Pace, Patience
from gsched.slurm.run import Completed

GONE = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
BUSY = "slurm_load_jobs error: Socket timed out on send/recv operation"
LIMITED = "Rate limit exceeded, please retry momentarily"


class Clock:
    """Time that passes by sleeping, and by what a command takes."""

    def __init__(self):
        self.now = 1000.0
        self.slept = []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


class Slurm:
    """Answers from a list of stderr texts ("" = success), the last one for ever."""

    def __init__(self, clock, *answers, takes_s=0.0):
        self.clock, self.answers, self.takes_s = clock, list(answers), takes_s
        self.asked = []

    def __call__(self, argv, *, stdin=None, timeout_s):
        self.asked.append((argv, stdin, timeout_s))
        if self.takes_s > timeout_s:
            self.clock.now += timeout_s
            raise TryAgainError("no answer in time")
        self.clock.now += self.takes_s
        stderr = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return Completed(tuple(argv), 1 if stderr else 0, "out", stderr)


def patience(clock, slurm, total_s=60.0, **options):
    return Patience(
        total_s,
        options.pop("notify", lambda _: None),
        runner=slurm,
        pace=Pace(1e9, clock.monotonic, clock.sleep),
        monotonic=clock.monotonic,
        sleep=clock.sleep,
        jitter=lambda: 0.5,
        **options,
    )


@pytest.mark.parametrize("trouble", [GONE, BUSY, LIMITED])
def test_a_read_is_repeated_with_growing_pauses_until_it_succeeds(trouble):
    clock = Clock()
    slurm = Slurm(clock, trouble, trouble, trouble, "")
    assert patience(clock, slurm).read(["squeue"]).status == 0
    assert clock.slept == [0.5, 1.0, 2.0]


def test_pauses_have_a_limit_and_jitter():
    clock = Clock()
    asked = patience(clock, Slurm(clock, GONE))
    asked._jitter = iter([0.0, 1.0] * 20).__next__
    assert asked.read(["squeue"]).stderr == GONE
    assert clock.slept[:4] == [0.25, 1.5, 1.0, 6.0]
    assert max(clock.slept) <= 1.5 * MOST_PAUSE_S


def test_the_last_word_comes_before_the_deadline():
    clock = Clock()
    answer = patience(clock, Slurm(clock, GONE, takes_s=9.0)).read(["squeue"])
    assert answer.failure().exit_code == 69
    assert 1030 < clock.now <= 1060


def test_each_attempt_gets_the_time_that_is_left():
    clock = Clock()
    slurm = Slurm(clock, GONE, takes_s=9.0)
    patience(clock, slurm, total_s=20).read(["squeue"])
    assert [timeout_s for *_, timeout_s in slurm.asked] == pytest.approx([20, 10.5])
    slow = Slurm(clock, "", takes_s=99)
    with pytest.raises(TryAgainError):
        patience(clock, slow, total_s=20).read(["squeue"])
    assert len(slow.asked) == 1


@pytest.mark.parametrize(
    "stderr",
    [
        "Invalid job id specified",
        "Access/permission denied",
        "squeue: fatal: Could not establish a configuration source",
        "squeue: error: Munge encode failed: Failed to access socket\nUnable to contact slurm "
        "controller (connect failure)",
    ],
)
def test_what_will_not_pass_is_not_asked_again(stderr):
    clock = Clock()
    slurm = Slurm(clock, stderr, "")
    assert patience(clock, slurm).read(["squeue"]).stderr == stderr
    assert (len(slurm.asked), clock.slept) == (1, [])


def test_after_one_question_in_vain_the_next_ones_are_asked_once_until_one_is_answered():
    clock = Clock()
    slurm = Slurm(clock, GONE)
    asked = patience(clock, slurm)
    asked.read(["squeue"])
    slurm.asked.clear()
    asked.read(["sprio"])
    assert len(slurm.asked) == 1
    slurm.answers = ["", GONE, ""]
    asked.read(["squeue"])
    assert asked.read(["squeue"]).status == 0


def test_a_caller_that_comes_again_by_itself_is_answered_at_once():
    clock = Clock()
    slurm = Slurm(clock, GONE)
    asked = patience(clock, slurm, asks_again=False)
    for _ in range(2):
        asked.read(["squeue"])
    assert (len(slurm.asked), clock.slept) == (2, [])


def test_what_changes_something_is_sent_once():
    clock = Clock()
    slurm = Slurm(clock, BUSY)
    assert patience(clock, slurm).once(["scontrol"], "update jobid=1\n").stderr == BUSY
    assert slurm.asked == [(["scontrol"], "update jobid=1\n", 60.0)]


def test_a_late_answer_is_announced_once_and_names_who_is_late():
    clock, told = Clock(), []
    may_answer = threading.Event()

    def notify(words):
        told.append(words)
        may_answer.set()

    def slow(argv, *, stdin=None, timeout_s):
        clock.now += 5
        assert may_answer.wait(60)
        return Completed(tuple(argv), 0, "", "")

    asked = patience(clock, slow, notify=notify, silent_s=0.001)
    asked.read(["sacct"])
    asked.read(["squeue"])
    assert told == ["slurmdbd does not answer yet; trying for 60 s"]


def test_quick_answers_are_not_announced():
    clock, told = Clock(), []
    patience(clock, Slurm(clock, ""), notify=told.append).read(["squeue"])
    assert told == []
    assert not [t for t in threading.enumerate() if isinstance(t, threading.Timer)]


def test_after_a_burst_questions_are_spaced():
    clock = Clock()
    pace = Pace(monotonic=clock.monotonic, sleep=clock.sleep)
    burst = int(CALLS_PER_S)
    for _ in range(burst):
        pace.wait()
    assert clock.slept == []
    for _ in range(2 * burst):
        pace.wait()
    assert clock.now - 1000 == pytest.approx(2)
    clock.now += 3600
    clock.slept.clear()
    for _ in range(burst):
        pace.wait()
    assert clock.slept == []
