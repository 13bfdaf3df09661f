"""How a run ends whose checkpoints cannot be written, and what it says of that."""

from __future__ import annotations

import logging
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from gsched.ckpt import layout
from gsched.errors import UnavailableError
from gsched.runtime.checkpoint import Checkpointer
from gsched.runtime.checkpoint.folder_check import write_problem
from gsched.runtime.checkpoint.last_words import stop_words

UNWRITABLE = Path("/sys/kernel")
"""Nobody, root neither, can make a file there."""


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "gsched.checkpoint")
    return caplog


def train(
    folder: Path,
    num_steps: int,
    *,
    in_step: Callable[[int], None] = lambda _: None,
    after: Callable[[], None] = lambda: None,
) -> None:
    """A loop, and what its script does after it, within the block."""
    with Checkpointer(folder, every=3600, note={}) as ckpt:
        for step in ckpt.steps(num_steps):
            in_step(step)
        after()


def put_in_the_way(folder: Path) -> None:
    folder.rename(folder.parent / "elsewhere")
    folder.write_text("no folder")


def put_back(folder: Path) -> None:
    folder.unlink()
    (folder.parent / "elsewhere").rename(folder)


def test_a_folder_that_cannot_be_written_is_said_before_the_first_step(log) -> None:
    said: list[str] = []
    with pytest.raises(UnavailableError):
        train(UNWRITABLE, 1, in_step=lambda _: said.extend(log.messages))
    assert said[0].startswith(f"no checkpoint can be saved: {UNWRITABLE} cannot be written: ")


def test_looking_leaves_nothing_behind(tmp_path: Path) -> None:
    assert write_problem(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []


def test_what_comes_after_the_loop_runs_and_then_the_failure_is_raised() -> None:
    done: list[object] = []
    with pytest.raises(UnavailableError, match="last checkpoint, of step 2, failed: ") as failed:
        train(UNWRITABLE, 2, in_step=done.append, after=lambda: done.append("after"))
    assert done == [0, 1, "after"]
    assert "hint: see gsched ckpt list" in "".join(traceback.format_exception(failed.value))


def test_an_exception_after_the_loop_goes_before_the_failure() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(UNWRITABLE, 2, after=fail)


def test_what_failed_at_the_loops_end_is_tried_once_more(tmp_path: Path, log) -> None:
    folder = tmp_path / "checkpoints"
    train(
        folder,
        1,
        in_step=lambda _: put_in_the_way(folder),
        after=lambda: put_back(folder),
    )
    assert (folder / layout.step_name(1)).exists()
    assert "(there is none yet)" in log.text
    assert " kB in " in log.messages[-1], "a small size has a small unit"


def test_after_an_earlier_start_it_is_said_which_step_stays(tmp_path: Path, log) -> None:
    folder = tmp_path / "checkpoints"
    train(folder, 1)
    train(
        folder,
        2,
        in_step=lambda _: put_in_the_way(folder),
        after=lambda: put_back(folder),
    )
    assert "(that of step 1 stays)" in log.text


def test_a_signal_with_nothing_saved_says_so_and_why(log) -> None:
    with pytest.raises(SystemExit) as stopped:
        train(UNWRITABLE, 9, in_step=lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert stopped.value.code == 143
    assert log.records[-1].levelno == logging.ERROR
    assert "stopped by a signal: NOTHING is saved: " in log.messages[-1]
    assert os.fspath(UNWRITABLE) in log.messages[-1].partition("NOTHING")[2]


@pytest.mark.parametrize(
    ("saved", "loaded", "says"),
    [
        (9, None, "the checkpoint is that of step 9"),
        (8, None, "the checkpoint is that of step 8; step 9 is not saved: it hangs"),
        (None, 4, "NOTHING that was done since step 4 is saved: it hangs"),
        (None, None, "NOTHING is saved: it hangs"),
        (None, 9, "nothing was done since step 9, which stays saved"),
    ],
)
def test_words_at_a_signal(saved: int | None, loaded: int | None, says: str) -> None:
    assert stop_words(step=9, saved=saved, loaded=loaded, why_not="it hangs")[1] == says
