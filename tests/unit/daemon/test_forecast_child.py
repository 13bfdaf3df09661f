"""The forecasting process as the daemon keeps it: real processes, really killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.forecast_children import MODULE, environment

from gsched.daemon.forecast_child import MAX_MESSAGE_BYTES, ForecastChild, Patience
from gsched.errors import DataError
from gsched.testbed.wait import wait_for

PROC = Path("/proc")


@dataclass
class Asked:
    """A piece of work that keeps its answer."""

    text: str = "what?"
    answers: list[dict[str, Any]] = field(default_factory=list)
    wrong: bool = False

    def question(self) -> str:
        if not self.text:
            raise DataError("nothing to ask")
        return self.text

    def take(self, answer: str) -> None:
        if self.wrong:
            raise DataError("no answer")
        self.answers.append(json.loads(answer))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def child(behaviour: str, **patience: float) -> Iterator[tuple[ForecastChild, Clock]]:
    clock = Clock()
    made = ForecastChild(MODULE, lambda: environment(behaviour), Patience(**patience), clock)
    with made.running():
        yield made, clock


def ask(made: ForecastChild, work: Asked | None = None) -> dict[str, Any]:
    """What comes of a question; {} when nothing does."""
    work = work or Asked()
    assert made.ask(work)
    wait_for(lambda: not made._busy, "the child to be through with it", 60.0)
    return work.answers[0] if work.answers else {}


def is_running(pid: int) -> bool:
    """Whether there is such a process that is not just waiting to be forgotten."""
    try:
        words = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return words[0] != "Z"


def test_one_child_answers_one_question_after_the_other() -> None:
    with child("echo") as (made, _):
        first, second = ask(made, Asked("one")), ask(made, Asked("two"))
        assert (first["asked"], second["asked"]) == ("one", "two")
        assert first["pid"] == second["pid"] == made.state.pid != os.getpid()
        assert (made.state.started, made.state.failures, made.state.problem) == (1, 0, "")
    assert not is_running(first["pid"])
    assert made.state.pid is None


def test_the_child_stands_back_and_is_out_of_the_terminals_reach() -> None:
    with child("echo") as (made, _):
        told = ask(made)
    assert told["nice"] == min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    assert told["session"] == told["pid"] != os.getsid(0)
    assert told["ignored"] == ["SIGINT", "SIGHUP"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_signals_that_mean_the_daemon_do_not_end_it(number: signal.Signals) -> None:
    with child("echo") as (made, _):
        pid = ask(made)["pid"]
        os.kill(pid, number)
        assert ask(made)["pid"] == pid


def test_a_child_that_is_killed_is_replaced_after_a_pause() -> None:
    with child("echo", pause_s=10.0) as (made, clock):
        first = ask(made)["pid"]
        os.kill(first, signal.SIGKILL)
        assert ask(made) == {}
        assert made.state.failures == 1
        assert "signal 9" in made.state.problem
        assert made.state.pid is None
        assert not made.is_ready
        assert not made.ask(Asked())  # and nobody waits for it
        clock.now += 10.0
        second = ask(made)
        assert second["pid"] != first
        assert (made.state.started, made.state.failures, made.state.problem) == (2, 1, "")


def test_pauses_double_up_to_a_bound_and_begin_anew_after_an_answer() -> None:
    with child("dies", pause_s=10.0, most_pause_s=35.0) as (made, clock):
        pauses = []
        for _ in range(4):
            assert ask(made) == {}
            began = clock.now
            while not made.is_ready:
                clock.now += 1.0
            pauses.append(clock.now - began)
        assert pauses == [10.0, 20.0, 35.0, 35.0]
        assert made.state.problem == "the other side hung up (exit status 3)"
        made._environment = lambda: environment("echo")
        assert ask(made)
        os.kill(made.state.pid or 0, signal.SIGKILL)
        assert ask(made) == {}
        clock.now += 10.0
        assert made.is_ready


def test_a_child_that_stands_still_is_killed_in_its_time() -> None:
    with child("silent", first_answer_s=1.0, answer_s=1.0) as (made, _):
        assert made.ask(Asked())
        wait_for(lambda: made.state.pid is not None, "the child to run")
        pid = made.state.pid or 0
        wait_for(lambda: made.state.failures == 1, "the deadline", 30.0)
        assert "time-out" in made.state.problem
        assert not is_running(pid)


def test_a_child_that_does_not_take_its_question_is_killed() -> None:
    with child("deaf", first_answer_s=1.0) as (made, _):
        assert ask(made, Asked("x" * 4_000_000)) == {}
        assert "does not listen" in made.state.problem


def test_an_answer_without_end_is_cut_off() -> None:
    with child("long") as (made, _):
        assert ask(made) == {}
        assert made.state.problem.startswith(f"a line of more than {MAX_MESSAGE_BYTES} bytes")


def test_an_answer_that_is_none_ends_the_child_and_a_question_that_is_none_does_not() -> None:
    with child("echo") as (made, clock):
        pid = ask(made)["pid"]
        assert ask(made, Asked("")) == {}
        assert made.state.problem == "nothing to ask"
        assert is_running(pid)
        clock.now += 1e6
        assert ask(made, Asked(wrong=True)) == {}
        assert "no answer" in made.state.problem
        assert not is_running(pid)


def test_a_stopped_child_does_not_hold_up_the_daemons_end() -> None:
    with child("silent", first_answer_s=600.0) as (made, _):
        made.ask(Asked())
        wait_for(lambda: made.state.pid is not None, "the child to run")
        pid = made.state.pid or 0
    assert not is_running(pid)
    assert made.state.failures == 0  # that is no failure of its own
    assert not made.ask(Asked())


def test_it_can_run_again_after_its_end() -> None:
    made = ForecastChild(MODULE, lambda: environment("echo"))
    for number in (1, 2):
        with made.running():
            assert ask(made)
        assert made.state.started == number


def test_a_program_that_is_not_there_is_a_failure_and_no_more() -> None:
    made = ForecastChild("support.no_such_program", lambda: environment("echo"))
    with made.running():
        assert ask(made) == {}
    assert "exit status 1" in made.state.problem


PARENT = """
import os, sys
from support.forecast_children import MODULE, environment
from gsched.daemon.child_process import ChildProcess
child = ChildProcess.start(MODULE, environment(sys.argv[1]))
print(child.process.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("behaviour", "stopped"), [("echo", False), ("deaf", False), ("echo", True)]
)
def test_the_child_dies_with_its_parent(behaviour: str, stopped: bool) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, behaviour],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment("echo"),
        text=True,
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 10)
    wait_for(lambda: os.getpriority(os.PRIO_PROCESS, pid) == niceness, "the child to have begun")
    if stopped:
        os.kill(pid, signal.SIGSTOP)
    parent.kill()
    parent.communicate()
    wait_for(lambda: not is_running(pid), "the child to die", 30.0)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_fault_of_gsched_itself_ends_the_forecasts_and_is_told() -> None:
    class Faulty(Asked):
        def take(self, answer: str) -> None:
            raise KeyError(answer)

    with child("echo") as (made, _):
        pid = ask(made)["pid"]
        assert ask(made, Faulty()) == {}
        wait_for(lambda: not is_running(pid), "the child to be ended", 30.0)
        assert "fault of gsched" in made.state.problem
        assert not made.is_ready


def test_who_asks_does_not_wait_for_the_child() -> None:
    with child("deaf", first_answer_s=600.0) as (made, _):
        assert made.ask(Asked("x" * 4_000_000))  # more than a pipe holds
        assert not made.ask(Asked())
