"""`gsched top` on a real terminal (a pty of 80×24) before a real Slurm."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.site import GSCHED
from support.terminal import Terminal

from gsched.testbed.cluster import Testbed
from gsched.testbed.environment import as_user
from gsched.testbed.processes import find
from gsched.testbed.wait import wait_for

pytestmark = pytest.mark.slurm


def submit(bed: Testbed, name: str, user: str | None = None, *options: str) -> str:
    words = ("sbatch", "--parsable", "-J", name, "-o", "/dev/null", "--gres=gpu:8", *options)
    answer = bed.run([*words, "--wrap", "sleep 300"], user)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout.strip()


@contextmanager
def top(bed: Testbed, *options: str, user: str = "root", **environ: str) -> Iterator[Terminal]:
    """The live view in a shell that says afterwards how it ended and whether the line is sane."""
    command = shlex.join(as_user((GSCHED, "top", "-d", "1", *options), user))
    script = f"stty -g > $HOME/b; {command}; echo code=$?; stty -g > $HOME/a"
    env = bed.env(user) | {"TERM": "xterm-256color"} | environ
    with Terminal(("/bin/sh", "-c", script), env) as terminal:
        yield terminal


def modes(bed: Testbed, user: str = "root") -> tuple[str, str]:
    home = bed.layout.home(user)
    return (home / "b").read_text(), (home / "a").read_text()


def has(text: str) -> Any:
    return lambda terminal: text in terminal.text


def test_a_user_watches_the_queue_and_leaves(bed: Testbed) -> None:
    submit(bed, "mine\x1b[2J", "games", "--hold")
    submit(bed, "theirs", "news", "--hold")
    with top(bed, user="games") as terminal:
        terminal.wait(has("theirs"), "the jobs")
        first = terminal.lines[0]
        assert first.startswith("testbed: 4 nodes, GPUs 0/32 used   0 running, 2 pending")
        assert "no predictions" in terminal.lines[1]
        assert "mine\\x1b[2J" in terminal.text
        assert "q quit" in terminal.lines[23]
        terminal.press("u")
        terminal.wait(lambda t: "theirs" not in t.text and "mine" in t.text, "own jobs only")
        submit(bed, "another", "games", "--hold")
        terminal.wait(has("another"), "the new job")
        terminal.press("/moth")
        terminal.wait(lambda t: "mine" not in t.text, "the filter")
        terminal.press("\r\x1b")
        terminal.wait(has("mine"), "all of them again")
        terminal.press("\r")
        terminal.wait(has("submit time"), "the details")
        terminal.press("q")
        terminal.wait(lambda t: "q quit" in t.text and "JOBID" in t.text, "the list again")
        terminal.resize(46, 10)
        terminal.wait(lambda t: "PARTITION" not in t.text and "JOBID" in t.text, "fewer columns")
        terminal.press("q")
        assert terminal.end() == 0
    assert b"\x1b[?1049l" in terminal.output  # the other screen, with what was on it before
    assert b"\x1b[?25h" in terminal.output  # the cursor
    assert modes(bed, "games")[0] == modes(bed, "games")[1]


@pytest.mark.parametrize(
    ("ending", "code"),
    [("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)],
)
def test_the_terminal_is_restored_however_it_ends(
    bed: Testbed, ending: str | signal.Signals, code: int
) -> None:
    with top(bed) as terminal:
        terminal.wait(has("0 jobs"), "the view")
        if isinstance(ending, str):
            terminal.press(ending)
        else:
            os.kill(_child(terminal.pid), ending)
        assert terminal.end() == 0
        assert f"code={code}" in terminal.text
    assert b"\x1b[?1049l" in terminal.output
    before, after = modes(bed)
    assert before == after


def test_nothing_is_left_when_the_window_is_closed(bed: Testbed) -> None:
    with top(bed) as terminal:
        terminal.wait(has("0 jobs"), "the view")
        viewer = _child(terminal.pid)
        terminal.press("?q" * 500)  # draws more than the window takes, and waits for it
        wait_for(lambda: _waits_for_the_window(viewer), "a view that cannot go on drawing")
        terminal.hang_up()
        wait_for(lambda: not _runs(viewer), "the view to end")


def _waits_for_the_window(pid: int) -> bool:
    where = [(task / "wchan").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    return any("tty" in name or "wait_woken" in name for name in where)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _child(pid: int) -> int:
    with open(f"/proc/{pid}/task/{pid}/children") as file:  # noqa: PTH123
        return int(file.read().split()[0])


def test_without_slurmctld_the_last_answer_stays_and_comes_back() -> None:
    with Testbed.temporary(num_nodes=1, extra_conf=("MessageTimeout=2",)) as bed:
        submit(bed, "waits", None, "--hold")
        with top(bed, NO_COLOR="1") as terminal:
            terminal.wait(has("waits"), "the job")
            bed.kill_slurmctld()
            terminal.wait(has("no answer since"), "that there is no answer")
            assert "waits" in terminal.text
            bed.start_slurmctld()
            terminal.wait(lambda t: "no answer" not in t.text, "an answer")
            assert "waits" in terminal.text
            terminal.press("q")
            assert terminal.end() == 0
        assert b"\x1b[31" not in terminal.output  # NO_COLOR


def test_leaving_while_slurm_hangs_leaves_nothing_behind() -> None:
    with Testbed.temporary(num_nodes=1, extra_conf=("MessageTimeout=60",)) as bed:
        controllers = [p.pid for p in find(bed.spec.root) if p.program == "slurmctld"]
        with top(bed) as terminal:
            terminal.wait(has("0 jobs"), "the view")
            for pid in controllers:
                os.kill(pid, signal.SIGSTOP)
            try:
                terminal.wait(lambda _: _asks(bed), "a squeue under way")
                terminal.press("q")
                assert terminal.end() == 0
                assert "code=0" in terminal.text
                assert not _asks(bed)
            finally:
                for pid in controllers:
                    os.kill(pid, signal.SIGCONT)


def _asks(bed: Testbed) -> bool:
    return any(p.program in ("squeue", "scontrol") for p in find(bed.spec.root))


def test_a_dumb_terminal_is_told_what_to_use(bed: Testbed) -> None:
    with top(bed, TERM="dumb") as terminal:
        assert terminal.end() == 0
    assert "gsched queue" in terminal.text
    assert "code=2" in terminal.text


def test_a_filter_is_that_of_queue(bed: Testbed) -> None:
    submit(bed, "one", "games", "--hold")
    submit(bed, "two", "news", "--hold")
    ids = [j["job"] for j in json.loads(bed.run([GSCHED, "queue", "--json"]).stdout)["jobs"]]
    assert len(ids) == 2
    with top(bed, "-u", "news") as terminal:
        terminal.wait(has("two"), "the job of news")
        assert "one" not in terminal.text
        terminal.press("q")
        assert terminal.end() == 0
