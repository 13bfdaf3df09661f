"""A writer that does not come back, as where a file server is gone: it is said, and waits end."""

from __future__ import annotations

import logging
import os
import re
import signal
from pathlib import Path

import pytest
from support.trainee import run

from gsched.ckpt import layout
from gsched.runtime.checkpoint import Checkpointer
from gsched.testbed.wait import wait_for

MANY = 10**6
SAYS = re.compile(r"checkpoint of step \d+ is not written after \d+ s: its writer \(process \d+\) ")
GRACE_S = 3.0


def writer_of(ckpt: Checkpointer) -> int:
    return ckpt._snapshots.writer_pid


def test_it_is_said_once_and_training_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said_at: list[int] = []

    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == 3:
            os.kill(writer_of(ckpt), signal.SIGSTOP)
        elif not said_at and SAYS.search(caplog.text):
            said_at.append(ckpt.step)
        elif said_at and ckpt.step == said_at[0] + 100:
            os.kill(writer_of(ckpt), signal.SIGCONT)
            ckpt.stop()
        elif ckpt.step == 5_000:
            os.kill(writer_of(ckpt), signal.SIGCONT)
            pytest.fail("nothing was said")

    with caplog.at_level(logging.INFO, "gsched.checkpoint"):
        run(tmp_path, MANY, at_step=at_step, every=0.05, snapshot_every=1)
    assert len(SAYS.findall(caplog.text)) == 1
    assert "is stopped, as by SIGSTOP; until it answers, no newer one is" in caplog.text
    assert (tmp_path / layout.step_name(said_at[0] + 101)).exists()


def test_at_a_signal_it_is_waited_for_no_longer_than_leaves_time_to_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    writers: list[int] = []

    def at_step(ckpt: Checkpointer) -> None:
        if ckpt.step == 3:
            writers.append(writer_of(ckpt))
            os.kill(writers[0], signal.SIGSTOP)
            os.kill(os.getpid(), signal.SIGTERM)

    with caplog.at_level(logging.INFO, "gsched.checkpoint"), pytest.raises(SystemExit) as stopped:
        run(tmp_path, 15, at_step=at_step, snapshot_every=1, grace_s=GRACE_S)
    os.kill(writers[0], signal.SIGCONT)
    assert stopped.value.code == 143
    last = caplog.messages[-1]
    found = re.search(r"NOTHING is saved: .* is stopped, as by SIGSTOP, after (\S+) s", last)
    assert found, last
    assert 0 < float(found[1]) <= 0.9 * GRACE_S
    wait_for(lambda: (tmp_path / layout.step_name(4)).exists(), "the writer, left to itself")
